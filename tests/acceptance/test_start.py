"""Starting: what cannot work ends with one line that says what to do; what can work starts."""

import contextlib
import os
import shutil
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from tests import postgres
from tests.acceptance.clients import Client
from tests.acceptance.server import (
    COMMAND,
    PROJECT,
    Server,
    begun,
    ended,
    environment,
    running,
    started,
)

SOON = 15.0  # seconds within which a start that cannot work must have ended
STRANGER = 54321  # a user id that nobody has


def refusal(environ: dict[str, str], **options: Any) -> str:
    """The one line with which the service says why it does not start."""
    result = ended(environ, within=SOON, **options)
    assert result.returncode not in (0, None), result.stderr
    assert "Traceback" not in result.stderr
    lines = [line for line in result.stderr.splitlines() if line.startswith("taskpost:")]
    assert len(lines) == 1, result.stderr
    return lines[0]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"databse": "x"}, "TASKPOST_DATABSE is not a setting; did you mean TASKPOST_DATABASE?"),
        ({"secret": "x"}, "TASKPOST_SECRET is not a setting"),
        ({"port": ""}, "TASKPOST_PORT= is not a number"),
        ({"host": "0.0.0.0"}, "TASKPOST_HOST=0.0.0.0 is not a loopback address"),
        ({"host": "example.com"}, "is not an IP address or localhost"),
        ({"database": "mysql://x"}, "does not begin with sqlite:/// or postgresql://"),
        ({"database": "sqlite:///:memory:"}, "a SQLite URL needs a file"),
        ({"database": "postgresql://a:hun/ter2@127.0.0.1/x"}, "must be %-encoded"),
        ({"database": "postgresql://a:hunter2@[::1/x"}, "must be %-encoded"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_setting_that_cannot_be_stops_the_start(
    settings: dict[str, str], said: str, tmp_path: Path
) -> None:
    line = refusal(environment(f"sqlite:///{tmp_path}/a.db", **settings))
    assert said in line
    assert "hun" not in line
    assert list(tmp_path.iterdir()) == []


def test_gunicorns_own_bind_does_not_get_round_the_loopback_rule(tmp_path: Path) -> None:
    environ = environment(f"sqlite:///{tmp_path}/a.db")
    environ["GUNICORN_CMD_ARGS"] = f"--bind 0.0.0.0:{environ['TASKPOST_PORT']}"
    assert "set TASKPOST_HOST and TASKPOST_PORT" in refusal(environ)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("workers", [1, 3])
def test_a_missing_folder_stops_the_start(tmp_path: Path, workers: int) -> None:
    line = refusal(environment(f"sqlite:///{tmp_path}/none/a.db", workers=workers))
    assert f"{tmp_path}/none/a.db: No such file or directory" in line
    assert "in a folder that exists" in line


def test_a_file_where_the_folder_should_be_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "Not a directory" in refusal(environment(f"sqlite:///{tmp_path}/file/a.db"))


def test_a_file_that_is_no_database_stops_the_start_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear Sir or Madam, " * 100)
    line = refusal(environment(f"sqlite:///{tmp_path}/letter.txt"))
    assert "letter.txt: file is not a database" in line
    assert (tmp_path / "letter.txt").read_text() == "Dear Sir or Madam, " * 100


def test_a_port_in_use_stops_the_start_before_anything_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        line = refusal(environment(f"sqlite:///{tmp_path}/a.db", port=port))
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in line
    assert "set TASKPOST_PORT" in line
    assert list(tmp_path.iterdir()) == []


def test_a_postgresql_that_is_not_there_stops_the_start() -> None:
    port = postgres.free_port()
    line = refusal(environment(f"postgresql://me:hunter2@127.0.0.1:{port}/x"))
    assert f"cannot connect to PostgreSQL at 127.0.0.1:{port}" in line
    assert "Connection refused" in line
    assert "hunter2" not in line


def test_a_postgresql_that_says_nothing_stops_the_start_within_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/x"
        line = refusal(environment(url, database_timeout="0.5"))
    assert "did not answer in time" in line


def test_a_database_that_is_not_there_stops_the_start(postgres_server: postgres.Server) -> None:
    line = refusal(environment(postgres_server.url("nowhere")))
    assert 'database "nowhere" does not exist' in line


@pytest.fixture
def newer(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_server: postgres.Server
) -> Callable[[str], contextlib.AbstractContextManager[str]]:
    """Makes databases that a newer version has migrated."""

    @contextlib.contextmanager
    def made(kind: str) -> Iterator[str]:
        if kind == "sqlite":
            with contextlib.closing(sqlite3.connect(tmp_path / "newer.db")) as connection:
                connection.execute("PRAGMA user_version = 99")
            yield f"sqlite:///{tmp_path}/newer.db"
            return
        with postgres_server.database("taskpost_newer") as url:
            with (
                contextlib.closing(psycopg2.connect(url)) as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute("CREATE TABLE messages (seq BIGINT)")
                cursor.execute("COMMENT ON TABLE messages IS 'taskpost schema 99'")
                connection.commit()
            yield url

    return made


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_newer_schema_stops_the_start(
    kind: str, newer: Callable[[str], contextlib.AbstractContextManager[str]]
) -> None:
    with newer(kind) as url:
        line = refusal(environment(url))
    assert "the database has schema 99, this version knows" in line
    assert "start the newer version" in line


def test_nothing_is_opened_while_gunicorn_imports(tmp_path: Path) -> None:
    program = (
        "import os, threading; before = os.listdir('/proc/self/fd'); import wsgi;"
        "print(os.listdir('/proc/self/fd') == before, threading.active_count())"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(f"sqlite:///{tmp_path}/a.db"),
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == "True 1\n"
    assert list(tmp_path.iterdir()) == []


def test_the_database_files_are_their_owners_alone_from_the_first_byte(tmp_path: Path) -> None:
    seen: dict[str, set[int]] = {}

    def look() -> None:
        for path in tmp_path.iterdir():
            with contextlib.suppress(FileNotFoundError):
                seen.setdefault(path.name, set()).add(stat.S_IMODE(path.stat().st_mode))

    with begun(environment(f"sqlite:///{tmp_path}/a.db"), umask=0) as server:
        ends = time.monotonic() + SOON
        while "a.db-wal" not in seen and time.monotonic() < ends:
            look()
        server.await_health()
        with Client(server.port, "alice") as alice:
            assert alice.send("bob", "hello")[0] == 201
        look()
    assert seen.keys() >= {"a.db", "a.db-wal", "a.db-shm", "a.db.lock"}
    assert set().union(*seen.values()) == {0o600}


def test_eight_first_starts_at_once_share_one_database(database_url: str) -> None:
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(begun(environment(database_url))) for _ in range(8)]
        for server in servers:
            server.await_health()
        for number, server in enumerate(servers):
            with Client(server.port, f"sender-{number}") as client:
                assert client.send("reader", number)[0] == 201
        with Client(servers[0].port, "reader") as reader:
            found = [message["content"] for message in reader.pages("/agents/reader/inbox")]
    assert found == list(range(8))


def test_eight_workers_start_at_once_on_a_new_database(tmp_path: Path) -> None:
    with running(f"sqlite:///{tmp_path}/a.db", workers=8) as server:
        await_workers(server, 8)
        first = server.workers()
        with Client(server.port, "alice") as alice:
            assert alice.send("bob", "hello")[0] == 201
        assert server.workers() == first
        assert "taskpost:" not in server.log()


def await_workers(server: Server, number: int) -> None:
    """Return once so many workers have said that they boot."""
    ends = time.monotonic() + SOON
    while server.log().count("Booting worker") < number:
        assert time.monotonic() < ends
        time.sleep(0.02)


@pytest.fixture
def image() -> Iterator[Path]:
    """What a container holds: a copy of the service that nobody may write to, and a data folder."""
    folder = Path(tempfile.mkdtemp(prefix="taskpost-image-"))
    service = folder / "service"
    service.mkdir()
    for name in ("app.py", "wsgi.py", "openapi.yaml"):
        shutil.copy(PROJECT / name, service)
    for name in ("api", "inbox", "models"):
        shutil.copytree(
            PROJECT / name, service / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    for path in [service, *service.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    folder.chmod(0o755)
    (folder / "data").mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(folder / "data", STRANGER, STRANGER)
    yield folder
    for path in [service, *service.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    shutil.rmtree(folder)


def contained(image: Path) -> dict[str, Any]:
    """How a container runs it: a user id without a name, in a folder that is read-only."""
    options: dict[str, Any] = {"cwd": image / "service"}
    if os.geteuid() == 0:
        options["args"] = [*as_stranger(), *COMMAND]
    return options


def as_stranger() -> list[str]:
    """Runs a command as another user, who may read everything if Python is not for all to read."""
    ids = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"]
    folders = [*Path(sys.executable).parents, *Path(sys.executable).resolve().parents]
    if all(folder.stat().st_mode & stat.S_IXOTH for folder in folders):
        return ids
    return [*ids, "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]


def test_starts_read_only_as_a_user_without_name_or_home(image: Path) -> None:
    environ = environment(f"sqlite:///{image}/data/a.db")
    assert "HOME" not in environ
    with started(environ, **contained(image)) as server:
        with Client(server.port, "alice") as alice:
            assert alice.send("bob", "hello")[0] == 201
            assert alice.call("GET", "/openapi.json")[0] == 200
        assert "Traceback" not in server.log()
        assert server.stop() == 0
    assert (image / "data" / "a.db").stat().st_size > 0


def test_a_folder_that_may_not_be_written_stops_the_start(image: Path) -> None:
    line = refusal(environment("sqlite:///taskpost.db"), **contained(image))
    assert f"{image}/service/taskpost.db: Permission denied" in line
    assert "must be able to write" in line


def test_a_file_that_may_not_be_written_stops_the_start(image: Path) -> None:
    for name in ("a.db", "a.db.lock"):
        (image / "data" / name).touch(0o444)
    (image / "data" / "a.db.lock").chmod(0o666)
    line = refusal(environment(f"sqlite:///{image}/data/a.db"), **contained(image))
    assert f"{image}/data/a.db: Permission denied" in line
