"""What schemathesis cannot know of the service when it makes its cases.

It loads this itself (``SCHEMATHESIS_HOOKS``), in its own process.
"""

import re
from typing import Any
from urllib.parse import urlencode

import schemathesis

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
LONGEST_QUERY = 6000  # beyond 8 KiB, escapes included, the server refuses the request line


@schemathesis.hook
def filter_case(context: schemathesis.HookContext, case: schemathesis.Case) -> bool:
    """Whether to try a case."""
    short = len(urlencode(case.query or {}, doseq=True)) < LONGEST_QUERY
    return short and not (_is_negative(case) and _lenient(case))


@schemathesis.hook
def map_case(context: schemathesis.HookContext, case: schemathesis.Case) -> schemathesis.Case:
    """The case, where it is a good one without a second caller beside that in the body."""
    if case.query and isinstance(case.body, dict) and not _is_negative(case):
        case.query.pop("as", None)
    return case


def _is_negative(case: schemathesis.Case) -> bool:
    return case.meta is not None and case.meta.generation.mode.is_negative


def _lenient(case: schemathesis.Case) -> bool:
    """Null and an empty parameter are as if left out, and a limit that is too large is cut.

    In a query null, true and 0 are words: names like any other.
    """
    query = case.query or {}
    empty = any(not value or (isinstance(value, list) and "" in value) for value in query.values())
    word = NAME.fullmatch(str(query.get("after", "")))
    cut = str(query.get("limit", "")).isdigit()
    return _has_null(case.body) or empty or bool(word) or cut


def _has_null(body: Any) -> bool:
    if isinstance(body, dict):
        return any(_has_null(value) for value in body.values())
    if isinstance(body, list):
        return any(_has_null(item) for item in body)
    return body is None
