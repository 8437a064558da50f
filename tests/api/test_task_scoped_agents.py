"""Agents for a time: they and their mail go when their task or their time ends."""

from collections.abc import Callable
from typing import Any

import pytest

from inbox import turn
from tests.actors import Agent, Http, ok, refused

Travel = Callable[[float], None]
Sweep = Callable[[], None]
DAY = 24 * 3600


def names(http: Http) -> list[str]:
    return [each["id"] for each in ok(http.get("/agents"))["agents"]]


@pytest.fixture
def helper(agent: Callable[[str], Agent]) -> Agent:
    return agent("helper")


def test_an_agent_with_a_time_to_live_goes_with_its_mail(
    alice: Agent, helper: Agent, http: Http, travel: Travel, sweep: Sweep
) -> None:
    assert helper.register(ttl=60)["ends_at"]
    read = alice.send(helper, "message", task_id="t")
    helper.ack(read)
    asked = alice.send(helper, task_id="t")
    travel(59)
    sweep()
    assert names(http) == ["helper"]
    travel(2)
    sweep()
    assert names(http) == []
    refused(alice.try_send(helper), 409, "agent_retired")
    assert helper.poll(status="all") == []
    (bounce,) = alice.poll()
    assert (bounce["type"], bounce["reply_to"]) == ("failed", asked["id"])
    assert bounce["content"]["reason"] == "agent_retired"


def test_an_agent_of_a_task_goes_when_the_task_closes(
    alice: Agent, helper: Agent, http: Http, sweep: Sweep
) -> None:
    alice.send(helper, task_id="t")
    assert helper.register(task_id="t")["task_id"] == "t"
    sweep()
    assert names(http) == ["helper"]
    ok(alice.try_close("t"))
    sweep()
    assert names(http) == []
    assert helper.poll(status="all") == []
    assert [each["type"] for each in alice.poll()] == ["failed"]


def test_the_end_comes_also_if_it_was_while_the_server_was_down(
    alice: Agent, helper: Agent, http: Http, store: str, travel: Travel, sweep: Sweep
) -> None:
    helper.register(ttl=60)
    alice.send(helper)
    turn.close()
    travel(3600)
    turn.open(store)
    sweep()
    assert names(http) == []
    assert len(alice.poll()) == 1


def test_closing_just_before_a_crash_ends_the_agents_afterwards(
    alice: Agent, helper: Agent, http: Http, store: str, sweep: Sweep
) -> None:
    alice.send(helper, task_id="t")
    helper.register(task_id="t")
    ok(alice.try_close("t"))
    turn.close()
    turn.open(store)
    sweep()
    assert names(http) == []


def test_an_agent_cannot_be_registered_for_a_task_that_is_closed(
    alice: Agent, bob: Agent, helper: Agent
) -> None:
    alice.send(bob, task_id="t")
    ok(alice.try_close("t"))
    answer = helper.http.post("/agents", {"id": "helper", "task_id": "t"})
    refused(answer, 409, "task_closed")


def test_registering_again_renews_the_time_or_makes_it_endless(
    helper: Agent, http: Http, travel: Travel, sweep: Sweep
) -> None:
    first = helper.register(ttl=60)
    travel(30)
    assert helper.register(activity="reading")["ends_at"] == first["ends_at"]
    assert helper.register(ttl=60)["ends_at"] > first["ends_at"]
    travel(40)
    sweep()
    assert names(http) == ["helper"]
    assert "ends_at" not in helper.register(ttl=None)
    travel(3600)
    sweep()
    assert names(http) == ["helper"]


def test_an_agent_that_comes_back_stays(
    helper: Agent, http: Http, travel: Travel, sweep: Sweep
) -> None:
    helper.register(ttl=60)
    travel(61)
    sweep()
    assert "ends_at" not in helper.register()
    travel(2 * DAY)
    sweep()
    assert names(http) == ["helper"]


def test_a_day_after_its_end_the_name_is_free(
    alice: Agent, helper: Agent, travel: Travel, sweep: Sweep
) -> None:
    helper.register(ttl=60, aliases=["help"])
    travel(61)
    sweep()
    travel(DAY + 1)
    sweep()
    assert alice.send(helper)["recipient"]["known"] is False
    assert alice.register(aliases=["help"])["aliases"] == ["help"]


def test_the_mail_of_others_stays(
    alice: Agent, bob: Agent, helper: Agent, travel: Travel, sweep: Sweep
) -> None:
    helper.register(ttl=60)
    alice.send(helper, task_id="t")
    alice.send(bob, task_id="t")
    helper.send(bob, "message", task_id="t")
    travel(61)
    sweep()
    assert len(bob.poll()) == 2
    assert alice.tasks() == ["t"]


def test_a_message_with_a_key_stays_its_day(
    alice: Agent, helper: Agent, travel: Travel, sweep: Sweep
) -> None:
    helper.register(ttl=60)
    alice.send(helper, idempotency_key="k")
    travel(61)
    sweep()
    assert [each["status"] for each in helper.poll(status="all")] == ["expired"]
    travel(DAY)
    sweep()
    travel(DAY)
    sweep()
    assert helper.poll(status="all") == []


def test_many_messages_go_in_batches(
    alice: Agent, helper: Agent, http: Http, travel: Travel, sweep: Sweep
) -> None:
    helper.register(ttl=60)
    for _ in range(2):
        alice.send_many(*[{"to": "helper", "type": "message"} for _ in range(300)])
    travel(61)
    for _ in range(8):
        sweep()
    assert helper.poll(status="all") == []
    told = [each["content"]["count"] for each in alice.poll()]
    assert sum(told) == 600


@pytest.mark.parametrize("fields", [{"ttl": 0}, {"ttl": "soon"}, {"task_id": ""}], ids=str)
def test_terms_that_make_no_sense_are_refused(http: Http, fields: Any) -> None:
    refused(http.post("/agents", {"id": "helper", **fields}), 422, "invalid_request")
