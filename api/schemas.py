"""The envelopes: what requests may hold, and the shapes that answers have.

Request schemas are loaded; answer schemas are there for the contract
(``api.openapi``) and for the tests that hold every answer against it.
"""

from typing import Any

from marshmallow import RAISE, Schema, fields, pre_load, validate

from api.fields import YEARS, AgentName, Content, Key, Many, MessageId, Number, TaskId, Text
from inbox import names

STATES = ["open", "waiting", "done", "failed", "cancelled", "closed"]
ONE_OF = "is not one of {choices}"
LIST_LIMIT = {"least": 1, "most": 500, "cut": True, "whole": True}
WAIT = {"least": 0, "most": 30, "cut": True}


class Request(Schema):
    """What a caller sends: unknown fields are refused, null is as if left out."""

    class Meta:
        unknown = RAISE

    from_query = False
    keeps_null: tuple[str, ...] = ()

    @pre_load
    def drop_nulls(self, data: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Take away what is null, where that means the same as leaving it out."""
        if None not in data.values():
            return data
        return {key: data[key] for key in data if data[key] is not None or key in self.keeps_null}


class Body(Request):
    """A body: in open mode every one may say who is asking."""

    sender = AgentName(
        data_key="from",
        metadata={"description": "Who is asking, where the path does not say so."},
    )


class Query(Request):
    """Query parameters."""

    from_query = True
    as_ = AgentName(
        data_key="as",
        metadata={"description": "Who is asking, where neither path nor body say so."},
    )


class ListQuery(Query):
    """Query parameters of a list."""

    limit = Number(
        **LIST_LIMIT,
        load_default=50,
        metadata={"description": "How many at most; more than 500 is cut to 500."},
    )
    after = Text(metadata={"description": "The `next` of the page before."})


class AgentsQuery(ListQuery):
    """Which agents to list."""

    tag = Text(metadata={"description": "Only agents with this tag."})
    q = Text(
        metadata={
            "description": "Only agents with this text in name, aliases, description, activity."
        }
    )


class InboxQuery(ListQuery):
    """Which messages of an inbox to list."""

    status = fields.String(
        load_default="unread",
        validate=validate.OneOf(["unread", "acked", "dead", "all"], error=ONE_OF),
        metadata={"description": "unread (the default), acked, dead or all."},
    )
    task_id = Many(TaskId(), 50, metadata={"description": "Only of this task; may be repeated."})
    type = Many(
        Text(longest=64), 20, metadata={"description": "Only of this type; may be repeated."}
    )
    sender = AgentName(data_key="from", metadata={"description": "Only from this sender."})
    wait = Number(
        **WAIT,
        metadata={"description": "Seconds to wait for a message; more than 30 is cut to 30."},
    )
    timeout = Number(**WAIT, metadata={"description": "The same as `wait`."})


class HistoryQuery(ListQuery):
    """Which messages of a task to list."""


class TasksQuery(ListQuery):
    """Which tasks to list."""

    state = fields.String(
        validate=validate.OneOf(STATES, error=ONE_OF),
        metadata={"description": "Only tasks in this state."},
    )
    agent = AgentName(metadata={"description": "Only tasks in which this agent takes part."})


class RegisterAgent(Body):
    """A registration. What is left out stays as it was; null clears."""

    keeps_null = ("description", "tags", "aliases", "status", "activity")

    id = AgentName(required=True, metadata={"description": "The agent's name."})
    description = Text(longest=2000, allow_none=True)
    tags = Many(Text(longest=64), 50, allow_none=True)
    aliases = Many(
        AgentName(),
        20,
        allow_none=True,
        metadata={"description": "Other names under which mail reaches this agent."},
    )
    status = Text(
        longest=64, allow_none=True, metadata={"description": "Such as idle, working, draining."}
    )
    activity = Text(
        longest=500, allow_none=True, metadata={"description": "What the agent is doing."}
    )


class SendMessage(Body):
    """A message to one agent."""

    task_id = TaskId(
        metadata={
            "description": "The thread. Left out: that of `reply_to`, or a new one for a request,"
            " a question or a message."
        }
    )
    type = Text(
        required=True,
        metadata={
            "description": "request, question, answer, done, failed, message, progress or cancel.",
        },
    )
    content = Content(
        allow_none=True,
        metadata={"description": "Any JSON value; comes back exactly as it was sent."},
    )
    reply_to = MessageId(metadata={"description": "The id of the message that this one answers."})
    expires_in = Number(
        0.001, YEARS, metadata={"description": "Seconds after which it is not delivered any more."}
    )
    deliver_in = Number(0, YEARS, metadata={"description": "Seconds before it is delivered."})
    idempotency_key = Key(
        metadata={"description": "Like the header Idempotency-Key: sends once, however often."}
    )


class BatchMessage(SendMessage):
    """A message of a batch."""

    to = AgentName(required=True, metadata={"description": "The recipient."})


class SendMessages(Body):
    """Messages that are all sent, in this order, or none."""

    messages = Many(fields.Nested(BatchMessage), 500, 1, required=True)


class Empty(Body):
    """Nothing but who is asking."""


class AckMessages(Body):
    """Messages of one inbox that its agent is done with."""

    ids = Many(Text(longest=200), 500, 1, required=True)


class AckMessage(Body):
    """The recipient is done with a message."""


def _time(text: str) -> fields.Field:
    return fields.String(metadata={"format": "date-time", "description": text})


def _enum(values: tuple[str, ...] | list[str], text: str) -> fields.Field:
    """A plain string: a client must not break on a value added later."""
    return fields.String(metadata={"description": f"{text} One of: {', '.join(values)}."})


class Message(Schema):
    """A message. Fields that do not apply are left out."""

    id = fields.String(required=True, metadata={"description": "Sorts as messages do."})
    task_id = fields.String(required=True)
    sender = fields.String(required=True, data_key="from")
    to = fields.String(required=True)
    type = _enum(names.MESSAGE_TYPES, "What kind of message it is.")
    content = Content(metadata={"description": "The JSON value as it was sent."})
    reply_to = fields.String(metadata={"description": "The id of the message it answers."})
    status = _enum(("unread", "acked", "dead", "expired"), "What became of it.")
    attempts = fields.Integer(required=True, metadata={"format": "int64"})
    created_at = _time("When it was sent.")
    deliver_at = _time("When it will be delivered, where that is later.")
    acked_at = _time("When its recipient acknowledged it.")
    expires_at = _time("When it is not delivered any more.")


class Recipient(Schema):
    """What is known of the agent that a message waits for."""

    known = fields.Boolean(
        required=True,
        metadata={"description": "Whether it has ever registered or been heard of."},
    )
    did_you_mean = fields.String(metadata={"description": "The nearest known name."})


class SentMessage(Message):
    """A message just sent."""

    recipient = fields.Nested(Recipient, required=True)


class MessagePage(Schema):
    """Messages, oldest first."""

    messages = fields.List(fields.Nested(Message), required=True)
    next = fields.String(
        metadata={"description": "The `after` of the next page; absent at the end."}
    )


class SentMessages(Schema):
    """The messages of a batch, in its order."""

    messages = fields.List(fields.Nested(SentMessage), required=True)


class InboxCount(Schema):
    """How much waits in an inbox."""

    unread = fields.Integer(required=True, metadata={"format": "int64"})
    delayed = fields.Integer(
        required=True, metadata={"format": "int64", "description": "To be delivered later."}
    )


class AckResult(Schema):
    """What became of one id."""

    id = fields.String(required=True)
    status = _enum(("acked", "refused"), "Whether it is acknowledged now.")
    code = fields.String(metadata={"description": "Why it was refused."})


class AckResults(Schema):
    """A result for each id, in the order given."""

    results = fields.List(fields.Nested(AckResult), required=True)


class Agent(Schema):
    """An agent as it has registered."""

    id = fields.String(required=True)
    description = fields.String()
    tags = fields.List(fields.String())
    aliases = fields.List(fields.String())
    status = fields.String()
    activity = fields.String()
    created_at = _time("When it first registered.")
    last_seen = _time("When it was last heard of.")
    retired_at = _time("When it retired.")


class AgentPage(Schema):
    """Agents by name."""

    agents = fields.List(fields.Nested(Agent), required=True)
    next = fields.String(
        metadata={"description": "The `after` of the next page; absent at the end."}
    )


class AgentDeleted(Schema):
    """An agent has retired."""

    status = fields.String(required=True)
    agent_id = fields.String(required=True)


class Debt(Schema):
    """An answer that one agent owes another."""

    debtor = fields.String(required=True, data_key="from")
    to = fields.String(required=True)
    type = _enum(("request", "question"), "What has not been answered.")
    id = fields.String(required=True, metadata={"description": "The message not yet answered."})
    since = _time("When it was sent.")


class Task(Schema):
    """A task as its messages show it to the one who asks."""

    task_id = fields.String(required=True)
    state = _enum(STATES, "The worst of its requests.")
    participants = fields.List(fields.String(), required=True)
    owes = fields.List(fields.Nested(Debt), required=True)
    open_questions = fields.List(fields.String(), required=True)
    messages = fields.Integer(required=True, metadata={"format": "int64"})
    unread = fields.Integer(required=True, metadata={"format": "int64"})
    by_type = fields.Dict(
        keys=fields.String(), values=fields.Integer(metadata={"format": "int64"}), required=True
    )
    first_at = _time("When it began.")
    last_at = _time("When something last happened in it.")
    closed_by = fields.String()
    closed_at = _time("When it was closed.")


class TaskPage(Schema):
    """Tasks, newest first. A page may be short and still have a next."""

    tasks = fields.List(fields.Nested(Task), required=True)
    next = fields.String(
        metadata={"description": "The `after` of the next page; absent at the end."}
    )


class Health(Schema):
    """The process serves."""

    status = fields.String(required=True)
    version = fields.String(required=True)


class Readiness(Schema):
    """The database answers."""

    status = fields.String(required=True)


class FieldError(Schema):
    """One thing that is wrong with a request."""

    pointer = fields.String(required=True, metadata={"description": "Where in the request."})
    detail = fields.String(required=True)


class Problem(Schema):
    """What is wrong, and what to do next (RFC 9457)."""

    type = fields.String(required=True)
    title = fields.String(required=True)
    status = fields.Integer(required=True, metadata={"format": "int32"})
    detail = fields.String(required=True)
    code = fields.String(required=True, metadata={"description": "Stable; for programs."})
    retryable = fields.Boolean(required=True)
    hint = fields.String(required=True, metadata={"description": "One line to act on."})
    request_id = fields.String(required=True)
    errors = fields.List(fields.Nested(FieldError))
