"""The settings: one table, read from the environment and nowhere else.

A name that is unknown or a value that does not fit stops the start; nothing
ever falls back to a default because it could not be read.
"""

import difflib
import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

PREFIX = "TASKPOST_"
YEARS = 100 * 365 * 24 * 3600


class SettingsError(Exception):
    """A setting that the service cannot start with, in one readable line."""


class Setting(NamedTuple):
    """One setting: its environment variable is ``TASKPOST_`` and the name in capitals."""

    name: str
    type: str  # as the documents name it
    default: str
    help: str
    read: Callable[[str], object]

    @property
    def variable(self) -> str:
        """The environment variable."""
        return PREFIX + self.name.upper()


class Settings(NamedTuple):
    """The settings as read; sizes in bytes, times in seconds."""

    host: str
    port: int
    database: str
    database_timeout: float
    workers: int
    threads: int
    max_body: int
    graceful_timeout: int
    max_waiting: int
    keep_acked: float
    keep_unread: float
    keep_dead: float
    keep_closed: float


def _number(least: float, most: float, kind: type = int) -> Callable[[str], object]:
    def read(text: str) -> object:
        if not re.fullmatch(r"[0-9]+" if kind is int else r"[0-9]+(\.[0-9]+)?", text):
            raise ValueError("is not a number")
        value = kind(text)
        if not least <= value <= most:
            raise ValueError(f"is not between {least} and {most}")
        return value

    return read


def _loopback(text: str) -> str:
    if text == "localhost":
        return text
    try:
        local = ipaddress.ip_address(text.strip("[]")).is_loopback
    except ValueError:
        raise ValueError("is not an IP address or localhost") from None
    if not local:
        raise ValueError(
            "is not a loopback address: without credentials the service serves its own machine only"
        )
    return text.strip("[]")


def _database(text: str) -> str:
    if not text.startswith(("sqlite:///", "postgresql://", "postgres://")):
        raise ValueError("does not begin with sqlite:/// or postgresql://")
    return text


SETTINGS = (
    Setting("host", "address", "127.0.0.1", "Where to listen; a loopback address.", _loopback),
    Setting("port", "number", "8080", "The TCP port to listen on.", _number(1, 65535)),
    Setting(
        "database",
        "URL",
        "sqlite:///taskpost.db",
        "Where messages are kept: `sqlite:///relative.db`, `sqlite:////absolute.db` or"
        " `postgresql://user:password@host:port/name`.",
        _database,
    ),
    Setting(
        "database_timeout",
        "seconds",
        "5",
        "How long one statement may take before the request is answered with 503.",
        _number(0.1, 300, float),
    ),
    Setting("workers", "number", "1", "Server processes.", _number(1, 64)),
    Setting("threads", "number", "8", "Threads of each process.", _number(1, 256)),
    Setting(
        "max_body",
        "bytes",
        "1048576",
        "The largest request body, also once decompressed.",
        _number(1024, 64 << 20),
    ),
    Setting(
        "max_waiting",
        "number",
        "1000",
        "How many requests of a process may wait for something at once; a further one is"
        " answered at once, with `Retry-After`.",
        _number(1, 100_000),
    ),
    Setting(
        "graceful_timeout",
        "seconds",
        "30",
        "How long requests may take to finish after SIGTERM.",
        _number(1, 3600),
    ),
    Setting(
        "keep_acked",
        "seconds",
        "2592000",
        "How long a task is kept in which nothing happens and nothing waits; 0 keeps it for ever.",
        _number(0, YEARS, float),
    ),
    Setting(
        "keep_unread",
        "seconds",
        "2592000",
        "How long a message waits for its recipient; then it expires, and its sender is told."
        " 0 lets it wait for ever.",
        _number(0, YEARS, float),
    ),
    Setting(
        "keep_dead",
        "seconds",
        "7776000",
        "How long a task is kept in which a message has died; 0 keeps it for ever.",
        _number(0, YEARS, float),
    ),
    Setting(
        "keep_closed",
        "seconds",
        "604800",
        "How long a closed task is kept, where its closing does not say; 0 keeps it for ever.",
        _number(0, YEARS, float),
    ),
)


def read(environ: Mapping[str, str]) -> Settings:
    """The settings of an environment; raises ``SettingsError``."""
    known = {setting.variable: setting for setting in SETTINGS}
    for variable in environ:
        if variable.startswith(PREFIX) and variable not in known:
            close = difflib.get_close_matches(variable, known, n=1)
            meant = f"; did you mean {close[0]}?" if close else ""
            raise SettingsError(f"{variable} is not a setting{meant}")
    return Settings(**{setting.name: _value(setting, environ) for setting in SETTINGS})  # type: ignore[arg-type]


def _value(setting: Setting, environ: Mapping[str, str]) -> object:
    text = environ.get(setting.variable, setting.default)
    try:
        return setting.read(text)
    except ValueError as error:
        short = text[:80] if text.isprintable() else repr(text[:80])
        shown = "" if setting.name == "database" else f"={short}"
        raise SettingsError(f"{setting.variable}{shown} {error}") from None
