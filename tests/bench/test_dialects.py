"""Each dialect says what its server understands, and counts what the server has answered."""

from collections.abc import Sequence
from typing import Any

import pytest

from bench.client import Unit
from bench.dialects import Hello, Original, Parley, Redis, Taskpost, ids
from bench.wire import Reply


def talk(unit: Unit, bodies: Sequence[Any]) -> tuple[list[bytes], int]:
    """The requests of a unit that gets these answers, and what it returns."""
    sent = [next(unit)]
    for place, body in enumerate(bodies):
        try:
            sent.append(unit.send(Reply(200, body, 0)))
        except StopIteration as end:
            assert place == len(bodies) - 1, "it ended early"
            return sent, end.value
    raise AssertionError("it wanted to go on")


def lines(sent: list[bytes]) -> list[str]:
    """Method and path of each request."""
    return [request.decode().partition(" HTTP/1.1\r\n")[0] for request in sent]


PAGE = b'{"messages": [{"id": "m1", "task_id": "x"}, {"id":"m2"}]}'


def test_ids_are_those_of_the_messages() -> None:
    assert ids(Reply(200, PAGE, 0)) == ["m1", "m2"]


@pytest.mark.parametrize("dialect", [Original("a"), Taskpost("a")])
def test_a_cycle_acknowledges_the_message_that_it_polled(dialect: Original) -> None:
    sent, done = talk(dialect.cycle("bob"), [b"{}", PAGE, b"{}"])
    assert done == 1
    assert lines(sent) == [
        "POST /agents/bob/inbox",
        "GET /agents/bob/inbox?status=unread&limit=1",
        "POST /inbox/messages/m1/ack",
    ]


def test_a_cycle_that_finds_nothing_is_none() -> None:
    assert talk(Taskpost("a").cycle("bob"), [b"{}", b'{"messages": []}'])[1] == 0


def test_a_page_is_drained_one_by_one_or_at_once() -> None:
    one_by_one, count = talk(Original("a").drain("bob"), [PAGE, b"{}", b"{}"])
    assert (len(one_by_one), count) == (3, 2)
    at_once, count = talk(Taskpost("a").drain("bob"), [PAGE, b"{}"])
    assert (len(at_once), count) == (2, 2)
    assert at_once[1].endswith(b'{"ids": ["m1", "m2"]}')


def test_eight_messages_in_a_row_have_a_task_in_common() -> None:
    dialect = Taskpost("a")
    messages = [dialect.message() for _ in range(9)]
    assert len(set(messages[:8])) == 1
    assert messages[8] != messages[7]


def test_a_batch_has_all_its_messages() -> None:
    sent, done = talk(Taskpost("a").batch("bob"), [b"{}"])
    assert done == sent[0].count(b'"to":"bob"') == 100


def test_a_backlog_is_filled_with_as_many_as_were_asked_for() -> None:
    sent, done = talk(Taskpost("a").fill("bob", 1100), [b"{}"] * 3)
    assert done == sum(request.count(b'"to":"bob"') for request in sent) == 1100
    assert talk(Original("a").fill("bob", 3), [b"{}"] * 3)[1] == 3


def test_parley_counts_what_its_poll_gives() -> None:
    found = b'{"conversations":[{"conv":"r","messages":[{"from":"a","body":"x","at":"y"}]}]}'
    sent, done = talk(Parley("a").cycle("r"), [b'{"ok":true,"id":1}', found])
    assert done == 1
    assert lines(sent) == ["POST /rooms/r/messages", "GET /poll?room=r"]
    assert not talk(Parley("a").send("r"), [b'{"ok":false}'])[1]


def test_redis_acknowledges_the_entry_that_it_read() -> None:
    found = [[b"s", [[b"1-1", [b"m", b"x"]]]]]
    sent, done = talk(Redis().cycle("s"), [b"1-1", found, 1])
    assert done == 1
    assert sent[2] == b"*4\r\n$4\r\nXACK\r\n$1\r\ns\r\n$1\r\ng\r\n$3\r\n1-1\r\n"
    assert talk(Redis().drain("s"), [None])[1] == 0


def test_a_floor_knows_only_what_it_can_be_a_floor_for() -> None:
    assert not hasattr(Hello("a"), "cycle")
    assert not hasattr(Parley("a"), "batch")
    assert not hasattr(Original("a"), "batch")
