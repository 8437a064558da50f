"""Public ids: opaque, of one width, sorting as their messages do."""

import re

from inbox.errors import InvalidCursor

PATTERN = re.compile(r"m[0-7][0-9a-f]{15}")  # no seq is above 2**63 - 1


def written(seq: int) -> str:
    """The id of the message with this seq."""
    return f"m{seq:016x}"


def read(text: str) -> int | None:
    """The seq of an id, or None when the text is no id."""
    return int(text[1:], 16) if PATTERN.fullmatch(text) else None


def cursor(text: str) -> int:
    """The place in the order that an id stands for; raises ``InvalidCursor``."""
    seq = read(text)
    if seq is None:
        raise InvalidCursor(f"`after` is {text[:80]!r}, which is not an id.")
    return seq
