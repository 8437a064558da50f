"""The tour of README.md, typed into one shell as a newcomer would, against a real gunicorn.

Every ``sh`` block of the tour is run as it stands, but for the port. A ``json``
or ``text`` block after it is what it must print; ids and times differ.
"""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.acceptance.server import COMMAND, PROJECT, environment

README = PROJECT / "README.md"
TOUR = "## Five minutes with curl"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "\x1e"  # what the script prints before each block
VARIABLE = (
    (re.compile(r"\bm[0-9a-f]{16}\b"), "ID"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"), "TIME"),
    (re.compile(r'("request_id": ?)"[0-9a-f]{16}"'), r'\1"REQUEST"'),
)
SECONDS = 60  # more than the tour can take


class Step(NamedTuple):
    """One block of commands, and the block of what it prints, if the tour shows it."""

    commands: str
    language: str
    output: str


class Told(NamedTuple):
    """What each step has printed, and the log of the server's last start."""

    printed: list[str]
    log: str


def _steps() -> list[Step]:
    """The steps of the tour, in order."""
    tour = README.read_text().partition(TOUR)[2].partition("\n## ")[0]
    steps: list[Step] = []
    for language, text in BLOCK.findall(tour):
        if language == "sh":
            steps.append(Step(text, "", ""))
        else:
            assert steps[-1].language == "", f"two outputs of one block: {text}"
            steps[-1] = Step(steps[-1].commands, language, text)
    return steps


STEPS = _steps()


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What the tour has told, typed into one shell."""
    folder = tmp_path_factory.mktemp("tour")
    environ = environment(f"sqlite:///{folder}/taskpost.db")
    (folder / "bin").mkdir()
    # `make run` without the virtual environment: this one has what it needs.
    serve = f'[ "$1" = run ] && cd {PROJECT} && exec {shlex.join(COMMAND)}'
    _program(folder / "bin" / "make", serve)
    _program(folder / "bin" / "python3", f'exec {sys.executable} "$@"')
    environ["PATH"] = f"{folder / 'bin'}:{environ['PATH']}"
    script = "set -e\n" + "".join(f"printf '{MARK}'\n{step.commands}" for step in STEPS)
    port = environ["TASKPOST_PORT"]
    return _typed(script.replace("127.0.0.1:8080", f"127.0.0.1:{port}"), folder, environ)


def _program(path: Path, command: str) -> None:
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(0o700)


def _typed(script: str, folder: Path, environ: dict[str, str]) -> Told:
    with (folder / "printed").open("wb") as printed, (folder / "errors").open("wb") as errors:
        shell = subprocess.Popen(
            ["bash", "-c", script],
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=errors,
            start_new_session=True,  # a group of its own, to be killed as one
        )
        ended = _ended(shell)
    texts = [(folder / name).read_text() for name in ("printed", "errors", "server.log")]
    assert ended == "with 0", "\n".join([ended, *texts])
    return Told(texts[0].split(MARK)[1:], texts[2])


def _ended(shell: subprocess.Popen[bytes]) -> str:
    """How the shell has ended, for the report; nothing of it is left when this returns."""
    try:
        return f"with {shell.wait(SECONDS)}"
    except subprocess.TimeoutExpired:
        return f"not within {SECONDS} s"
    finally:
        with contextlib.suppress(ProcessLookupError):  # it has stopped its server, as it should
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()


def _masked(text: str) -> str:
    for pattern, name in VARIABLE:
        text = pattern.sub(name, text)
    return text.strip()


def _value(step: Step, text: str) -> Any:
    return json.loads(_masked(text)) if step.language == "json" else _masked(text)


@pytest.mark.parametrize("number", range(len(STEPS)))
def test_a_step_of_the_tour_prints_what_the_text_says(told: Told, number: int) -> None:
    step, printed = STEPS[number], told.printed[number]
    if step.language:
        assert _value(step, printed) == _value(step, step.output), step.commands
    else:
        assert printed == ""


def test_the_server_of_the_tour_was_killed_in_the_middle_and_another_has_taken_over(
    told: Told,
) -> None:
    commands = "".join(step.commands for step in STEPS)
    types = re.findall(r'"type": "(\w+)"', commands)
    assert types[:4] == ["request", "question", "answer", "done"]
    killed = commands.index("kill -9")
    assert commands.index('"question"') < killed < commands.index('"answer"')
    assert commands.count("make run") == 2
    # It could not listen if anything of the first one were left.
    assert told.log.count("Listening at") == 1
