"""Case 5, promise 6: whatever happens to an inbox, all that speak of it agree."""

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as some

from models import clock
from tests.actors import Agent, Http, ok, pages

TASKS = ("a", "b", "c")
# Deadlines and steps of the clock are such that no sum of steps comes near a deadline.
LATER = some.sampled_from([None, 50, 500])
PLACES = some.integers(0, 30)
SEND = some.tuples(some.just("send"), some.sampled_from(TASKS), LATER, LATER)
ACK = some.tuples(some.just("ack"), PLACES)
BULK = some.tuples(some.just("bulk"), some.lists(PLACES, min_size=1, max_size=6))
PASS = some.tuples(some.just("pass"), some.sampled_from([9, 81, 441]))
HAPPENINGS = some.builds(
    list.__add__,
    some.lists(SEND, min_size=2, max_size=5),
    some.lists(some.one_of(SEND, ACK, BULK, PASS), min_size=4, max_size=12),
)

_numbers = itertools.count()


class Model:
    """What an inbox should be, kept beside it."""

    def __init__(self, http: Http, travel: Callable[[float], None]) -> None:
        number = next(_numbers)
        self.alice, self.bob = Agent(http, "alice"), Agent(http, f"bob-{number}")
        self.tasks = {task: f"{task}-{number}" for task in TASKS}
        self.travel = travel
        self.sent: list[dict[str, Any]] = []

    def send(self, task: str, expires_in: int | None, deliver_in: int | None) -> None:
        given = {"expires_in": expires_in, "deliver_in": deliver_in}
        answer = self.alice.try_send(self.bob, task_id=self.tasks[task], **given)
        if deliver_in is not None and expires_in is not None and expires_in <= deliver_in:
            assert answer.status_code == 422
            return
        now = clock.now()
        self.sent.append(
            {
                "id": ok(answer)["id"],
                "task": self.tasks[task],
                "from": now + (deliver_in or 0) * 1000,
                "until": now + expires_in * 1000 if expires_in else float("inf"),
                "acked": False,
            }
        )

    def ack(self, place: int) -> None:
        if self.sent:
            message = self.sent[place % len(self.sent)]
            takes = self.unread(message) or message["acked"]
            assert (self.bob.try_ack(message["id"]).status_code == 200) == takes
            message["acked"] = takes

    def bulk(self, places: list[int]) -> None:
        if self.sent:
            chosen = [self.sent[place % len(self.sent)] for place in places]
            takes = [self.unread(message) or message["acked"] for message in chosen]
            results = self.bob.ack_many(*(message["id"] for message in chosen))
            assert [result["status"] == "acked" for result in results] == takes
            for message, taken in zip(chosen, takes, strict=True):
                message["acked"] = taken

    def unread(self, message: dict[str, Any]) -> bool:
        return not message["acked"] and message["from"] <= clock.now() < message["until"]

    def ids(self, fits: Callable[[dict[str, Any]], bool]) -> list[str]:
        return [message["id"] for message in self.sent if fits(message)]

    def check(self) -> None:
        bob, unread = self.bob, self.ids(self.unread)
        assert [seen["id"] for seen in bob.poll(limit=500)] == unread
        assert [seen["id"] for page in pages(bob.try_poll, limit=2) for seen in page] == unread
        count = ok(bob.http.get(f"/agents/{bob.name}/inbox/count"))
        delayed = self.ids(lambda each: each["from"] > clock.now() and not each["acked"])
        assert count == {
            "unread": len(unread),
            "delayed": len(delayed),
            "in_flight": 0,
            "dead": 0,
        }
        seen = self.ids(lambda each: each["from"] <= clock.now())
        assert [each["id"] for each in bob.poll(limit=500, status="all")] == seen
        acked = self.ids(lambda each: each["acked"])
        assert [each["id"] for each in bob.poll(limit=500, status="acked")] == acked
        self.check_tasks()

    def check_tasks(self) -> None:
        for viewer in ({"as": self.bob.name}, {"agent": self.bob.name}):
            tasks = ok(self.bob.http.get("/tasks", query_string={**viewer, "limit": 500}))["tasks"]
            shown = {task["task_id"]: task["unread"] for task in tasks if task["unread"]}
            assert shown == Counter(each["task"] for each in self.sent if self.unread(each))


@given(happenings=HAPPENINGS)
@settings(
    max_examples=30,
    deadline=None,
    database=None,
    phases=[Phase.generate],  # shrinking takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_list_count_and_tasks_always_agree(
    http: Http, travel: Callable[[float], None], happenings: list[Any]
) -> None:
    """Case 5."""
    model = Model(http, travel)
    for name, *given_ in happenings:
        getattr(model, name if name != "pass" else "travel")(*given_)
        model.check()
