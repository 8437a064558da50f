"""Waiting in threads, as a stock server has them: the same answers as under the loop worker."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from api.service import Service
from inbox import bell
from inbox.bell import Address
from inbox.watch import Watch
from models import watching
from tests.actors import Agent, Http, ok, refused

THREADS = {"environ_overrides": {"wsgi.multithread": True}}
ASKING = {"query_string": {"wait": 20}, **THREADS}


@pytest.fixture
def http(store: str) -> Http:
    return Http(Service(1 << 20, waiters=4))


def test_a_message_ends_the_wait(alice: Agent, bob: Agent, later: Callable) -> None:
    later(lambda: alice.send(bob, content=1))
    (seen,) = ok(bob.try_poll(wait=20, options=THREADS))["messages"]
    assert seen["content"] == 1


def test_mail_that_is_there_is_answered_at_once_also_with_a_short_wait(
    alice: Agent, bob: Agent
) -> None:
    """Case 35."""
    alice.send(bob)
    for wait in (0, 0.1, 30):
        assert len(bob.poll(wait=wait)) == 1


def test_an_empty_wait_ends_with_an_empty_list(bob: Agent) -> None:
    """Case 34, with a shorter patience."""
    assert ok(bob.try_poll(wait=0.05, options=THREADS)) == {"messages": []}


def test_timeout_and_prefer_mean_wait(alice: Agent, bob: Agent, later: Callable) -> None:
    later(lambda: alice.send(bob))
    assert ok(bob.try_poll(timeout=20, options=THREADS))["messages"]
    bob.ack_many(*bob.poll())
    later(lambda: alice.send(bob))
    answer = bob.try_poll(headers={"Prefer": "wait=20"}, options=THREADS)
    assert ok(answer)["messages"]


def test_an_alias_waits_for_its_owners_mail(
    alice: Agent, bob: Agent, http: Http, later: Callable
) -> None:
    bob.register(aliases=["bobby"])
    later(lambda: alice.send(bob))
    answer = http.get("/agents/bobby/inbox?wait=20", **THREADS)
    assert len(ok(answer)["messages"]) == 1


def test_a_wait_with_an_etag_waits_for_a_change(alice: Agent, bob: Agent, later: Callable) -> None:
    """Case 42: unread mail that has been seen does not end the wait, also when the page is full."""
    alice.send(bob)
    first = bob.try_poll(limit=1)
    known = {"If-None-Match": first.headers["ETag"]}
    unchanged = bob.try_poll(headers=known, limit=1, wait=0.05, options=THREADS)
    assert unchanged.status_code == 304
    later(lambda: alice.send(bob))
    changed = bob.try_poll(headers=known, limit=1, wait=20, options=THREADS)
    assert ok(changed)["messages"][0]["id"] == first.json["messages"][0]["id"]
    assert changed.headers["ETag"] != first.headers["ETag"]


def test_wait_does_not_go_with_after(alice: Agent, bob: Agent) -> None:
    sent = alice.send(bob)
    refused(bob.try_poll(wait=1, after=sent["id"]), 422, "invalid_request")


def test_only_the_tasks_and_types_asked_for_end_the_wait(
    alice: Agent, bob: Agent, later: Callable
) -> None:
    def others_first() -> None:
        alice.send(bob, task_id="other")
        alice.send(bob, "question", task_id="one")
        alice.send(bob, "done", task_id="two")

    later(others_first)
    query = {"task_id": ["one", "two"], "type": ["done", "failed"], "wait": 20}
    (seen,) = ok(bob.try_poll(**query, options=THREADS))["messages"]
    assert (seen["task_id"], seen["type"]) == ("two", "done")


def test_a_history_waits_for_the_next_message(
    alice: Agent, bob: Agent, http: Http, later: Callable
) -> None:
    sent = alice.send(bob, task_id="t")
    later(lambda: bob.send(alice, "done", task_id="t"))
    path = f"/tasks/t/messages?after={sent['id']}&wait=20"
    (seen,) = ok(http.get(path, **THREADS))["messages"]
    assert seen["type"] == "done"


def test_ask_and_hold_for_the_answer(alice: Agent, bob: Agent, later: Callable) -> None:
    def answer() -> None:
        # Alice waits from before the commit on, so that it may not be there at once.
        (seen,) = ok(bob.try_poll(wait=20, options=THREADS))["messages"]
        bob.send(alice, "progress", reply_to=seen["id"])
        bob.send(alice, "done", reply_to=seen["id"], content="42")

    later(answer)
    found = alice.try_send(bob, options=ASKING)
    assert ok(found, 200)["content"] == "42"
    assert [each["type"] for each in alice.poll()] == ["progress", "done"]


def test_ask_and_hold_ends_with_the_message_when_nothing_comes(alice: Agent, bob: Agent) -> None:
    found = alice.try_send(bob, content=7, options={"query_string": {"wait": 0.05}, **THREADS})
    assert ok(found, 202)["content"] == 7
    assert len(bob.poll()) == 1


def test_a_repeated_ask_finds_the_answer_that_came_meanwhile(alice: Agent, bob: Agent) -> None:
    asked = ok(alice.try_send(bob, headers={"Idempotency-Key": "k"}))
    bob.send(alice, "done", reply_to=asked["id"], content="early")
    again = alice.try_send(
        bob,
        headers={"Idempotency-Key": "k"},
        options=ASKING,
    )
    assert ok(again, 200)["content"] == "early"
    assert len(bob.poll()) == 1


def test_a_delayed_message_ends_the_wait_when_it_is_due(alice: Agent, bob: Agent) -> None:
    alice.send(bob, deliver_in=0.15)
    assert bob.poll() == []
    assert len(ok(bob.try_poll(wait=20, options=THREADS))["messages"]) == 1


def test_without_a_place_to_wait_the_answer_comes_at_once(bob: Agent) -> None:
    answer = bob.try_poll(wait=20)
    assert ok(answer) == {"messages": []}
    assert answer.headers["Retry-After"] == "1"


def test_a_wait_that_is_over_leaves_nothing_behind(bob: Agent) -> None:
    for _ in range(3):
        bob.try_poll(wait=0.01, options=THREADS)
    assert bell.waited_for() == []


def test_what_was_written_between_the_look_and_the_wait_is_heard() -> None:
    """Case 36."""
    wait = bell.Wait([Address("default", "bob")], 20)
    bell.ring([Address("default", "bob")])  # after the look, before anybody listens
    heard = threading.Event()
    wait.listen(heard.set)
    assert heard.is_set()
    wait.cancel()


def test_a_mistake_of_ours_does_not_make_the_watch_deaf(
    alice: Agent, bob: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Exception] = []
    failed = threading.Event()

    def mistaken(*_: Any) -> None:
        failed.set()
        raise KeyError("mistake")

    wait = bell.Wait([Address("default", "bob")], 20)
    heard = threading.Event()
    wait.listen(heard.set)
    with monkeypatch.context() as patched:
        patched.setattr(watching, "newest", mistaken)
        watch = Watch(told.append)
        assert failed.wait(20)
    try:
        assert heard.wait(20)  # by the first look that goes well
    finally:
        wait.cancel()
        watch.stop()
    assert [type(each) for each in told] == [KeyError]


def test_a_watch_hears_what_another_process_has_written(
    alice: Agent, bob: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bell of this process is not rung for it: as if another had sent."""
    watch = Watch(lambda problem: pytest.fail(problem.code))
    wait = bell.Wait([Address("default", "bob")], 20)
    heard = threading.Event()
    try:
        wait.listen(heard.set)
        monkeypatch.setattr(bell, "committed", bell.abandoned)
        deadline = time.monotonic() + 20
        while not heard.is_set() and time.monotonic() < deadline:
            alice.send(bob)
            heard.wait(0.3)
        assert heard.is_set()
    finally:
        wait.cancel()
        watch.stop()
