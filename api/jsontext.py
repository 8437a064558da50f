"""What JSON text is like before it is read: how deep it goes, how long its numbers are."""

import re

DEPTH = 100  # how deep content may be nested
DIGITS = 4300  # of a number; CPython's own reader, for one, refuses longer ones

ESCAPED = re.compile(rb"\\.", re.DOTALL)
QUOTED = re.compile(rb'"[^"]*"')
BRACES = bytes.maketrans(b"[]", b"{}")
NEITHER = bytes(byte for byte in range(256) if byte not in b'[]{}"')  # brackets nor quotes
NINES = bytes.maketrans(b"012345678", b"999999999")
LONG = b"9" * (DIGITS + 1)


def too_deep(raw: bytes) -> bool:
    """Whether JSON text is nested more than ``DEPTH`` deep. Most need no closer look."""
    return raw.count(b"[") + raw.count(b"{") > DEPTH and depth(raw) > DEPTH


def depth(raw: bytes) -> int:
    """How deep JSON text is nested; no need to look further than a little beyond the limit."""
    if b"\\" in raw:
        raw = ESCAPED.sub(b"", raw)
    left = raw.translate(BRACES, NEITHER).replace(b'""', b"")
    if b'"' in left:  # strings with brackets in them
        left = QUOTED.sub(b"", left)
    levels = 0
    while b"{}" in left and levels <= DEPTH:
        left = left.replace(b"{}", b"")
        levels += 1
    return levels


def has_long_number(raw: bytes) -> bool:
    """Whether more than ``DIGITS`` digits follow each other in JSON text, outside of strings."""
    if LONG not in raw.translate(NINES):
        return False
    return LONG in QUOTED.sub(b'""', ESCAPED.sub(b"", raw)).translate(NINES)
