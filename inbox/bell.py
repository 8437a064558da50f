"""The bell: who waits for what in this process, and who is to look again.

A wait is taken out *before* looking. Whatever is rung between the look and
the waiting has then been heard, and cannot be missed. A ring carries an
address, never a message: whoever is woken looks again.

Addresses are an inbox, or a task's thread, of a realm. They are rung once
what was written has been committed (``inbox.turn``), or by the watch, which
hears of other processes (``inbox.watch``).
"""

import heapq
import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from models import clock

Callback = Callable[[], None]

MOST = 10_000  # timers kept; of what becomes due beyond that, the watch knows


class Address(NamedTuple):
    """Something that can be waited for: an inbox or a thread."""

    realm: str
    inbox: str | None = None
    task_id: str | None = None


class Wait:
    """One wait, for any of its addresses, until ``deadline`` (seconds of ``time.monotonic``).

    ``kept`` is what a view wants to find again when it is called again.
    """

    __slots__ = ("addresses", "callback", "deadline", "ends", "kept", "rung")

    def __init__(self, addresses: Iterable[Address], seconds: float, kept: object = None) -> None:
        self.ends = time.monotonic() + seconds  # when the caller's patience does
        self.deadline = self.ends  # when to look again at the latest
        self.kept = kept
        self.rung = False
        self.callback: Callback | None = None
        self.addresses: tuple[Address, ...] = ()
        self.watch(addresses)

    def watch(self, addresses: Iterable[Address]) -> None:
        """Wait for these addresses instead."""
        self.cancel()
        self.rung = False
        self.addresses = tuple(addresses)
        with _lock:
            for address in self.addresses:
                _waits.setdefault(address, set()).add(self)
            self.deadline = min([self.ends, *map(_next_due, self.addresses)])

    def listen(self, callback: Callback) -> None:
        """Have ``callback`` called once, when it is worth looking again; perhaps at once."""
        with _lock:
            if not self.rung:
                self.callback = callback
                return
        callback()

    def block(self) -> None:
        """Wait in this thread until it is worth looking again or the deadline has passed."""
        heard = threading.Event()
        self.listen(heard.set)
        heard.wait(max(0.0, self.deadline - time.monotonic()))
        self.callback = None

    def over(self) -> bool:
        """Whether the caller's patience has ended, or the process is about to."""
        return _dismissed.is_set() or time.monotonic() >= self.ends

    def cancel(self) -> None:
        """Wait no longer; ``watch`` the same addresses to go on."""
        with _lock:
            for address in self.addresses:
                others = _waits.get(address)
                if others is not None:
                    others.discard(self)
                    if not others:
                        del _waits[address]
            self.callback = None


_lock = threading.RLock()
_dismissed = threading.Event()
_waits: dict[Address, set[Wait]] = {}
# When delayed messages of this process become visible: all in order, and those of each address.
_timers: list[tuple[float, Address]] = []
_due: dict[Address, list[float]] = {}


class _Unit(threading.local):
    """What the unit of work of a thread has written and not yet committed."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, str, str, int]] = []  # realm, inbox, task, visible_at
        self.due: list[tuple[Address, int]] = []  # what nobody is rung for before its time


_unit = _Unit()
listeners: list[Callable[[set[Address]], None]] = []  # told what this process has committed


def written(realm: str, inbox: str, task_id: str, visible_at: int = 0) -> None:
    """Note that a message has been written; it is rung when the unit of work commits.

    ``visible_at`` is when it is to be seen, in ms, where that is later.
    """
    _unit.noted.append((realm, inbox, task_id, visible_at))


def later(realm: str, inbox: str, visible_at: int) -> None:
    """Note that something will be seen at ``visible_at``, in ms; nobody is rung before."""
    _unit.due.append((Address(realm, inbox), visible_at))


def committed() -> None:
    """Ring for what the unit of work of this thread has written."""
    noted, _unit.noted = set(_unit.noted), []
    addresses: set[Address] = set()
    for realm, inbox, task_id, visible_at in noted:
        addresses.update((Address(realm, inbox), Address(realm, task_id=task_id)))
        if visible_at:
            expect(Address(realm, inbox), visible_at)
    due, _unit.due = _unit.due, []
    for address, visible_at in due:
        expect(address, visible_at)
    if addresses:
        ring(addresses)
        for listener in listeners:
            listener(addresses)


def abandoned() -> None:
    """Forget what the unit of work of this thread has written: it was taken back."""
    _unit.noted.clear()
    _unit.due.clear()


def ring(addresses: Iterable[Address]) -> None:
    """Wake whoever waits for one of these; may be called from any thread."""
    woken: list[Callback] = []
    with _lock:
        for address in addresses:
            for wait in _waits.get(address, ()):
                wait.rung = True
                if wait.callback is not None:
                    woken.append(wait.callback)
                    wait.callback = None
    for callback in woken:
        callback()


def dismiss() -> None:
    """End all waiting: the process is about to end. May be called from a signal's handler."""
    _dismissed.set()
    ring(waited_for())


def waited_for() -> list[Address]:
    """What anybody waits for at this moment."""
    with _lock:
        return list(_waits)


def expect(address: Address, visible_at: int) -> None:
    """Let the waits of an address look again when something is to be seen, at a time in ms.

    Those that have gone to sleep hear of it only when they are rung as well.
    """
    at = time.monotonic() + (visible_at - clock.now()) / 1000
    with _lock:
        _forget_past()
        if len(_timers) < MOST:
            heapq.heappush(_timers, (at, address))
            heapq.heappush(_due.setdefault(address, []), at)
        for wait in _waits.get(address, ()):
            wait.deadline = min(wait.deadline, at)


def forget() -> None:
    """Forget what was to be seen when: the database that it lay in is closed."""
    with _lock:
        _timers.clear()
        _due.clear()


def _next_due(address: Address) -> float:
    _forget_past()
    return _due[address][0] if address in _due else float("inf")


def _forget_past() -> None:
    now = time.monotonic()
    while _timers and _timers[0][0] <= now:
        _, address = heapq.heappop(_timers)
        heapq.heappop(_due[address])  # the first of all is the first of its address
        if not _due[address]:
            del _due[address]
