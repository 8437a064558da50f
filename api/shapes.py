"""The shapes of answers: for the contract, and for the tests that hold every answer against it.

Nothing is dumped through them; the rules answer with structs of these shapes.
"""

from collections.abc import Mapping
from typing import Any

from marshmallow import EXCLUDE, Schema, fields

from api.fields import Content

TYPES = {
    "request": "asks for work; open until a `done` or `failed` replies to it.",
    "question": "asks something about the work; waits for an `answer`.",
    "answer": "answers a question.",
    "done": "the work is finished; `content` holds the result.",
    "failed": "the work has failed; `content` says why.",
    "message": "free talk, which opens and settles nothing.",
    "progress": "how far the work is; not final.",
    "cancel": "the requester withdraws a request.",
}
STATUSES = {
    "unread": "it waits, and will be listed until it is acknowledged.",
    "acked": "its recipient is done with it.",
    "dead": "it failed too often and is kept as a dead letter.",
    "expired": "nobody read it before its deadline.",
}
STATES = {
    "open": "a request has not been answered with `done` or `failed`.",
    "waiting": "a question has not been answered.",
    "done": "every request is done.",
    "failed": "a request has failed.",
    "cancelled": "every request was withdrawn.",
    "closed": "it takes no more messages.",
}


def worded(text: str, values: Mapping[str, str]) -> str:
    """A description that lists the values and what each means."""
    return f"{text}:\n" + "".join(f"- `{value}`: {means}\n" for value, means in values.items())


class Reply(Schema):
    """What the service answers: clients must bear fields that are added later."""

    class Meta:
        unknown = EXCLUDE


def _text(text: str, required: bool = True, **metadata: Any) -> fields.Field:
    return fields.String(required=required, metadata={"description": text, **metadata})


def _time(text: str, required: bool = True) -> fields.Field:
    return _text(text, required, format="date-time")


def _enum(text: str, values: Mapping[str, str]) -> fields.Field:
    """A plain string: a client must not break on a value added later."""
    return _text(worded(text, values))


def _count(text: str) -> fields.Field:
    return fields.Integer(required=True, metadata={"format": "int64", "description": text})


def _flag(text: str) -> fields.Field:
    return fields.Boolean(required=True, metadata={"description": text})


def _list(of: type[Schema] | None, text: str, required: bool = True) -> fields.Field:
    inner = fields.Nested(of) if of else fields.String()
    return fields.List(inner, required=required, metadata={"description": text})


def _next() -> fields.Field:
    return _text("The `after` of the next page; absent at the end.", required=False)


class Recipient(Reply):
    """What is known of the agent that a message waits for."""

    known = _flag("Whether it has ever registered or been heard of.")
    did_you_mean = _text("The nearest known name.", required=False)
    served = fields.Boolean(
        metadata={"description": "Of a service: whether a worker is there. Without one it waits."}
    )


class Message(Reply):
    """A message, in the same shape wherever it appears. Fields that do not apply are left out."""

    id = _text("Opaque; of one length, and sorts as messages do.", examples=["m0000000000000001"])
    task_id = _text("The thread it belongs to.", examples=["task-42"])
    sender = fields.String(
        required=True, data_key="from", metadata={"description": "The agent that sent it."}
    )
    to = _text("The agent in whose inbox it lies.")
    type = _enum("What kind of message it is", TYPES)
    content = Content(
        metadata={"description": "Any JSON value, exactly as it was sent; absent when none was."}
    )
    reply_to = _text("The id of the message it answers.", required=False)
    status = _enum("What became of it", STATUSES)
    attempts = _count("How often it was claimed.")
    created_at = _time("When it was sent.")
    deliver_at = _time("When it will be delivered, where that is later.", required=False)
    acked_at = _time("When its recipient acknowledged it.", required=False)
    expires_at = _time("When it is not delivered any more.", required=False)
    leased_until = _time("Of a message that is claimed: until when.", required=False)
    leased_by = _text("Who has claimed it; of a dead letter, who had it last.", required=False)
    receipt = _text("In the answer to a claim: what settles the message.", required=False)
    reason = _text("Why it was given back, died or expired.", required=False)
    recipient = fields.Nested(Recipient)  # in the answer to a send


class MessagePage(Reply):
    """Messages, oldest first."""

    messages = _list(Message, "Oldest first.")
    next = _next()


class SentMessages(Reply):
    """The messages of a batch, in its order."""

    messages = _list(Message, "In the order of the request.")


class InboxCount(Reply):
    """How much waits in an inbox."""

    unread = _count("What a poll would list.")
    delayed = _count("To be delivered later, or given back and not due yet.")
    in_flight = _count("Claimed by somebody at this moment.")
    dead = _count("Dead letters.")


class AckResult(Reply):
    """What became of one id."""

    id = _text("As the request has it.")
    status = _enum(
        "What became of it",
        {"acked": "it is acknowledged, now or before.", "refused": "it is not; see `code`."},
    )
    code = _text(
        "Why it was refused: `message_not_found`, `not_yours`, `lease_lost`,"
        " `message_expired` or `message_dead`.",
        required=False,
    )


class AckResults(Reply):
    """A result for each id, in the order given."""

    results = _list(AckResult, "In the order of the request.")


class Agent(Reply):
    """An agent as it has registered. Fields that were not given are left out."""

    id = _text("Its name.", examples=["translator", "reviewer@work3"])
    description = _text("What it is good for.", required=False)
    tags = _list(None, "Words to find it by.", required=False)
    aliases = _list(None, "Other names under which mail reaches it.", required=False)
    status = _text("Such as idle, working, draining; in its own words.", required=False)
    activity = _text("What it is doing.", required=False)
    task_id = _text("The task with whose end it goes.", required=False)
    ends_at = _time("When it retires and its mail is removed.", required=False)
    max_attempts = fields.Integer(
        metadata={"format": "int64", "description": "How often a message of it may be claimed."}
    )
    lease_seconds = fields.Float(
        metadata={"format": "double", "description": "How long a claim lasts that does not say so."}
    )
    created_at = _time("When it first registered.")
    last_seen = _time("When it was last heard of; up to 30 s late.", required=False)
    retired_at = _time("When it retired.", required=False)


class AgentPage(Reply):
    """Agents by name."""

    agents = _list(Agent, "By name.")
    next = _next()


class AgentDeleted(Reply):
    """An agent has retired."""

    status = _text("Always `deleted`.")
    agent_id = _text("Its name.")


class Debt(Reply):
    """An answer that one agent owes another."""

    debtor = fields.String(
        required=True, data_key="from", metadata={"description": "Who owes an answer."}
    )
    to = _text("To whom.")
    type = _enum(
        "What has not been answered",
        {"request": "with `done` or `failed`.", "question": "with `answer`."},
    )
    id = _text("The message not yet answered.")
    since = _time("When that was sent.")


class Task(Reply):
    """A task as its messages show it to the one who asks."""

    task_id = _text("Its id.", examples=["task-42"])
    state = _enum("The worst of its requests", STATES)
    participants = _list(None, "Every agent that has sent or been sent a message of it, by name.")
    owes = _list(Debt, "Who owes what to whom.")
    open_questions = _list(None, "The ids of questions that have not been answered.")
    messages = _count("How many messages it has.")
    unread = _count("How many of them are unread.")
    by_type = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(metadata={"format": "int64"}),
        required=True,
        metadata={"description": "How many messages of each type."},
    )
    first_at = _time("When it began.")
    last_at = _time("When something last happened in it.")
    closed_by = _text("Who closed it.", required=False)
    closed_at = _time("When it was closed.", required=False)


class TaskPage(Reply):
    """Tasks, newest first. A page may be short and still have a next."""

    tasks = _list(Task, "Newest first.")
    next = _next()


class Health(Reply):
    """The process serves."""

    status = _text("Always `healthy`.")
    version = _text("The version of the service.")


class Sweeper(Reply):
    """What the sweeper of this database has done since its process began; up to 5 s late."""

    last_run = _time("When it last wrote this down; every 5 s, in whichever process it is.")
    rows = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(metadata={"format": "int64"}),
        required=True,
        metadata={"description": "How many rows: `due`, `expired`, `removed`; `pages` given back."},
    )
    errors = _count("How many rounds have failed.")
    last_error = _text("The code of the last failure.", required=False)


class Readiness(Reply):
    """The database answers."""

    status = _text("Always `ready`.")
    sweeper = fields.Nested(Sweeper)


class FieldError(Reply):
    """One thing that is wrong with a request."""

    pointer = _text(
        "Where: a JSON pointer into the body, `?name` for a parameter, `path/name` in the path,"
        " `header/name` for a header."
    )
    detail = _text("What is wrong there.")


class Problem(Reply):
    """What is wrong, and what to do next (RFC 9457)."""

    type = _text("A URI for the kind of problem: `urn:taskpost:problem:` and the code.")
    title = _text("The kind of problem in a few words.")
    status = fields.Integer(
        required=True, metadata={"format": "int32", "description": "The HTTP status."}
    )
    detail = _text("What is wrong with this request.")
    code = _text("Stable, for programs. Each answer of each operation lists its codes.")
    retryable = _flag("Whether the same request may succeed later.")
    hint = _text("One line to act on.")
    request_id = _text("As in the header X-Request-Id, and in the log of the service.")
    errors = _list(FieldError, "What is wrong, place by place.", required=False)
