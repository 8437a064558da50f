"""Views of an inbox: send, send many, poll, count, ack, receipts."""

from typing import Any

import msgspec

from api import waiting
from api.call import Answer, Call
from api.waiting import Later, Parked
from inbox import acks, poll, receipts, replies, send
from inbox.bell import Address, Wait
from inbox.errors import InvalidRequest
from inbox.ids import cursor
from inbox.message import Message
from inbox.poll import Asked, Filter, Found
from inbox.problem import Problem
from inbox.send import Letter, Sent

# What is more than that is done by itself: others wait for all that is done together with them.
SMALL_CONTENT = 16 << 10  # bytes
SMALL_PAGE = 50  # messages


def send_one(call: Call) -> Answer | Parked:
    """201 with the message, or 200 with the one that was sent before with the same key.

    With ``wait``: 200 with the first done, failed or question that comes back
    on the task, or 202 with the message when the time is up.
    """
    if call.wait is not None:
        return reply(call, call.wait)
    asked = letter(call.path["agent"], call.body, header_key(call))
    return sent_answer(call, send.send(call.actor, asked, only=True))


def send_together(calls: list[Call]) -> list[Answer | None]:
    """The same for several calls, as far as nothing is special about what they send."""
    asked = [(call.actor, _plain_letter(call)) for call in calls]
    sent = send.send_each(asked)
    return [
        sent_answer(call, each) if each is not None else None
        for call, each in zip(calls, sent, strict=True)
    ]


def _plain_letter(call: Call) -> Letter | None:
    content = call.body.get("content") or b""
    special = call.headers.get("HTTP_IDEMPOTENCY_KEY") or waiting.seconds(call)
    if special or len(content) > SMALL_CONTENT:
        return None
    try:
        return letter(call.path["agent"], call.body, None)
    except InvalidRequest:
        return None


def sent_answer(call: Call, done: Sent) -> Answer | Parked:
    """What a send answers at once; or, if the caller has patience, a wait for what comes back."""
    sent, again = done.message, done.replayed
    patience = waiting.seconds(call)
    if patience and not call.final:
        wait = Wait([Address(call.actor.realm, sent.sender)], patience, kept=(sent, again))
        wait.rung = True  # look once after the commit: a repeated request may have its reply
        return Parked(wait)
    status = 202 if patience else 200 if again else 201
    return Answer(sent, status, _sent_headers(sent, again))


def reply(call: Call, wait: Wait) -> Answer | Parked:
    """What has come back for a message that was sent, once there is something."""
    sent, again = wait.kept

    def look(last: bool) -> Answer | Later:
        found = replies.first(call.actor.realm, sent)
        if found is not None:
            return Answer(found)
        return Answer(sent, 202, _sent_headers(sent, again)) if last else Later.RUNG

    return waiting.until(call, 0, (), look)


def _sent_headers(sent: Message, again: bool) -> tuple[tuple[str, str], ...]:
    return (("Location", f"/inbox/messages/{sent.id}"), *_replayed(again))


def send_many(call: Call) -> Answer:
    """201 with the messages, or 200 when all of them were sent before with the same keys."""
    key = header_key(call)
    letters = [
        letter(item["to"], item, f"{key}#{index}" if key else None)
        for index, item in enumerate(call.body["messages"])
    ]
    sent = send.send_many(call.actor, letters)
    again = all(each.replayed for each in sent)
    payload = {"messages": [each.message for each in sent]}
    return Answer(payload, 200 if again else 201, _replayed(again))


def letter(to: str, body: dict[str, Any], in_header: str | None) -> Letter:
    """What is to be sent, from a body and the header's key."""
    key = body.get("idempotency_key")
    if in_header and key and in_header != key:
        errors = [{"pointer": "/idempotency_key", "detail": "is not the header Idempotency-Key"}]
        raise InvalidRequest("Idempotency-Key and idempotency_key differ.", errors=errors)
    return Letter(
        to=to,
        type=body["type"],
        content=_content(body),
        task_id=body.get("task_id"),
        reply_to=body.get("reply_to"),
        expires_in=body.get("expires_in"),
        deliver_in=body.get("deliver_in"),
        extend_on_progress=body.get("extend_on_progress", False),
        idempotency_key=key or in_header,
    )


def _content(body: dict[str, Any]) -> Any:
    """The content; of a progress that has none, what it says in fields of its own."""
    said = {key: body[key] for key in ("percent", "note") if key in body}
    if not said:
        return body.get("content")
    if body["type"] != "progress" or "content" in body:
        detail = "is for a progress without content"
        errors = [{"pointer": f"/{key}", "detail": detail} for key in said]
        raise InvalidRequest(f"/{next(iter(said))} {detail}.", errors=errors)
    return msgspec.json.encode(said)


def header_key(call: Call) -> str | None:
    """The header Idempotency-Key; raises ``InvalidRequest`` for one that cannot be."""
    # WSGI gives a header's bytes as latin-1; a key in a body is UTF-8.
    key = call.headers.get("HTTP_IDEMPOTENCY_KEY", "")
    key = key if key.isascii() else key.encode("latin-1").decode(errors="backslashreplace")
    if key and not (len(key) <= 255 and key.isprintable()):
        detail = "is not 1 to 255 printable characters"
        errors = [{"pointer": "header/Idempotency-Key", "detail": detail}]
        raise InvalidRequest(f"The header Idempotency-Key {detail}.", errors=errors)
    return key or None


def _replayed(again: bool) -> tuple[tuple[str, str], ...]:
    return (("Idempotency-Replayed", "true"),) if again else ()


def look(call: Call) -> Answer | Parked:
    """A page of the inbox, or 304 when it is as the caller has seen it.

    With ``wait``: once there is a message or, with If-None-Match, a change.
    """
    return look_at(call, call.path["agent"])


def look_together(calls: list[Call]) -> list[Answer | None]:
    """The same for several calls; None for each that waits, or that there is a problem with."""
    asked = [_asked(call) for call in calls]
    found = iter(poll.ahead([each for each in asked if each is not None]))
    return [
        _looked(call, next(found)) if each is not None else None
        for call, each in zip(calls, asked, strict=True)
    ]


def _asked(call: Call) -> Asked | None:
    limit = call.query["limit"]
    if waiting.seconds(call) or limit > SMALL_PAGE:
        return None
    try:
        return Asked(call.actor, call.path["agent"], _wanted(call), limit)
    except Problem:  # it is raised again where the call is answered by itself
        return None


def _looked(call: Call, found: Found | None) -> Answer | None:
    try:
        answer = look_at(call, call.path["agent"], found)
    except Problem:
        return None
    return None if isinstance(answer, Parked) else answer


def _wanted(call: Call) -> Filter:
    query = call.query
    return Filter(
        status=query["status"],
        task_ids=tuple(dict.fromkeys(query.get("task_id", ()))),
        types=tuple(query.get("type", ())),
        sender=query.get("sender"),
        after=cursor(query["after"]) if "after" in query else None,
    )


def look_at(call: Call, address: str, ahead: Found | None = None) -> Answer | Parked:
    """The same for any address; ``ahead`` is what its first look finds, if that is known."""
    query, patience = call.query, waiting.seconds(call)
    if patience and "after" in query:
        errors = [{"pointer": "?wait", "detail": "does not go with after"}]
        raise InvalidRequest("?wait does not go with after: it pages one look.", errors=errors)
    wanted = _wanted(call)
    known = call.headers.get("HTTP_IF_NONE_MATCH", "")

    def once(last: bool) -> Answer | Later:
        found = poll.poll(call.actor, address, wanted, query["limit"], ahead)
        same = _matches(known, found.tag)
        if not last and (same or (not known and not found.messages)):
            return Later.RUNG
        headers = (("ETag", f'W/"{found.tag}"'), ("Cache-Control", "no-cache"))
        if same:
            return Answer(b"", 304, headers)
        return Answer(_page(found.messages, found.next), headers=headers)

    addresses = poll.addresses(call.actor, address) if patience else ()
    return waiting.until(call, patience, addresses, once)


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
    return Answer(acks.ack(call.actor, call.path["message"], call.body.get("receipt")))


def ack_together(calls: list[Call]) -> list[Answer | None]:
    """The same for several calls; None for each whose message cannot simply be acknowledged."""
    asked = [(call.actor, call.path["message"], call.body.get("receipt")) for call in calls]
    return [Answer(each) if each is not None else None for each in acks.ack_each(asked)]


def ack_many(call: Call) -> Answer:
    """A result for each id, in order."""
    results = acks.ack_many(call.actor, call.path["agent"], call.body["ids"])
    return Answer({"results": results})


def receipt(call: Call) -> Answer:
    """The message, with what became of it."""
    return Answer(receipts.receipt(call.actor, call.path["message"]))
