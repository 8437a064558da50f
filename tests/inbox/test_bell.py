"""The bell by itself: tickets, timers, and what is left behind."""

import threading
import time
from collections.abc import Iterator

import pytest

from inbox import bell, turn
from inbox.bell import Address, Wait
from models import clock

BOB = Address("default", "bob")
CAROL = Address("default", "carol")


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    """No timers of other tests, and none left to them."""
    bell.forget()
    yield
    bell.forget()
    assert bell.waited_for() == []


def delayed(inbox: str, seconds: float) -> None:
    """A message to ``inbox`` that is to be seen so many seconds from now has been committed."""
    bell.written("default", inbox, "task", clock.now() + round(seconds * 1000))
    bell.committed()


def heard_within(wait: Wait, seconds: float) -> bool:
    """Whether it is worth looking again, within so many seconds."""
    heard = threading.Event()
    wait.listen(heard.set)
    return heard.wait(seconds)


def test_a_ring_wakes_those_who_wait_for_its_address_alone() -> None:
    bobs, carols = Wait([BOB], 20), Wait([CAROL], 20)
    bell.ring([BOB])
    assert (bobs.rung, carols.rung) == (True, False)
    bobs.cancel()
    carols.cancel()


def test_what_was_taken_back_rings_for_nobody() -> None:
    wait = Wait([BOB], 20)
    bell.written("default", "bob", "task")
    bell.abandoned()
    bell.committed()
    assert not wait.rung
    wait.cancel()


def test_a_wait_that_was_cancelled_can_be_taken_up_again() -> None:
    wait = Wait([BOB], 20)
    wait.cancel()
    assert bell.waited_for() == []
    bell.ring([BOB])
    assert not wait.rung
    wait.watch(wait.addresses)
    bell.ring([BOB])
    assert heard_within(wait, 10)
    wait.cancel()


def test_a_wait_ends_early_for_the_next_message_that_is_due() -> None:
    for seconds in (9, 3, 6):
        delayed("bob", seconds)
    delayed("carol", 1)
    wait, other = Wait([BOB], 20), Wait([Address("default", "dave")], 20)
    assert wait.deadline - time.monotonic() == pytest.approx(3, abs=1)
    assert other.deadline == other.ends
    wait.cancel()
    other.cancel()


def test_a_wait_that_is_there_already_ends_for_what_is_due() -> None:
    wait = Wait([BOB], 20)
    delayed("bob", 0.05)
    assert wait.deadline - time.monotonic() < 1
    wait.block()
    wait.cancel()


def test_what_has_become_due_is_forgotten_though_nobody_waited() -> None:
    for _ in range(100):
        delayed("bob", 0.01)
    ends = time.monotonic() + 10
    while bell._timers and time.monotonic() < ends:
        threading.Event().wait(0.02)
        Wait([CAROL], 1).cancel()
    assert not bell._timers
    assert not bell._due


def test_with_the_database_what_was_to_be_seen_in_it_is_forgotten(store: str) -> None:
    delayed("bob", 9)
    turn.close()
    wait = Wait([BOB], 20)
    assert wait.deadline == wait.ends
    wait.cancel()


def test_timers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bell, "MOST", 10)
    for number in range(100):
        delayed(f"agent-{number % 7}", 100)
    assert len(bell._timers) == 10
    assert sum(map(len, bell._due.values())) == 10
