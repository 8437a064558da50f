"""Requests that are done together are answered as they are one by one, whatever goes wrong."""

import json
import sqlite3
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest

from api.service import Job, Service
from inbox import ids, presence, turn
from models import batches, clock, database, settling
from models.errors import Contended
from tests import postgres

Request = tuple[str, str, Any]


class Round:
    """A server's loop: what comes in one round is done together, and its answers wait."""

    def __init__(self) -> None:
        self.service = Service(1 << 20)
        self.turns = turn.Shared()
        self.together = True

    def serve(self, *requests: Request) -> list[tuple[int, Any]]:
        """The status and the body of each answer that is sent in the end."""
        answers: list[Any] = [None] * len(requests)
        jobs: list[Job] = []
        places: dict[Job, int] = {}
        for place, (method, path, body) in enumerate(requests):
            later: list[Job] = []
            environ = _environ(method, path, body, self.turns)
            if self.together:
                environ["taskpost.later"] = later.append
            start = lambda status, headers, place=place: _begin(answers, place, status)  # noqa: E731
            made = self.service(environ, start)
            if later:
                jobs.append(later[0])
                places[later[0]] = place
            else:
                answers[place] = (answers[place], b"".join(made))
        for job in self._in_order(jobs):
            place = places[job]
            body = b"".join(job())
            answers[place] = (answers[place], body)
            if self.turns.again:
                self.turns.again = False
        if self.turns.open and not self.turns.end():
            return [(503, None) for _ in answers]
        return [(int(status[:3]), json.loads(body or b"null")) for status, body in answers]

    def _in_order(self, jobs: list[Job]) -> list[Job]:
        done = self.service.together(self.turns, jobs) if len(jobs) > 1 else []
        return [*done, *(job for job in jobs if job not in done)]


def _begin(answers: list[Any], place: int, status: str) -> None:
    answers[place] = status


def _environ(method: str, path: str, body: Any, turns: turn.Shared) -> dict[str, Any]:
    raw = b"" if body is None else json.dumps(body).encode()
    path, _, query = path.partition("?")
    return {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "CONTENT_LENGTH": str(len(raw)) if raw else "",
        "HTTP_HOST": "localhost",
        "HTTP_X_REQUEST_ID": "the-same",
        "wsgi.url_scheme": "http",
        "wsgi.multithread": False,
        "wsgi.input": BytesIO(raw),
        "taskpost.run": turns.join,
    }


def send(sender: str, to: str, **more: Any) -> Request:
    body = {"from": sender, "type": "request", "task_id": "t", **more}
    return "POST", f"/agents/{to}/inbox", body


def ack(number: int, name: str, **more: Any) -> Request:
    return "POST", f"/inbox/messages/{ids.written(number)}/ack", {"from": name, **more}


def poll(name: str, query: str = "") -> Request:
    return "GET", f"/agents/{name}/inbox{query}", None


NAMES = ("alice", "bob", "carol")
FIRST = [("POST", "/agents", {"id": name}) for name in NAMES]
FIRST += [("POST", "/agents", {"id": "Robert", "aliases": ["rob"]})]
ROUNDS: list[list[Request]] = [
    [send("alice", "bob", content=1), send("bob", "alice", content={"a": [1.50]}), poll("bob")],
    [send("alice", to, task_id=f"t-{number}") for number, to in enumerate(NAMES * 2)],
    [send(sender, "bob", content=sender) for sender in (*NAMES, "a-stranger", "no name", "ROBERT")],
    [send("alice", to) for to in ("rob", "Robert", "robert", "nobody", "postmaster", "bob", "no!")],
    [
        send("alice", "bob", type="progress", percent=5),
        send("alice", "bob", type="cancel"),
        send("alice", "bob", type="done"),
        send("alice", "bob", type="nonsense"),
        send("alice", "bob", type="answer", task_id=None),
        send("alice", "bob", task_id="u", deliver_in=60),
        send("alice", "bob", task_id="u", expires_in=60, extend_on_progress=True),
        send("alice", "bob", expires_in=1, deliver_in=2),
        send("alice", "bob", unknown=1),
    ],
    [send("alice", "bob", idempotency_key="k", content=n) for n in (1, 1, 2)],
    [send("alice", "bob", task_id="new"), send("bob", "alice", task_id="new")],
    [
        ("POST", "/tasks/new/close", {"from": "alice"}),
        send("alice", "bob", task_id="new"),
        send("alice", "bob", task_id="newer"),
    ],
    [poll("bob"), poll("BOB"), poll("alice", "?limit=1"), poll("bob", "?limit=nonsense"),
     poll("carol", "?type=request"), poll("bob", "?status=acked"), poll("bob", "?task_id=t")],
    [ack(1, "bob"), ack(1, "bob"), ack(2, "bob"), ack(2, "alice"), ack(4_000, "alice"),
     ack(3, "alice", receipt="nonsense"), ("POST", "/inbox/messages/none/ack", {"from": "bob"})],
    [ack(7, "bob"), send("carol", "bob"), poll("bob"), ack(8, "carol"), poll("carol")],
    [("GET", "/agents/bob/inbox/count", None), ("GET", "/agents/alice/inbox/count", None)],
]  # fmt: skip


@pytest.fixture
def round(store: str) -> Iterator[Round]:
    made = Round()
    yield made
    presence.forget()


def test_together_is_as_one_by_one(round: Round, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statuses and bodies, of everything that comes, in the same order."""
    monkeypatch.setattr(clock, "now", lambda: 1_796_000_000_000)
    monkeypatch.setattr("inbox.names.new_task", lambda: "task-new")
    found = []
    for together in (True, False):
        postgres.empty()
        presence.forget()
        round.together = together
        round.serve(*FIRST)
        rounds = [_in_its_place(round, requests) for requests in ROUNDS]
        found.append(rounds)
    for requests, one, other in zip(ROUNDS, *found, strict=True):
        for request, first, second in zip(requests, one, other, strict=True):
            assert first == second, request


def _in_its_place(round: Round, requests: list[Request]) -> list[Any]:
    """The answers to a round; what depends on the order within it is taken out."""
    answers = round.serve(*requests)
    return [(status, _orderless(body)) for status, body in answers]


def _orderless(body: Any) -> Any:
    if isinstance(body, dict):
        return {
            key: _orderless(value)
            for key, value in body.items()
            if key not in ("id", "seq", "next", "messages", "unread", "reply_to")
        }
    return body


def contents() -> list[Any]:
    """What lies in the table, in order, as another connection sees it."""
    database.drop()
    found = database.current().execute_sql(
        "SELECT content FROM messages WHERE state_key IS NULL ORDER BY seq"
    )
    return [json.loads(content or "null") for (content,) in found.fetchall()]


def numbered(count: int, first: int = 0) -> list[Request]:
    return [send(NAMES[n % 3], NAMES[(n + 1) % 3], content=first + n) for n in range(count)]


def test_what_is_sent_together_is_one_statement_or_two_a_message(round: Round, store: str) -> None:
    round.serve(*FIRST)
    seen: list[Any] = []
    note = lambda statement, values: seen.append(statement)  # noqa: E731
    database.watchers.append(note)
    try:
        answers = round.serve(*numbered(30))
    finally:
        database.watchers.remove(note)
    assert {status for status, _ in answers} == {201}
    assert contents() == list(range(30))
    # SQLite: the threads, each sender with its recipient, the insert.
    assert len(seen) == (5 if store.startswith("sqlite") else 1)


def test_what_is_sent_together_comes_back_as_it_went(round: Round) -> None:
    round.serve(*FIRST)
    strange = [
        "\0",
        "\\u0000",
        "\"'\\",
        "é\U0001f600",
        "a\nb\t\x7f",
        {"\\": "%s %(x)s :name $1"},
        None,
    ]
    sent = round.serve(*(send("alice", "bob", content=each) for each in (*strange, 1.50, [], {})))
    assert {status for status, _ in sent} == {201}
    assert contents() == [*strange, 1.5, [], {}]
    (_, seen), _ = round.serve(poll("bob"), poll("alice"))
    assert [each.get("content") for each in seen["messages"]] == [*strange, 1.5, [], {}]


def test_polls_of_one_round_see_what_each_sees_alone(round: Round, store: str) -> None:
    """On PostgreSQL by one statement for all that ask in the same way."""
    round.serve(*FIRST)
    round.serve(*numbered(30), send("bob", "rob"), send("bob", "carol", task_id="u"))
    # What fills a page before its messages do is read by itself.
    round.serve(*(send("alice", "bob", task_id="big", content="x" * 9_000) for _ in "123"))
    names = ("alice", "bob", "carol", "rob", "Robert", "robert", "nobody", "no!")
    queries = ("", "?limit=3", "?task_id=t", "?task_id=t&task_id=u", "?from=bob", "?status=all",
               f"?after={ids.written(9)}", f"?after={ids.written(9)}&from=alice&task_id=t",
               "?status=dead", "?type=request", "?limit=0", "?after=x", "?task_id=big")  # fmt: skip
    for query in queries:
        polls = [poll(name, query) for name in names]
        seen: list[Any] = []
        note = lambda statement, values, seen=seen: seen.append(statement)  # noqa: E731
        database.watchers.append(note)
        try:
            together = round.serve(*polls)
        finally:
            database.watchers.remove(note)
        assert together == [round.serve(each)[0] for each in polls], query
        if query == "?limit=3" and not store.startswith("sqlite"):
            # All; the inbox that an alias leads to; and what is wrong is told by itself.
            assert len(seen) == 3


@pytest.mark.parametrize("broken", [Contended("somebody holds it"), ZeroDivisionError()])
def test_what_cannot_be_done_together_is_done_one_by_one(
    round: Round, broken: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    round.serve(*FIRST)

    def fail(*_: Any, **__: Any) -> None:
        raise broken

    monkeypatch.setattr(batches, "send_each", fail)
    monkeypatch.setattr(settling, "ack_each", fail)
    answers = round.serve(*numbered(6))
    assert [status for status, _ in answers] == [201] * 6
    assert sorted(contents()) == list(range(6))
    seqs = [(ids.read(body["id"]), body["to"]) for _, body in answers]
    acks = round.serve(*(ack(seq or 0, name) for seq, name in seqs))
    assert [status for status, _ in acks] == [200] * 6


def test_what_fails_in_the_middle_leaves_nothing_of_itself(
    round: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was done together is undone together, and done again one by one."""
    round.serve(*FIRST)
    real, calls = batches.send_each, []

    def fail(drafts: Any) -> Any:
        calls.append(real(drafts))
        raise ZeroDivisionError

    monkeypatch.setattr(batches, "send_each", fail)
    answers = round.serve(*numbered(4))
    assert None not in calls[0]
    assert [status for status, _ in answers] == [201] * 4
    assert contents() == [0, 1, 2, 3]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("number", range(1, 12))
def test_a_full_disk_at_any_statement_confirms_nothing_that_is_not_there(
    round: Round, number: int
) -> None:
    round.serve(*FIRST)
    left = [number]

    def watch(statement: Any, values: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            pages = database.current().execute_sql("PRAGMA page_count").fetchone()[0]
            database.current().execute_sql(f"PRAGMA max_page_count = {pages}")

    big = [send("alice", "bob", content="x" * 20_000) for _ in range(3)]
    others = [send("alice", "bob", content="x" * 20_000, idempotency_key=f"k{n}") for n in "12"]
    database.watchers.append(watch)
    try:
        answers = round.serve(*big, *others)
    finally:
        database.watchers.remove(watch)
    confirmed = [status for status, _ in answers if status == 201]
    assert len(contents()) == len(confirmed)
    assert round.serve(send("alice", "bob"), send("bob", "alice")) != []
    assert len(contents()) == len(confirmed) + 2


def test_a_transaction_that_is_lost_between_confirms_nothing(
    round: Round, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sends are done, then the connection breaks; the acks are refused, the sends not known."""
    round.serve(*FIRST)
    sent = round.serve(*numbered(2))
    seqs = [(ids.read(body["id"]), body["to"]) for _, body in sent]

    def lose(*_: Any) -> None:
        database.current().rollback()
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(settling, "ack_each", lose)
    acks = [ack(seq or 0, name) for seq, name in seqs]
    answers = round.serve(*numbered(3, first=10), *acks)
    assert {status for status, _ in answers} <= {503}
    assert contents() == [0, 1]


def test_what_is_large_is_done_by_itself(round: Round) -> None:
    """Others would have to wait for it."""
    round.serve(*FIRST)
    done: list[int] = []
    real = round.service.together

    def counted(turns: turn.Shared, jobs: list[Job]) -> list[Job]:
        found = real(turns, jobs)
        done.append(len(found))
        return found

    round.service.together = counted  # type: ignore[method-assign]
    large = [send("alice", "bob", content="x" * 20_000) for _ in "12"]
    assert {status for status, _ in round.serve(*large)} == {201}
    pages = [poll("bob", "?limit=51"), poll("bob", "?limit=500")]
    assert {status for status, _ in round.serve(*pages)} == {200}
    assert {status for status, _ in round.serve(poll("bob"), poll("alice"))} == {200}
    assert done == [0, 0, 2]


def test_who_has_two_requests_to_the_same_message_is_answered_twice(round: Round) -> None:
    round.serve(*FIRST)
    ((_, sent), _) = round.serve(*numbered(2))
    seq = ids.read(sent["id"]) or 0
    answers = round.serve(ack(seq, sent["to"]), ack(seq, sent["to"]), ack(seq, sent["to"]))
    assert [(status, body["status"]) for status, body in answers] == [(200, "acked")] * 3


def test_the_first_message_of_a_thread_opens_it(round: Round) -> None:
    round.serve(*FIRST)
    round.serve(*(send("alice", "bob", task_id=task, content=1) for task in "aabab"))
    database.drop()
    found = database.current().execute_sql("SELECT task_id FROM messages WHERE opens ORDER BY seq")
    assert [task for (task,) in found.fetchall()] == ["a", "b"]
