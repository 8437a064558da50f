"""The envelopes of work: what requests about claims, leases and services may hold."""

from marshmallow import fields, validate

from api.envelopes import WAIT, Body, ListQuery, WaitQuery
from api.fields import YEARS, Flag, Many, Number, TaskId, Text, Word
from api.schemas import (
    ATTEMPTS,
    ATTEMPTS_OF,
    LEASE,
    LEASE_OF,
    ONE_OF,
    RECEIPT,
    InboxQuery,
    SendMessage,
)
from api.shapes import TYPES, worded

ASKING = ("request", "question", "message", "cancel")
WORKING = {
    "idle": "it has nothing to do.",
    "working": "it has something to do, and may take more.",
    "draining": "it ends with what it has: its claims get nothing.",
}


class ClaimQuery(WaitQuery):
    """How long to wait for something to claim."""


class ClaimMessages(Body):
    """Which messages to claim, for how long, and what the claimer is done with."""

    limit = Number(
        1,
        500,
        cut=True,
        whole=True,
        load_default=1,
        metadata={"description": "How many at most; more than 500 is cut to 500."},
    )
    lease_seconds = Number(
        *LEASE,
        metadata={"description": "How long nobody else gets them; by default the inbox's own, 60."},
    )
    wait = Number(
        **WAIT,
        metadata={"description": "Seconds to wait for something to claim; at most 30."},
    )
    timeout = Number(**WAIT, metadata={"description": "The same as `wait`."})
    task_id = TaskId(metadata={"description": "Only of this task."})
    type = Word(longest=64, metadata={"description": "Only of this type."})
    worker = Word(
        longest=64,
        metadata={
            "description": "Which of the agent's processes claims; shown as `leased_by`. Of a"
            " service it is always the worker that asks."
        },
    )
    exclusive_tasks = Flag(
        load_default=False,
        metadata={
            "description": "One task to one worker: of a task of which something earlier waits, or"
            " is held by another worker, nothing is claimed."
        },
    )
    ack = Many(
        Text(longest=200),
        500,
        metadata={
            "description": "Ids or receipts of what the claimer is done with; acknowledged first."
        },
    )


class ExtendLease(Body):
    """How much longer the holder of a message needs it."""

    receipt = Text(longest=200, required=True, metadata=RECEIPT)
    lease_seconds = Number(
        *LEASE, load_default=60, metadata={"description": "Seconds from now. By default 60."}
    )


class ReleaseMessage(Body):
    """The holder of a message gives it back."""

    receipt = Text(longest=200, required=True, metadata=RECEIPT)
    delay_seconds = Number(
        0,
        YEARS,
        metadata={
            "description": "Seconds before it can be claimed again. By default 1, and twice as many"
            " with each attempt."
        },
    )
    reason = Text(longest=2000, metadata={"description": "Why; kept with the message."})


class ServicesQuery(ListQuery):
    """Which services to list."""


class ServiceInboxQuery(InboxQuery):
    """Which messages of a service to list."""


class ServiceRequest(SendMessage):
    """A message to a service."""

    type = fields.String(
        load_default="request",
        validate=validate.OneOf(ASKING, error=ONE_OF),
        metadata={
            "description": worded(
                "What kind of message it is; by default a request",
                {kind: TYPES[kind] for kind in ASKING},
            )
        },
    )


class DeclareService(Body):
    """How a service is run. What is left out stays as it was; null clears."""

    keeps_null = ("title", "max_attempts", "lease_seconds", "deadline_seconds", "capacity")

    title = Text(
        longest=200, allow_none=True, metadata={"description": "What it does, in a few words."}
    )
    max_attempts = Number(**ATTEMPTS, allow_none=True, metadata=ATTEMPTS_OF)
    lease_seconds = Number(*LEASE, allow_none=True, metadata=LEASE_OF)
    deadline_seconds = Number(
        1,
        YEARS,
        allow_none=True,
        metadata={"description": "The `expires_in` of a request that gives none."},
    )
    capacity = Number(
        1,
        1_000_000,
        whole=True,
        allow_none=True,
        metadata={"description": "How many requests may be in work at once, over all workers."},
    )


class RegisterWorker(Body):
    """A worker says that it is there. What is left out stays as it was."""

    state = fields.String(
        validate=validate.OneOf(list(WORKING), error=ONE_OF),
        metadata={"description": worded("What it is doing; at first `idle`", WORKING)},
    )
    capacity = Number(
        1, 1_000_000, whole=True, metadata={"description": "How many requests it takes at once."}
    )
    activity = Text(longest=500, metadata={"description": "What it is doing, in its own words."})
    lease_seconds = Number(
        *LEASE,
        metadata={"description": "Seconds after which it counts as gone, if not heard of: 60."},
    )
