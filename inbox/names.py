"""Names: how agents and tasks may be called, and who is asking."""

import functools
import re
import secrets
from typing import NamedTuple

from inbox.errors import ReservedName

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
AGENT = re.compile(rf"{NAME}(@{NAME})?")
PLACEHOLDER = re.compile(r"[{<\[$].*[}>\])]")
TASK_LENGTH = 200
TASK_ROUTES = ("messages", "close", "purge")  # what a path has behind a task id
POSTMASTER = "postmaster"
SERVICE = "service:"  # what the address of a service begins with
SERVICE_NAME = re.compile(NAME)
LONGEST = 150  # characters, more than a name may have
KEPT = 4096  # names and task ids that have been looked at: the same come again and again

MESSAGE_TYPES = (
    "request",
    "question",
    "answer",
    "done",
    "failed",
    "message",
    "progress",
    "cancel",
)
OPENING_TYPES = ("request", "question", "message")  # may begin a thread without a task id
FACT_TYPES = ("name", "agent", "seen", "room", "member", "worker", "token", "invite", "box",
              "note", "closed", "retired", "queue", "sweep", "awaited")  # fmt: skip


class Actor(NamedTuple):
    """Who is asking: an agent of a realm, or nobody in particular (the operator)."""

    realm: str
    name: str | None = None


def agent_fault(text: str) -> str | None:
    """What is wrong with an agent's name, in words; None when nothing is."""
    return _agent_fault(text[:LONGEST])


@functools.lru_cache(KEPT)
def _agent_fault(text: str) -> str | None:
    if AGENT.fullmatch(text):
        return None
    if PLACEHOLDER.fullmatch(text):
        return "looks like an unfilled placeholder"
    return (
        "a name is 1 to 64 letters, digits, dots, underscores and hyphens, beginning with a letter"
        " or digit; then optionally @ and a box of the same form"
    )


def service_fault(text: str) -> str | None:
    """What is wrong with the name of a service, in words; None when nothing is."""
    if SERVICE_NAME.fullmatch(text):
        return None
    if PLACEHOLDER.fullmatch(text):
        return "looks like an unfilled placeholder"
    return (
        "the name of a service is 1 to 64 letters, digits, dots, underscores and hyphens, beginning"
        " with a letter or digit"
    )


def service(name: str) -> str:
    """The address of a service."""
    return SERVICE + name


def task_fault(text: str) -> str | None:
    """What is wrong with a task id, in words; None when nothing is."""
    if not 1 <= len(text) <= TASK_LENGTH:
        return f"a task id has 1 to {TASK_LENGTH} characters"
    return _task_fault(text)


@functools.lru_cache(KEPT)
def _task_fault(text: str) -> str | None:
    if not text.isprintable():
        return "a task id has printable characters only"
    if text.startswith(("room:", "dm:")):
        return "a task id does not begin with room: or dm:"
    if PLACEHOLDER.fullmatch(text):
        return "looks like an unfilled placeholder"
    if text.strip("/") != text or "//" in text or text.rpartition("/")[2] in TASK_ROUTES:
        return (
            "the slashes in a task id stand between its parts,"
            f" and its last part is none of {', '.join(TASK_ROUTES)}"
        )
    return None


def new_task() -> str:
    """A task id that no other task has."""
    return "task-" + secrets.token_hex(10)


def key(name: str) -> str:
    """What a name is looked up by: names that differ only in case share it."""
    return name.lower()


def spelt(name: str) -> str:
    """How a name's fact keeps its spelling."""
    return f'"{name}"'  # no character of a name needs escaping in JSON


@functools.lru_cache(KEPT)
def forms(name: str) -> tuple[str, str]:
    """Both: what a name is looked up by, and how its fact keeps its spelling."""
    return key(name), spelt(name)


def unreserved(name: str) -> str:
    """The name; raises ``ReservedName`` for the service's own."""
    if key(name) == POSTMASTER:
        raise ReservedName(f"{name} is the name of the service itself.")
    return name
