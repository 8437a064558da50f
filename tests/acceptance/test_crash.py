"""kill -9 of the whole service: what was answered is there afterwards, once and in order."""

import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from tests.acceptance.clients import Client, Refused, Unanswered
from tests.acceptance.server import Server, running

CLIENTS = 8
EACH = 125  # messages; 1,000 in all
INBOX = "/agents/reader/inbox"


def send_all(port: int, number: int, each: int = EACH) -> dict[str, Any]:
    """Client ``number`` sends its messages, whatever happens to the server.

    Those with an even number give keys and repeat what was not answered; the
    others go on with the next message. Returns the ids answered, by message,
    and the messages that were not answered at first.
    """
    answered: dict[int, str] = {}
    unanswered = []
    with Client(port, f"sender-{number}") as client:
        for index in range(each):
            id, broken = send_one(client, [number, index], keyed=number % 2 == 0)
            if id is not None:
                answered[index] = id
            if broken:
                unanswered.append(index)
    return {"answered": answered, "unanswered": unanswered}


def send_one(client: Client, content: list[int], keyed: bool) -> tuple[str | None, bool]:
    """The message's id, if the service told it; whether a try was not answered."""
    key = "{}-{}".format(*content) if keyed else None
    broken = False
    for _ in client.tries():
        try:
            status, message = client.send("reader", content, key)
        except Unanswered:
            broken = True
            if not keyed:
                return None, True
        except Refused:  # nothing was sent
            continue
        else:
            assert status == 201 or (broken and status == 200), message
            return message["id"], broken
    raise AssertionError("the service was away for too long")


def await_count(client: Client, least: int) -> None:
    """Return once so many messages wait for the reader."""
    ends = time.monotonic() + 60
    while client.call("GET", f"{INBOX}/count")[1]["unread"] < least:
        assert time.monotonic() < ends


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75], ids=["early", "half-way", "late"])
def test_every_201_is_there_once_and_in_order_after_a_crash(
    database_url: str, pool: ProcessPoolExecutor, share: float
) -> None:
    with running(database_url) as server, Client(server.port, "reader") as reader:
        sending = [pool.submit(send_all, server.port, number) for number in range(CLIENTS)]
        await_count(reader, round(CLIENTS * EACH * share))
        server.kill()
        server.restart()
        results = [each.result(120) for each in sending]
        reader.close()
        stored = list(reader.pages(INBOX))
    assert any(result["unanswered"] for result in results), "the crash hit nobody"
    judge(stored, results)


def judge(stored: list[Any], results: list[dict[str, Any]], each: int = EACH) -> None:
    """Hold what lies in the inbox against what the senders were told."""
    ids = [message["id"] for message in stored]
    assert ids == sorted(set(ids))
    times = Counter(tuple(message["content"]) for message in stored)
    assert set(times.values()) == {1}
    by_id = {message["id"]: message["content"] for message in stored}
    for number, result in enumerate(results):
        for index, id in result["answered"].items():
            assert by_id.get(id) == [number, index]
        indexes = [index for sender, index in by_id.values() if sender == number]
        assert indexes == sorted(indexes)
        assert set(indexes) - set(result["answered"]) <= set(result["unanswered"])
        if number % 2 == 0:
            assert indexes == list(range(each))


def test_what_was_acked_stays_acked_after_a_crash(database_url: str) -> None:
    sent = [{"to": "reader", "type": "request", "content": index} for index in range(300)]
    with running(database_url) as server, Client(server.port, "reader") as client:
        status, answer = client.call("POST", "/messages", {"from": "sender", "messages": sent})
        assert status == 201
        ids = [message["id"] for message in answer["messages"]]
        client.close()
        acked = ack_until_killed(server, client, ids)
        server.restart()
        unread = [message["id"] for message in client.pages(INBOX)]
        settled = [message["id"] for message in client.pages(f"{INBOX}?status=acked")]
        count = client.call("GET", f"{INBOX}/count")[1]["unread"]
    assert 0 < len(acked) < len(ids)
    assert settled in (acked, ids[: len(acked) + 1])  # the ack in flight was done, or was not
    assert unread == ids[len(settled) :]
    assert count == len(unread)


def ack_until_killed(server: Server, client: Client, ids: list[str]) -> list[str]:
    """Ack one after the other, have the service killed in the middle; which were answered."""
    acked: list[str] = []
    enough = threading.Event()

    def ack() -> None:
        for id in ids:
            try:
                status, answer = client.call("POST", f"/inbox/messages/{id}/ack", {})
            except Unanswered:
                return
            assert (status, answer["status"]) == (200, "acked")
            acked.append(id)
            if len(acked) == len(ids) // 3:
                enough.set()

    acking = threading.Thread(target=ack)
    acking.start()
    enough.wait(60)
    server.kill()
    acking.join(60)
    return acked
