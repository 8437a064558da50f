"""Waiting: a view that finds nothing yet returns a ``Parked``, and is called again later.

The loop worker parks the request without a thread; a server with threads
waits in the request's own; one that has neither answers at once.
"""

import re
import time
from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple

from api.call import Answer, Call
from inbox.bell import Address, Wait

LONGEST = 30.0  # seconds
BRIEF = 1.0  # seconds that a read waits for a commit which others wait behind
SOON = 0.01  # seconds between two such looks
PREFER = re.compile(r"(?:^|[,;])\s*wait\s*=\s*\"?(\d+)\"?\s*(?:$|[,;])", re.IGNORECASE)


class Parked(NamedTuple):
    """A view's word that it has nothing to say yet, and what it waits for."""

    wait: Wait
    brief: bool = False  # a few milliseconds: worth blocking for, whatever serves


class Later(Enum):
    """A look's word that it has nothing yet, and when to look again."""

    RUNG = "when the bell rings"
    SOON = "in a few milliseconds"


Look = Callable[[bool], Answer | Later]


def seconds(call: Call) -> float:
    """How long the caller is willing to wait: ``wait``, ``timeout`` or ``Prefer: wait=N``."""
    for given in (call.query, call.body):
        if given:
            for name in ("wait", "timeout"):
                if name in given:
                    return float(given[name])
    prefer = call.headers.get("HTTP_PREFER")
    preferred = PREFER.search(prefer) if prefer else None
    return min(float(preferred[1]), LONGEST) if preferred else 0.0


def until(
    call: Call, patience: float, addresses: Iterable[Address], look: Look, fenced: bool = False
) -> Answer | Parked:
    """The answer of ``look``, called now and again until it has one or patience has ended.

    ``look(True)`` is the last one and always answers. The wait is taken out
    before looking, so that nothing is missed in between. ``fenced`` is for a
    look that may ask for another one soon, also of a caller without patience.
    """
    wait = call.wait
    if wait is not None:
        wait.watch(wait.addresses)
    elif patience:
        wait = Wait(addresses, patience)
    last = call.final or (wait.over() if wait is not None else not fenced)
    try:
        answer = look(last)
        if answer is Later.RUNG and (wait is None or not wait.addresses):
            answer = look(True)
    except BaseException:
        if wait is not None:
            wait.cancel()
        raise
    if isinstance(answer, Later):
        return _parked(wait, answer)
    if wait is not None:
        wait.cancel()
    return answer


def _parked(wait: Wait | None, later: Later) -> Parked:
    if later is Later.RUNG:
        assert wait is not None, "without patience a look that finds nothing is the last"
        return Parked(wait)
    wait = wait or Wait((), BRIEF)
    wait.deadline = min(wait.deadline, time.monotonic() + SOON)
    return Parked(wait, brief=True)
