"""What tests of the store need beside it: drafts to send, and others who use the same database."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE
from typing import Any, TypeVar

from models import database, outbox
from models.outbox import Draft
from models.rows import Row

Result = TypeVar("Result")

PROJECT = Path(__file__).parents[2]


def draft(**given: Any) -> Draft:
    """A message from alice to bob on the task t, unless said otherwise."""
    usual: dict[str, Any] = {
        "realm": "main",
        "sender": "alice",
        "to": "bob",
        "type": "request",
        "content": b"1",
        "task_id": "t",
        "new_task": None,
        "reply_to": None,
        "visible_at": 0,
        "expires_at": None,
        "dedup_key": None,
        "dedup_hash": None,
    }
    values = {**usual, **given}
    for field in ("sender", "to"):
        values.setdefault(f"{field}_key", values[field].lower())
        values.setdefault(f"{field}_spelt", f'"{values[field]}"')
    return Draft(**values)


def put(**given: Any) -> Row:
    """Send a draft inside the unit of work that is open; the row."""
    row = outbox.send(draft(**given), unknown=True)
    assert row is not None
    return row


def sent(**given: Any) -> Row:
    """Send a draft in a unit of work of its own; the row."""
    database.begin()
    row = put(**given)
    database.commit()
    return row


class Other:
    """Somebody else with a connection of its own, who does one thing at a time."""

    def __init__(self) -> None:
        self.thread = ThreadPoolExecutor(1)

    def starts(self, work: Callable[..., Result], *given: Any, **named: Any) -> "Future[Result]":
        """Begin to do something; what comes of it is in the future."""
        return self.thread.submit(work, *given, **named)

    def does(self, work: Callable[..., Result], *given: Any, **named: Any) -> Result:
        """Do something; what comes of it."""
        return self.starts(work, *given, **named).result(30)


@contextlib.contextmanager
def other() -> Iterator[Other]:
    """Somebody else, whose connection is closed at the end."""
    somebody = Other()
    try:
        yield somebody
    finally:
        somebody.does(database.drop)
        somebody.thread.shutdown()


def together(code: str, count: int, *given: Any) -> list[str]:
    """Run code in several processes, all from the same moment on; what each has said.

    The code says ``ready``, waits for a line, and does what it is for;
    ``given`` are its arguments, as JSON.
    """
    command = [sys.executable, "-c", code, *map(json.dumps, given)]
    with contextlib.ExitStack() as stack:
        started = []
        for _ in range(count):
            process = subprocess.Popen(command, stdin=PIPE, stdout=PIPE, cwd=PROJECT, text=True)
            started.append(stack.enter_context(process))
            stack.callback(process.kill)
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        said = [process.communicate(timeout=60)[0] for process in started]
        assert [process.returncode for process in started] == [0] * count
    return said


def backend() -> int:
    """The process id of this thread's backend of PostgreSQL."""
    return int(database.current().execute_sql("SELECT pg_backend_pid()").fetchone()[0])
