"""The tour of README.md, typed into one shell as a newcomer would, against a real gunicorn.

Every ``sh`` block of the tour is run as it stands, but for the port. A ``json``
or ``text`` block after it is what it must print; ids and times differ.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
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
SECONDS = 120  # more than the tour can take


class Step(NamedTuple):
    """One block of commands, and the block of what it prints, if the tour shows it."""

    commands: str
    language: str
    output: str


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
def printed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """What each step of the tour has printed, run in one shell with job control."""
    folder = tmp_path_factory.mktemp("tour")
    environ = environment(f"sqlite:///{folder}/taskpost.db")
    (folder / "bin").mkdir()
    pids = folder / "pids"
    # `make run` without the virtual environment: this one has what it needs.
    serve = f'[ "$1" = run ] && echo $$ >> {pids} && cd {PROJECT} && exec {" ".join(COMMAND)}'
    _program(folder / "bin" / "make", serve)
    _program(folder / "bin" / "python3", f'exec {sys.executable} "$@"')
    environ["PATH"] = f"{folder / 'bin'}:{environ['PATH']}"
    script = "set -e -m\n" + "".join(f"printf '{MARK}'\n{step.commands}" for step in STEPS)
    port = environ["TASKPOST_PORT"]
    try:
        done = subprocess.run(
            ["bash", "-c", script.replace("127.0.0.1:8080", f"127.0.0.1:{port}")],
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        log = (folder / "server.log").read_text()
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{log}"
        yield done.stdout.split(MARK)[1:]
    finally:
        _end(pids)


def _program(path: Path, command: str) -> None:
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(0o700)


def _end(pids: Path) -> None:
    """Kill the process groups of what the tour has started, where the tour has not."""
    for line in pids.read_text().split() if pids.exists() else ():
        try:
            os.killpg(int(line), signal.SIGKILL)
        except ProcessLookupError:
            continue  # gone, as it should be


def _masked(text: str) -> str:
    for pattern, name in VARIABLE:
        text = pattern.sub(name, text)
    return text.strip()


def _value(step: Step, text: str) -> Any:
    return json.loads(_masked(text)) if step.language == "json" else _masked(text)


@pytest.mark.parametrize("number", range(len(STEPS)))
def test_a_step_of_the_tour_prints_what_the_text_says(printed: list[str], number: int) -> None:
    step = STEPS[number]
    if step.language:
        assert _value(step, printed[number]) == _value(step, step.output), step.commands
    else:
        assert printed[number] == ""


def test_the_tour_holds_the_whole_conversation_across_a_kill() -> None:
    commands = "".join(step.commands for step in STEPS)
    types = re.findall(r'"type": "(\w+)"', commands)
    assert types[:4] == ["request", "question", "answer", "done"]
    killed = commands.index("kill -9")
    assert commands.index('"question"') < killed < commands.index('"answer"')
    assert commands.index("make run", killed) > killed
