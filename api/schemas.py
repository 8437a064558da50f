"""The envelopes: what requests may hold."""

from marshmallow import fields, validate

from api.envelopes import Body, ListQuery, WaitQuery
from api.fields import (
    YEARS,
    AgentName,
    Content,
    Flag,
    Key,
    Many,
    MessageId,
    Number,
    TaskId,
    Text,
    Word,
)
from api.shapes import STATES, TYPES, worded
from inbox import names

ONE_OF = "is not one of {choices}"
LEASE = (1, 12 * 3600)  # seconds
ATTEMPTS = {"least": 1, "most": 100, "whole": True}
ATTEMPTS_OF = {
    "description": "How often a message may be claimed before it is a dead letter. By default 5."
}
LEASE_OF = {"description": "Seconds that a claim lasts which does not say how long. By default 60."}


class AgentsQuery(ListQuery):
    """Which agents to list."""

    after = Text(
        metadata={
            "description": "The `next` of the page before.",
            "pattern": f"^{names.AGENT.pattern}$",
        }
    )

    tag = Text(metadata={"description": "Only agents with this tag."})
    q = Text(
        metadata={
            "description": "Only agents with this text in name, aliases, description or activity,"
            " in upper or lower case."
        }
    )


class InboxQuery(ListQuery, WaitQuery):
    """Which messages of an inbox to list."""

    status = fields.String(
        load_default="unread",
        validate=validate.OneOf(["unread", "acked", "dead", "all"], error=ONE_OF),
        metadata={"description": "Only messages of this status."},
    )
    task_id = Many(TaskId(), 50, metadata={"description": "Only of this task; may be repeated."})
    type = Many(
        Word(longest=64), 20, metadata={"description": "Only of this type; may be repeated."}
    )
    sender = AgentName(data_key="from", metadata={"description": "Only from this sender."})


class SendQuery(WaitQuery):
    """How long to wait for what comes back."""


class HistoryQuery(ListQuery, WaitQuery):
    """Which messages of a task to list."""


class TasksQuery(ListQuery):
    """Which tasks to list."""

    state = fields.String(
        validate=validate.OneOf(list(STATES), error=ONE_OF),
        metadata={"description": "Only tasks in this state."},
    )
    agent = AgentName(metadata={"description": "Only tasks in which this agent takes part."})


class RegisterAgent(Body):
    """A registration. What is left out stays as it was; null clears."""

    keeps_null = (
        "description",
        "tags",
        "aliases",
        "status",
        "activity",
        "ttl",
        "task_id",
        "max_attempts",
        "lease_seconds",
    )

    id = AgentName(required=True, metadata={"description": "The agent's name."})
    description = Text(
        longest=2000, allow_none=True, metadata={"description": "What the agent is good for."}
    )
    tags = Many(
        Text(longest=64),
        50,
        allow_none=True,
        metadata={"description": "Words to find the agent by; an empty list clears them."},
    )
    aliases = Many(
        AgentName(),
        20,
        allow_none=True,
        metadata={
            "description": "Other names under which mail reaches this agent; an empty list"
            " clears them."
        },
    )
    status = Text(
        longest=64, allow_none=True, metadata={"description": "Such as idle, working, draining."}
    )
    activity = Text(
        longest=500, allow_none=True, metadata={"description": "What the agent is doing."}
    )
    ttl = Number(
        1,
        YEARS,
        allow_none=True,
        metadata={"description": "Seconds after which the agent retires and its mail is removed."},
    )
    task_id = TaskId(
        allow_none=True,
        metadata={"description": "The task with whose end the agent and its mail go."},
    )
    max_attempts = Number(**ATTEMPTS, allow_none=True, metadata=ATTEMPTS_OF)
    lease_seconds = Number(*LEASE, allow_none=True, metadata=LEASE_OF)


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
            "description": worded("What kind of message it is", TYPES),
            "enum": list(names.MESSAGE_TYPES),
        },
    )
    content = Content(
        allow_none=True,
        metadata={
            "description": "Any JSON value, or nothing at all; comes back exactly as it was sent."
        },
    )
    reply_to = MessageId(metadata={"description": "The id of the message that this one answers."})
    expires_in = Number(
        0.001, YEARS, metadata={"description": "Seconds after which it is not delivered any more."}
    )
    deliver_in = Number(0, YEARS, metadata={"description": "Seconds before it is delivered."})
    extend_on_progress = Flag(
        metadata={
            "description": "Whether a `progress` in reply lets the `expires_in` seconds begin anew."
        }
    )
    percent = Number(
        0,
        100,
        metadata={"description": "Of a `progress` without content: becomes `content.percent`."},
    )
    note = Text(
        longest=2000,
        metadata={"description": "Of a `progress` without content: becomes `content.note`."},
    )
    idempotency_key = Key(
        metadata={
            "description": "Like the header Idempotency-Key, for those who cannot set headers:"
            " the message is sent once, however often the request is repeated."
        }
    )


class BatchMessage(SendMessage):
    """A message of a batch."""

    to = AgentName(required=True, metadata={"description": "The recipient."})


class SendMessages(Body):
    """Messages that are all sent, in this order, or none."""

    messages = Many(
        fields.Nested(BatchMessage),
        500,
        1,
        required=True,
        metadata={"description": "At most 500."},
    )


class CloseTask(Body):
    """How long a task is kept once it is closed."""

    keep = Number(
        0,
        YEARS,
        metadata={
            "description": "Seconds after which the closed task is removed; 0 keeps it. By default"
            " what the service is set to, a week."
        },
    )


class Caller(Body):
    """Nothing but who is asking."""


class AckMessages(Body):
    """Messages of one inbox that its agent is done with."""

    ids = Many(
        Text(longest=200),
        500,
        1,
        required=True,
        metadata={"description": "Their ids or, of what is claimed, their receipts; at most 500."},
    )


RECEIPT = {
    "description": "The `receipt` that came with the claim. A message that is claimed needs it."
}


class AckMessage(Body):
    """The recipient is done with a message."""

    receipt = Text(longest=200, metadata=RECEIPT)
