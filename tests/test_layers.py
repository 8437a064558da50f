"""The layout: imports go down and skip no layer, no error is lost, what is public says what it is.

The checks are functions from a source to what is wrong with it, and are
themselves held against small bad sources.
"""

import ast
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]

# Of each layer, what of ours it may import beside itself.
MAY_IMPORT = {
    "models": (),
    "inbox": ("models",),
    "api": ("inbox",),
    "app": ("api", "inbox"),
    "wsgi": ("app", "inbox.settings", "inbox.turn", "inbox.bell"),
    "bench": ("tests.postgres",),
}
OURS = (*MAY_IMPORT, "tests")
SQL = ("sqlite3", "peewee", "psycopg2")
HTTP = ("flask", "werkzeug", "http", "httptools", "gunicorn", "marshmallow", "apispec")
# Of each layer, what of others' it may not know.
FOREIGN = {"models": HTTP, "inbox": HTTP + SQL, "api": SQL, "app": SQL, "wsgi": SQL, "bench": ()}

SERVICE = ("models", "inbox", "api", "app", "wsgi")
LINES = 300
# HTTP/1.1, to be held in the head as one; and a catalogue, in which one looks up an entry.
LONGER = {"api/connection.py": 480, "api/worker.py": 480, "inbox/errors.py": 330}

Named = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Check = Callable[[ast.Module, str], Iterator[str]]


def sources(*layers: str) -> list[Path]:
    """The files of layers, each a package or a module of the top."""
    return [
        path
        for layer in layers
        for path in (PROJECT / f"{layer}.py", *sorted((PROJECT / layer).rglob("*.py")))
        if path.is_file()
    ]


def wrong_imports(tree: ast.Module, layer: str) -> Iterator[str]:
    """Imports that go up, skip a layer, or bring in what the layer may not know."""
    for name in imported(tree):
        top = name.partition(".")[0]
        allowed = (layer, *MAY_IMPORT[layer])
        if top in OURS and not any(f"{name}.".startswith(f"{each}.") for each in allowed):
            yield f"imports {name}"
        if top in FOREIGN[layer]:
            yield f"knows {name}"


def imported(tree: ast.Module) -> Iterator[str]:
    """The modules that a module imports, in whatever way and place."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # "from inbox import turn" may mean a module or something in one.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and called(node) in ("__import__", "import_module"):
            argument = node.args[0] if node.args else None
            yield str(argument.value) if isinstance(argument, ast.Constant) else "tests"


def called(node: ast.Call) -> str:
    """The last part of the name of what is called."""
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def status_codes(tree: ast.Module, layer: str) -> Iterator[str]:
    """Numbers that are HTTP's statuses of errors; 500 is a number of things as well."""
    statuses = {status.value for status in HTTPStatus if status >= 400} - {500}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in statuses:
            yield f"line {node.lineno}: {node.value}"


def swallowed_errors(tree: ast.Module, layer: str) -> Iterator[str]:
    """Handlers that lose an error, or catch more than they can mean."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            caught = names_of(node.type)
            if node.type is None:
                yield f"line {node.lineno}: bare except"
            elif "BaseException" in caught and not any(
                isinstance(below, ast.Raise) for below in ast.walk(node)
            ):
                yield f"line {node.lineno}: except BaseException without raise"
            if all(does_nothing(statement) for statement in node.body):
                yield f"line {node.lineno}: except that does nothing"
        elif isinstance(node, ast.Call) and called(node) == "suppress":
            caught = {name for argument in node.args for name in names_of(argument)}
            if caught & {"Exception", "BaseException"}:
                yield f"line {node.lineno}: suppress of every error"


def names_of(node: ast.expr | None) -> set[str]:
    """The last parts of the names in an expression."""
    below = list(ast.walk(node)) if node is not None else []
    return {each.id for each in below if isinstance(each, ast.Name)} | {
        each.attr for each in below if isinstance(each, ast.Attribute)
    }


def does_nothing(statement: ast.stmt) -> bool:
    """Whether a statement is a pass, a continue or a mere value."""
    return isinstance(statement, ast.Pass | ast.Continue) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def undocumented(tree: ast.Module, layer: str) -> Iterator[str]:
    """Public modules, classes and functions that do not say what they are."""
    if not ast.get_docstring(tree):
        yield "the module"
    for each in public(tree):
        if not ast.get_docstring(each):
            yield each.name
        # Above the rules, most methods are called back by a library that has named them.
        if isinstance(each, ast.ClassDef) and layer in ("models", "inbox"):
            for below in public(each):
                if not ast.get_docstring(below):
                    yield f"{each.name}.{below.name}"


def public(node: ast.Module | ast.ClassDef) -> Iterator[Named]:
    """The public classes and functions of a module or class."""
    for each in node.body:
        named = isinstance(each, Named) and not each.name.startswith("_")
        if named and each.name != "Meta":  # a library's word
            yield each


def faults(check: Check, *layers: str) -> dict[str, list[str]]:
    """What a check finds wrong, by file."""
    found = {}
    for layer in layers:
        for path in sources(layer):
            wrong = list(check(ast.parse(path.read_text()), layer))
            if wrong:
                found[str(path.relative_to(PROJECT))] = wrong
    return found


def test_imports_go_down_and_skip_no_layer() -> None:
    assert faults(wrong_imports, *MAY_IMPORT) == {}


def test_the_rules_know_no_status_codes() -> None:
    assert faults(status_codes, "models", "inbox") == {}


def test_no_error_is_swallowed() -> None:
    assert faults(swallowed_errors, *SERVICE) == {}


def test_everything_public_says_what_it_is() -> None:
    assert faults(undocumented, *SERVICE) == {}


def test_every_file_can_be_read_in_one_sitting() -> None:
    lengths = {
        str(path.relative_to(PROJECT)): len(path.read_text().splitlines())
        for path in sources(*SERVICE)
    }
    assert {
        name: length for name, length in lengths.items() if length > LONGER.get(name, LINES)
    } == {}


def test_every_layer_is_there() -> None:
    assert all(sources(layer) for layer in SERVICE)


@pytest.mark.parametrize(
    ("layer", "source"),
    [
        ("models", "import inbox"),
        ("models", "from inbox import turn"),
        ("models", "def work():\n    from inbox.turn import alone"),
        ("models", "from werkzeug import Request"),
        ("inbox", "from api.call import Call"),
        ("inbox", "import app"),
        ("inbox", "from http import HTTPStatus"),
        ("inbox", "import flask"),
        ("inbox", "import sqlite3"),
        ("api", "from models import clock"),
        ("api", "import models.clock"),
        ("api", "import importlib\nimportlib.import_module('models.clock')"),
        ("api", "__import__('models')"),
        ("api", "name = 'x'\n__import__(name)"),
        ("api", "import psycopg2.errors"),
        ("app", "from models import database"),
        ("app", "import wsgi"),
        ("wsgi", "from inbox import send"),
        ("wsgi", "import api.service"),
        ("bench", "from inbox import ids"),
        ("inbox", "from tests import actors"),
    ],
)
def test_a_wrong_import_is_seen(layer: str, source: str) -> None:
    assert list(wrong_imports(ast.parse(source), layer))


@pytest.mark.parametrize(
    ("layer", "source"),
    [
        ("models", "import peewee\nfrom models.errors import StoreError"),
        ("inbox", "from inbox import ids\nfrom models import clock"),
        ("api", "from inbox.names import Actor\nimport inboxes"),
        ("app", "from api import log\nfrom inbox import turn"),
        ("wsgi", "import app\nfrom inbox import settings, turn"),
    ],
)
def test_a_right_import_is_let_pass(layer: str, source: str) -> None:
    assert list(wrong_imports(ast.parse(source), layer)) == []


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    work()\nexcept ValueError:\n    pass",
        "for each in []:\n    try:\n        work()\n    except ValueError:\n        continue",
        "try:\n    work()\nexcept (ValueError, KeyError) as error:\n    ...",
        "try:\n    work()\nexcept ValueError:\n    'it does not matter'",
        "try:\n    work()\nexcept:\n    log()",
        "try:\n    work()\nexcept BaseException:\n    log()",
        "import builtins\ntry:\n    work()\nexcept (KeyError, builtins.BaseException):\n    log()",
        "import contextlib\nwith contextlib.suppress(Exception):\n    work()",
        "from contextlib import suppress\nwith suppress(KeyError, BaseException):\n    work()",
    ],
)
def test_a_swallowed_error_is_seen(source: str) -> None:
    assert list(swallowed_errors(ast.parse(source), "inbox"))


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    work()\nexcept ValueError as error:\n    raise Problem() from error",
        "try:\n    work()\nexcept BaseException:\n    undo()\n    raise",
        "import contextlib\nwith contextlib.suppress(FileNotFoundError):\n    work()",
    ],
)
def test_a_handled_error_is_let_pass(source: str) -> None:
    assert list(swallowed_errors(ast.parse(source), "inbox")) == []


@pytest.mark.parametrize(
    "source",
    [
        "x = 1",
        "'''Says what it is.'''\ndef work(): ...",
        "'''Says what it is.'''\nasync def work(): ...",
        "'''Says what it is.'''\nclass Thing:\n    size = 1",
        "'''Says what it is.'''\nclass Thing:\n    '''A thing.'''\n    def work(self): ...",
    ],
)
def test_what_does_not_say_what_it_is_is_seen(source: str) -> None:
    assert list(undocumented(ast.parse(source), "inbox"))


def test_what_is_private_need_not_say_what_it_is() -> None:
    source = "'''Says what it is.'''\ndef _work(): ...\nclass _Thing:\n    def work(self): ..."
    assert list(undocumented(ast.parse(source), "inbox")) == []


def test_a_status_code_is_seen() -> None:
    assert list(status_codes(ast.parse("status = 404"), "inbox"))
