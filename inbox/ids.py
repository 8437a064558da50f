"""Public ids: opaque, of one width, sorting as their messages do."""

import re

from inbox.errors import InvalidCursor

PATTERN = re.compile(r"m[0-7][0-9a-f]{15}")  # no seq is above 2**63 - 1
RECEIPT = re.compile(r"(m[0-7][0-9a-f]{15})\.([0-9a-f]{16})")


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


def receipt(seq: int, nonce: str) -> str:
    """What the holder of a message shows to settle it: its id and the nonce of its claim."""
    return f"{written(seq)}.{nonce}"


def held(text: str) -> tuple[int, str] | None:
    """The seq and the nonce of a receipt, or the seq of an id and ''; None when it is neither."""
    found = RECEIPT.fullmatch(text)
    seq = read(found[1] if found else text)
    return (seq, found[2] if found else "") if seq is not None else None
