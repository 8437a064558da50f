"""Views of an inbox: send, send many, poll, count, ack, receipts."""

from typing import Any

from api.call import Answer, Call
from inbox import acks, poll, receipts, send
from inbox.errors import InvalidRequest
from inbox.ids import cursor
from inbox.poll import Filter
from inbox.send import Letter


def send_one(call: Call) -> Answer:
    """201 with the message, or 200 with the one that was sent before with the same key."""
    key = call.headers.get("HTTP_IDEMPOTENCY_KEY")
    sent, again = send.send(call.actor, _letter(call.path["agent"], call.body, key))
    headers = (("Location", f"/inbox/messages/{sent.id}"), *_replayed(again))
    return Answer(sent, 200 if again else 201, headers)


def send_many(call: Call) -> Answer:
    """201 with the messages, or 200 when all of them were sent before with the same keys."""
    key = call.headers.get("HTTP_IDEMPOTENCY_KEY")
    letters = [
        _letter(item["to"], item, f"{key}#{index}" if key else None)
        for index, item in enumerate(call.body["messages"])
    ]
    sent = send.send_many(call.actor, letters)
    again = all(each.replayed for each in sent)
    payload = {"messages": [each.message for each in sent]}
    return Answer(payload, 200 if again else 201, _replayed(again))


def _letter(to: str, body: dict[str, Any], header_key: str | None) -> Letter:
    key = body.get("idempotency_key")
    if header_key and key and header_key != key:
        raise InvalidRequest("The header Idempotency-Key and idempotency_key differ.")
    return Letter(
        to=to,
        type=body["type"],
        content=body.get("content"),
        task_id=body.get("task_id"),
        reply_to=body.get("reply_to"),
        expires_in=body.get("expires_in"),
        deliver_in=body.get("deliver_in"),
        idempotency_key=key or _checked(header_key),
    )


def _checked(key: str | None) -> str | None:
    if key and not (len(key) <= 300 and key.isprintable()):
        raise InvalidRequest("The header Idempotency-Key is not 1 to 255 printable characters.")
    return key or None


def _replayed(again: bool) -> tuple[tuple[str, str], ...]:
    return (("Idempotency-Replayed", "true"),) if again else ()


def look(call: Call) -> Answer:
    """A page of the inbox, or 304 when it is as the caller has seen it."""
    query = call.query
    wanted = Filter(
        status=query["status"],
        task_ids=tuple(dict.fromkeys(query.get("task_id", ()))),
        types=tuple(query.get("type", ())),
        sender=query.get("sender"),
        after=cursor(query["after"]) if "after" in query else None,
    )
    found = poll.poll(call.actor, call.path["agent"], wanted, query["limit"])
    headers = (("ETag", f'W/"{found.tag}"'), ("Cache-Control", "no-cache"))
    if _matches(call.headers.get("HTTP_IF_NONE_MATCH", ""), found.tag):
        return Answer(b"", 304, headers)
    return Answer(_page(found.messages, found.next), headers=headers)


def _matches(header: str, tag: str) -> bool:
    tags = [part.strip().removeprefix("W/").strip('"') for part in header.split(",")]
    return tag in tags or tags == ["*"]


def _page(messages: list[Any], place: str | None) -> dict[str, Any]:
    return {"messages": messages} if place is None else {"messages": messages, "next": place}


def count(call: Call) -> Answer:
    """How much waits."""
    return Answer(poll.count(call.actor, call.path["agent"]))


def ack(call: Call) -> Answer:
    """The message, acknowledged."""
    return Answer(acks.ack(call.actor, call.path["message"]))


def ack_many(call: Call) -> Answer:
    """A result for each id, in order."""
    results = acks.ack_many(call.actor, call.path["agent"], call.body["ids"])
    return Answer({"results": results})


def receipt(call: Call) -> Answer:
    """The message, with what became of it."""
    return Answer(receipts.receipt(call.actor, call.path["message"]))
