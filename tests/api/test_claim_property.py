"""Any mix of send, poll, claim, ack, extend, release, time and sweep, against a small model.

Case 5: whatever is done, the list, the count and the sums agree, and the
sender has heard of everything that ended otherwise than by an ack.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from inbox.sweeper import Sweeper
from models import clock
from tests.actors import Agent, Http, ok

MOST = 2  # claims of a message
SECONDS = st.integers(1, 90)


class Model:
    """What should be: one record a message, in the order they were sent."""

    def __init__(self) -> None:
        self.messages: dict[str, dict[str, Any]] = {}
        self.now = 0
        self.bounced = self.told = 0

    def send(self, id: str, type: str, delay: int, life: int) -> None:
        due = self.now + delay if delay else 0
        ends = self.now + delay + life if life else None
        self.messages[id] = {
            "type": type, "status": "unread", "due": due, "ends": ends, "tries": 0, "lease": None,
        }  # fmt: skip

    def alive(self, id: str) -> bool:
        message = self.messages[id]
        ends = message["ends"]
        return message["status"] == "unread" and (ends is None or ends > self.now)

    def listed(self) -> list[str]:
        return [id for id in self.messages if self.alive(id) and self.of(id)["due"] <= self.now]

    def of(self, id: str) -> dict[str, Any]:
        return self.messages[id]

    def held(self, id: str, receipt: str) -> bool:
        message = self.messages[id]
        return self.alive(id) and message["lease"] == receipt and message["due"] > self.now

    def bury(self, id: str, status: str) -> None:
        self.messages[id]["status"] = status
        if self.messages[id]["type"] == "request":
            self.bounced += 1
        else:
            self.told += 1

    def sweep(self) -> None:
        for id, message in self.messages.items():
            if message["status"] == "unread" and 0 < message["due"] <= self.now:
                message["due"] = 0
                if message["tries"] >= MOST:
                    self.bury(id, "dead")
            if message["status"] == "unread" and not self.alive(id):
                self.bury(id, "expired")


def machine(http: Http, move: Callable[[int], None], now: Callable[[], int]) -> type:
    """The machine's class, for one database; each run has agents of its own."""
    runs = iter(range(1_000_000))

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            run = next(runs)
            self.alice, self.bob = Agent(http, f"alice-{run}"), Agent(http, f"bob-{run}")
            self.bob.register(max_attempts=MOST)
            self.sweeper = Sweeper()
            self.sweeper._holds = lambda: True  # type: ignore[method-assign]
            self.model = Model()
            self.model.now = now()
            self.receipts: list[dict[str, Any]] = []

        @rule(
            type=st.sampled_from(["request", "message"]),
            delay=st.sampled_from([0, 0, 30]),
            life=st.sampled_from([0, 0, 45]),
        )
        def send(self, type: str, delay: int, life: int) -> None:
            fields: dict[str, Any] = {"deliver_in": delay} if delay else {}
            fields |= {"expires_in": delay + life} if life else {}
            sent = self.alice.send(self.bob, type, **fields)
            self.model.send(sent["id"], type, delay * 1000, life * 1000)

        @rule(limit=st.integers(1, 4), lease=SECONDS)
        def claim(self, limit: int, lease: int) -> None:
            claimed = self.bob.claim(limit=limit, lease_seconds=lease)
            free = [id for id in self.model.listed() if self.model.of(id)["tries"] < MOST]
            assert [each["id"] for each in claimed] == free[:limit]
            for each in claimed:
                message = self.model.of(each["id"])
                message.update(due=self.model.now + lease * 1000, lease=each["receipt"])
                message["tries"] += 1
                assert each["attempts"] == message["tries"]
            self.receipts += claimed

        @precondition(lambda self: self.receipts)
        @rule(data=st.data())
        def ack_with_a_receipt(self, data: st.DataObject) -> None:
            claimed = data.draw(st.sampled_from(self.receipts))
            message = self.model.of(claimed["id"])
            again = message["status"] == "acked" and message["lease"] == claimed["receipt"]
            fits = self.model.held(claimed["id"], claimed["receipt"]) or again
            answer = self.bob.try_settle(claimed)
            assert answer.status_code == (200 if fits else 409), answer.text
            if fits:
                message["status"] = "acked"

        @precondition(lambda self: self.model.messages)
        @rule(data=st.data())
        def ack_without_one(self, data: st.DataObject) -> None:
            id = data.draw(st.sampled_from(list(self.model.messages)))
            message = self.model.of(id)
            away = message["due"] > self.model.now and self.model.alive(id)
            expected = 200 if self.model.alive(id) or message["status"] == "acked" else 409
            if away and not message["tries"]:
                expected = 404  # it has not been delivered yet
            elif away and message["lease"]:
                expected = 409
            answer = self.bob.try_ack(id)
            assert answer.status_code == expected, answer.text
            if expected == 200:
                message["status"] = "acked"

        @precondition(lambda self: self.receipts)
        @rule(data=st.data(), lease=SECONDS)
        def extend(self, data: st.DataObject, lease: int) -> None:
            claimed = data.draw(st.sampled_from(self.receipts))
            fits = self.model.held(claimed["id"], claimed["receipt"])
            answer = self.bob.try_settle(claimed, "extend", lease_seconds=lease)
            assert answer.status_code == (200 if fits else 409), answer.text
            if fits:
                self.model.of(claimed["id"])["due"] = self.model.now + lease * 1000

        @precondition(lambda self: self.receipts)
        @rule(data=st.data(), delay=st.sampled_from([0, 20]))
        def release(self, data: st.DataObject, delay: int) -> None:
            claimed = data.draw(st.sampled_from(self.receipts))
            fits = self.model.held(claimed["id"], claimed["receipt"])
            answer = self.bob.try_settle(claimed, "release", delay_seconds=delay)
            assert answer.status_code == (200 if fits else 409), answer.text
            message = self.model.of(claimed["id"])
            if fits and message["tries"] >= MOST:
                self.model.bury(claimed["id"], "dead")
            elif fits:
                due = self.model.now + delay * 1000 if delay else 0
                message.update(due=due, lease=None)

        @precondition(lambda self: self._dead())
        @rule(data=st.data())
        def redrive(self, data: st.DataObject) -> None:
            id = data.draw(st.sampled_from(self._dead()))
            message = self.model.of(id)
            ok(self.bob.do({"id": id}, "redrive"))
            if message["ends"] is not None and message["ends"] <= self.model.now:
                message["ends"] = None
            message.update(status="unread", tries=0, due=0, lease=None)

        def _dead(self) -> list[str]:
            found = self.model.messages.items()
            return [id for id, message in found if message["status"] == "dead"]

        @rule(seconds=SECONDS)
        def travel(self, seconds: int) -> None:
            move(seconds)
            self.model.now = now()

        @rule()
        def sweep(self) -> None:
            assert self.sweeper.round()
            self.model.sweep()

        @invariant()
        def list_and_count_agree(self) -> None:
            listed = [each["id"] for each in self.bob.poll(limit=500)]
            assert listed == self.model.listed()
            counts = self.bob.counts()
            assert counts["unread"] == len(listed)
            assert counts["dead"] == len(self._dead())
            away = [id for id in self.model.messages if self.model.alive(id) and id not in listed]
            assert counts["delayed"] + counts["in_flight"] == len(away)

        @invariant()
        def the_sender_has_heard_of_what_ended(self) -> None:
            heard = self.alice.poll(limit=500)
            assert sum(each["type"] == "failed" for each in heard) == self.model.bounced
            told = [each["content"]["count"] for each in heard if each["type"] == "message"]
            assert sum(told) == self.model.told

    return Machine


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """A clock that stands still but for what the machine moves it by, in seconds."""
    time = [clock.now()]
    monkeypatch.setattr(clock, "now", lambda: time[0])

    def move(seconds: int) -> None:
        time[0] += seconds * 1000

    return move


def test_whatever_is_done_nothing_is_lost_and_all_sums_agree(
    http: Http, frozen: Callable[[int], None]
) -> None:
    run_state_machine_as_test(
        machine(http, frozen, clock.now),
        settings=settings(
            max_examples=25,
            stateful_step_count=30,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
