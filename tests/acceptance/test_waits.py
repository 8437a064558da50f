"""Waiting for mail, at the real service: prompt, bounded, and free while nothing comes."""

import contextlib
import random
import signal
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.acceptance.asking import (
    Asked,
    answered,
    asked,
    files,
    is_watched,
    memory,
    processor_seconds,
    taken_in,
    until,
)
from tests.acceptance.clients import Client
from tests.acceptance.server import COMMAND, Server, environment, running, started

SOON = 10.0  # seconds; what comes at once comes within these on the busiest machine
THREADED = [*COMMAND[:-1], "-k", "gthread", "--threads", "8", COMMAND[-1]]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def server(request: pytest.FixtureRequest, databases: Callable[[str], str]) -> Iterator[Server]:
    """A service of one loop worker, which must live through the tests of this file."""
    with running(databases(request.param)) as server:
        yield from watched(server)


@pytest.fixture(
    scope="module", params=["sqlite", "postgresql", "sqlite-threads", "postgresql-threads"]
)
def either(request: pytest.FixtureRequest, databases: Callable[[str], str]) -> Iterator[Server]:
    """A service of either worker: what is the same everywhere runs on this."""
    kind, _, threads = request.param.partition("-")
    options = {"args": THREADED} if threads else {}
    with started(environment(databases(kind)), **options) as server:
        yield from watched(server)


def watched(server: Server) -> Iterator[Server]:
    """The server, held at the end to have lived through it without a mistake."""
    workers = server.workers()
    yield server
    assert server.workers() == workers
    assert "Traceback" not in server.log()
    assert '"level":"error"' not in server.log()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """An agent's name that is this test's own."""
    return f"agent-{abs(hash(request.node.nodeid))}"


def send(server: Server, to: str, **fields: Any) -> Any:
    """Alice sends a request; the message."""
    with Client(server.port, "alice") as alice:
        status, message = alice.send(to, "hello", **fields)
    assert status == 201, message
    return message


def ack_all(server: Server, name: str) -> None:
    """The agent acks what it has."""
    with Client(server.port, name) as agent:
        ids = [message["id"] for message in agent.pages(f"/agents/{name}/inbox")]
        assert agent.call("POST", f"/agents/{name}/inbox/ack", {"ids": ids})[0] == 200


def answers(server: Server) -> int:
    """How many answers to sends and polls its log tells of."""
    return server.log().count('"/agents/{agent}/inbox"')


def inbox(name: str, wait: float = 25, **query: Any) -> str:
    """The path of a poll that waits."""
    rest = "".join(f"&{key}={value}" for key, value in query.items())
    return f"/agents/{name}/inbox?wait={wait}{rest}"


# --- the same answers whatever serves


@pytest.mark.parametrize("how", ["wait", "timeout", "prefer"])
def test_an_empty_wait_ends_with_an_empty_list(either: Server, name: str, how: str) -> None:
    """Case 34, with less patience."""
    began = time.monotonic()
    path = f"/agents/{name}/inbox" + ("" if how == "prefer" else f"?{how}=0.5")
    headers = {"Prefer": "wait=1"} if how == "prefer" else {}
    with asked(either.port, [path], headers) as (polling,):
        answer = polling.answer()
    assert (answer.status, answer.json) == (200, {"messages": []})
    assert "Retry-After" not in answer.headers
    assert (0.95 if how == "prefer" else 0.45) < answer.at - began < SOON


@pytest.mark.parametrize("wait", [0, 0.1, 25])
def test_mail_that_is_there_is_answered_at_once(either: Server, name: str, wait: float) -> None:
    """Case 35."""
    send(either, name)
    began = time.monotonic()
    with asked(either.port, [inbox(name, wait)]) as (polling,):
        answer = polling.answer()
    assert len(answer.json["messages"]) == 1
    assert answer.at - began < SOON


def test_a_message_ends_the_wait(either: Server, name: str) -> None:
    with asked(either.port, [inbox(name)]) as (polling,):
        taken_in(either)
        assert not answered([polling], 0.3)
        sent = send(either, name)
        assert [each["id"] for each in polling.answer().json["messages"]] == [sent["id"]]


def test_only_the_tasks_and_types_asked_for_end_the_wait(either: Server, name: str) -> None:
    path = inbox(name, task_id="one&task_id=two", type="done&type=failed")
    with asked(either.port, [path]) as (polling,):
        taken_in(either)
        send(either, name, task_id="other", type="done")
        send(either, name, task_id="one", type="question")
        assert not answered([polling], 0.3)
        sent = send(either, name, task_id="two", type="failed")
        assert [each["id"] for each in polling.answer().json["messages"]] == [sent["id"]]


def test_a_wait_with_an_etag_waits_for_a_change_also_when_its_page_is_full(
    either: Server, name: str
) -> None:
    """Case 42."""
    first = send(either, name)
    with asked(either.port, [inbox(name, 1, limit=1)]) as (polling,):
        known = {"If-None-Match": polling.answer().headers["ETag"]}
        began = time.monotonic()
        polling.again(inbox(name, 0.5, limit=1), known)
        unchanged = polling.answer()
        assert (unchanged.status, unchanged.json) == (304, None)
        assert unchanged.at - began > 0.45
        polling.again(inbox(name, limit=1), known)
        send(either, name)
        changed = polling.answer()
    assert [each["id"] for each in changed.json["messages"]] == [first["id"]]
    assert changed.headers["ETag"] not in known.values()


def test_a_delayed_message_ends_the_wait_when_it_is_due(either: Server, name: str) -> None:
    with asked(either.port, [inbox(name)]) as (polling,):
        began = time.monotonic()
        send(either, name, deliver_in=1)
        answer = polling.answer()
    assert len(answer.json["messages"]) == 1
    assert 0.9 < answer.at - began < 1 + SOON


def test_a_delayed_message_of_another_kind_does_not_end_the_wait(either: Server, name: str) -> None:
    with asked(either.port, [inbox(name, 1.5, type="done")]) as (polling,):
        began = time.monotonic()
        send(either, name, deliver_in=0.3)
        answer = polling.answer()
    assert answer.json == {"messages": []}
    assert answer.at - began > 1.4


def test_a_history_waits_for_the_next_message(either: Server, name: str) -> None:
    sent = send(either, name, task_id=name)
    with asked(either.port, [f"/tasks/{name}/messages?after={sent['id']}&wait=25"]) as (reading,):
        taken_in(either)
        assert not answered([reading], 0.3)
        second = send(either, name, task_id=name)
        assert [each["id"] for each in reading.answer().json["messages"]] == [second["id"]]


def test_what_comes_for_a_claim_whose_client_has_left_is_not_lost(
    either: Server, name: str
) -> None:
    """Case 41: whoever serves in threads may claim it for nobody, until the lease lapses."""
    path, body = f"/agents/{name}/inbox/claim", {"wait": 25, "lease_seconds": 1}
    leaving = Asked(either.port, path, body)
    taken_in(either)
    assert not answered([leaving], 0.3)
    leaving.leave()
    taken_in(either)
    sent = send(either, name)
    with contextlib.closing(Asked(either.port, path, body)) as staying:
        answer = staying.answer()
    assert [each["id"] for each in answer.json["messages"]] == [sent["id"]]


def test_ask_and_hold_for_the_answer(either: Server, name: str) -> None:
    body = {"from": name, "type": "request", "content": "6 * 7"}
    asking = Asked(either.port, "/agents/bob/inbox?wait=25", body)
    with contextlib.closing(asking.connection), Client(either.port, "bob") as bob:
        seen = until(
            lambda: [
                each
                for each in bob.pages("/agents/bob/inbox?status=unread")
                if each["from"] == name
            ],
            "the request",
        )
        for type, content in (("progress", 41), ("done", 42)):
            status, _ = bob.send(name, content, type=type, reply_to=seen[0]["id"])
            assert status == 201
        answer = asking.answer()
    assert (answer.status, answer.json["type"], answer.json["content"]) == (200, "done", 42)


def test_ask_and_hold_ends_with_the_message_when_nothing_comes(either: Server, name: str) -> None:
    body = {"from": name, "type": "request", "content": "anybody there?"}
    asking = Asked(either.port, f"/agents/{name}-silent/inbox?wait=1", body)
    with contextlib.closing(asking.connection):
        answer = asking.answer()
    assert (answer.status, answer.json["content"]) == (202, "anybody there?")


# --- prompt


def test_what_is_committed_between_the_look_and_the_wait_is_delivered_at_once(
    either: Server, name: str
) -> None:
    """Case 36: sends race with polls, many times over."""
    chance = random.Random(7)
    slowest = 0.0
    with (
        asked(either.port, [f"/agents/{name}/inbox"]) as (polling,),
        Client(either.port, "alice") as alice,
        Client(either.port, name) as agent,
    ):
        polling.answer()
        for number in range(100):
            polling.again(inbox(name))
            time.sleep(chance.uniform(0, 0.003))
            status, _ = alice.send(name, number)
            assert status == 201
            sent = time.monotonic()
            answer = polling.answer()
            slowest = max(slowest, answer.at - sent)
            ids = [message["id"] for message in answer.json["messages"]]
            assert [message["content"] for message in answer.json["messages"]] == [number]
            assert agent.call("POST", f"/agents/{name}/inbox/ack", {"ids": ids})[0] == 200
    print(f"slowest wake: {slowest * 1000:.1f} ms")
    assert slowest < 1


def test_waits_and_silent_sockets_and_half_sent_heads_slow_nobody_down(
    server: Server, name: str
) -> None:
    with contextlib.ExitStack() as stack:
        paths = [inbox(f"{name}-{number}", 30) for number in range(500)]
        waits = stack.enter_context(asked(server.port, paths))
        idle = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            for _ in range(250)
        ]
        for each in idle[:50]:
            each.sendall(b"POST /agents/bob/inbox HTTP/1.1\r\nHost: local")
        taken_in(server)
        sends, looks = [], []
        for number in range(3):
            began = time.monotonic()
            send(server, f"{name}-bob-{number}")
            sends.append(time.monotonic() - began)
            began = time.monotonic()
            taken_in(server)
            looks.append((time.monotonic() - began) / 2)
        assert not answered(waits)
        began = time.monotonic()
        send(server, f"{name}-321")
        assert len(waits[321].answer().json["messages"]) == 1
        woken = time.monotonic() - began
    shown = [f"{min(times) * 1000:.1f}" for times in (sends, looks, [woken])]
    print(f"send, /health, send and wake, in ms: {shown}")
    assert min(sends) < 0.1
    assert min(looks) < 0.1


# --- bounded work


@pytest.mark.parametrize("what", ["acked", "seen"])
def test_who_waits_costs_nothing_while_nothing_comes(server: Server, name: str, what: str) -> None:
    """Cases 37 and 42: everything acked, or seen before and still unread."""
    (worker,) = server.workers()
    names = [f"{name}-{number}" for number in range(20)]
    for each in names:
        send(server, each)
        if what == "acked":
            ack_all(server, each)
    with asked(server.port, [f"/agents/{each}/inbox" for each in names]) as polls:
        for each, polling in zip(names, polls, strict=True):
            tag = polling.answer().headers["ETag"]
            polling.again(inbox(each), {} if what == "acked" else {"If-None-Match": tag})
        taken_in(server)
        lines = answers(server)
        before = processor_seconds(worker)
        assert not answered(polls, 2)
        used = processor_seconds(worker) - before
        assert answers(server) == lines
    print(f"processor time in 2 s: {used * 1000:.0f} ms")
    assert used < 0.2


def test_fifty_who_wait_at_one_inbox_all_hear_of_one_message(server: Server, name: str) -> None:
    """Case 40."""
    (worker,) = server.workers()
    with asked(server.port, [inbox(name) for _ in range(50)]) as polls:
        taken_in(server)
        before = processor_seconds(worker)
        sent = send(server, name)
        for polling in polls:
            assert [each["id"] for each in polling.answer().json["messages"]] == [sent["id"]]
        used = processor_seconds(worker) - before
    print(f"processor time for 50 wakes: {used * 1000:.0f} ms")
    assert used < 1


def test_a_message_to_one_of_five_hundred_who_wait_wakes_that_one(
    server: Server, name: str
) -> None:
    """Case 40: had every message all of them look, this would take seconds."""
    (worker,) = server.workers()
    names = [f"{name}-{number}" for number in range(500)]
    with asked(server.port, [inbox(each, 30) for each in names]) as polls:
        taken_in(server)
        answered(polls, 0.3)  # who comes after nobody waited is woken once
        lines = answers(server)
        before = processor_seconds(worker)
        with Client(server.port, "alice") as alice:
            for each in names[:100]:
                assert alice.send(each, "hello")[0] == 201
        for polling in polls[:100]:
            assert len(polling.answer().json["messages"]) == 1
        used = processor_seconds(worker) - before
        assert not answered(polls[100:])
        assert until(lambda: answers(server) == lines + 200, "a line for each answer")
    print(f"processor time for 100 sends beside 500 who wait: {used * 1000:.0f} ms")
    assert used < 2


# --- bounded room, and the end


@pytest.fixture(params=["sqlite", "postgresql"])
def small(request: pytest.FixtureRequest, databases: Callable[[str], str]) -> Iterator[Server]:
    """A service in which a hundred may wait."""
    with running(databases(request.param), max_waiting=100) as server:
        yield from watched(server)


def test_who_finds_no_place_to_wait_is_answered_at_once(small: Server) -> None:
    """Case 38: and all the other sockets that say nothing are in nobody's way."""
    with contextlib.ExitStack() as stack:
        waits = stack.enter_context(asked(small.port, [inbox(f"agent-{n}") for n in range(100)]))
        for _ in range(100):
            stack.enter_context(socket.create_connection(("127.0.0.1", small.port)))
        taken_in(small)
        began = time.monotonic()
        body = {"from": "late", "type": "request", "content": "hello"}
        late = [
            Asked(small.port, inbox("late")),
            Asked(small.port, "/agents/nobody/inbox?wait=25", body),
        ]
        for asking, status in zip(late, (200, 202), strict=True):
            stack.callback(asking.leave)
            answer = asking.answer()
            assert (answer.status, answer.headers["Retry-After"]) == (status, "1")
            assert answer.at - began < SOON
        waits[0].leave()
        send(small, "agent-1")
        assert len(waits[1].answer().json["messages"]) == 1
        late[0].again(inbox("late"))  # there are two places now
        taken_in(small)
        assert not answered([*waits[2:], late[0]], 0.3)
        send(small, "late")
        answer = late[0].answer()
        assert len(answer.json["messages"]) == 1
        assert "Retry-After" not in answer.headers
        looks = []
        for _ in range(3):
            began = time.monotonic()
            taken_in(small)
            looks.append((time.monotonic() - began) / 2)
        assert min(looks) < 1


def test_a_thousand_abandoned_waits_leave_nothing_behind(small: Server) -> None:
    (worker,) = small.workers()
    names = [f"agent-{number}" for number in range(100)]
    with Client(small.port, "alice") as alice:
        for round in range(10):
            if round == 2:  # whatever grows once has grown
                held, resident = files(worker), memory(worker)
            abandon(small, alice, names, round)
        until(lambda: files(worker) < held + 10, "all sockets to be closed")
    grown = memory(worker) - resident
    print(f"grown by {grown >> 10} KiB over 800 waits")
    assert grown < 8 << 20
    database = small.environ["TASKPOST_DATABASE"]
    if database.startswith("postgresql"):  # where it shows: the watch asks while anybody waits
        until(lambda: not is_watched(database), "the watch to rest")
    with asked(small.port, [inbox(f"late-{number}") for number in range(100)]) as waits:
        taken_in(small)
        assert not answered(waits, 0.3)  # every place is free
        send(small, "late-99")
        assert len(waits[99].answer().json["messages"]) == 1


def abandon(server: Server, alice: Client, names: list[str], round: int) -> None:
    """A hundred wait and leave, in several ways; some of them just as their mail comes."""
    tasks = [f"/tasks/{name}/messages?wait=25&as={name}" for name in names[50:]]
    waits = [Asked(server.port, path) for path in [*map(inbox, names[:50]), *tasks]]
    taken_in(server)
    mail = [{"to": name, "type": "request", "content": round} for name in names[:10]]
    late = Asked(server.port, "/messages", {"from": "alice", "messages": mail})
    for number, waiting in enumerate(waits):
        waiting.leave(abruptly=number % 2 == 0)
    assert late.answer().status == 201
    late.leave()
    for name in names[:10]:
        page = alice.call("GET", f"/agents/{name}/inbox")[1]["messages"]
        ids = [message["id"] for message in page]
        assert alice.call("POST", f"/agents/{name}/inbox/ack", {"ids": ids})[0] == 200


@pytest.mark.parametrize("worker", ["loop", "threads"])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_sigterm_answers_all_who_wait(
    kind: str, worker: str, databases: Callable[[str], str]
) -> None:
    """Case 39."""
    options = {} if worker == "loop" else {"args": [*THREADED[:-2], "200", THREADED[-1]]}
    given = environment(databases(kind), threads=200)
    with started(given, **options) as server, contextlib.ExitStack() as stack:
        sent = send(server, "bob", task_id="t")
        body = {"from": "carol", "type": "request", "content": "hello"}
        waits = [
            *(Asked(server.port, inbox(f"agent-{number}")) for number in range(60)),
            *(
                Asked(server.port, f"/tasks/t/messages?after={sent['id']}&wait=25")
                for _ in range(20)
            ),
            *(Asked(server.port, "/agents/dave/inbox?wait=25", body) for _ in range(20)),
        ]
        for each in waits:
            stack.callback(each.leave)
        until(lambda: waiting(server) == 20, "all the sends")
        assert not answered(waits, 0.5)
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        found = [each.answer() for each in waits]
        for each in waits:
            each.leave()
        assert server.stop(within=25) == 0
        took = time.monotonic() - began
        log = server.log()
    assert [answer.status for answer in found] == [200] * 80 + [202] * 20
    assert all(answer.json == {"messages": []} for answer in found[:80])
    assert "Traceback" not in log
    print(f"ended within {took:.2f} s")


def waiting(server: Server) -> int:
    """How many messages wait for dave."""
    with Client(server.port, "dave") as dave:
        return int(dave.call("GET", "/agents/dave/inbox/count")[1]["unread"])
