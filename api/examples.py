"""The examples of the contract: the life of one task, seen from both sides."""

from typing import Any

from api.version import VERSION

AGENT = {
    "id": "translator",
    "created_at": "2026-11-29T12:58:00.000Z",
    "description": "German to English",
    "tags": ["text"],
    "last_seen": "2026-11-29T13:00:05.000Z",
}
MESSAGE = {
    "id": "m0000000000000001",
    "task_id": "task-42",
    "from": "orchestrator",
    "to": "translator",
    "type": "request",
    "content": {"text": "translate this contract"},
    "status": "unread",
    "attempts": 0,
    "created_at": "2026-11-29T13:00:00.123Z",
}
SENT = {**MESSAGE, "recipient": {"known": True}}
ACKED = {**MESSAGE, "status": "acked", "acked_at": "2026-11-29T13:04:10.500Z"}
TASK = {
    "task_id": "task-42",
    "state": "waiting",
    "participants": ["orchestrator", "translator"],
    "owes": [
        {
            "from": "translator",
            "to": "orchestrator",
            "type": "request",
            "id": "m0000000000000001",
            "since": "2026-11-29T13:00:00.123Z",
        },
        {
            "from": "orchestrator",
            "to": "translator",
            "type": "question",
            "id": "m0000000000000002",
            "since": "2026-11-29T13:01:30.000Z",
        },
    ],
    "open_questions": ["m0000000000000002"],
    "messages": 2,
    "unread": 1,
    "by_type": {"request": 1, "question": 1},
    "first_at": "2026-11-29T13:00:00.123Z",
    "last_at": "2026-11-29T13:04:10.500Z",
}
CLOSED = {
    **TASK,
    "state": "closed",
    "closed_by": "orchestrator",
    "closed_at": "2026-11-29T13:05:00.000Z",
}
RECEIPT = "m0000000000000001.0123456789abcdef"
CLAIMED = {
    **MESSAGE,
    "attempts": 1,
    "leased_until": "2026-11-29T13:01:00.000Z",
    "leased_by": "translator",
    "receipt": RECEIPT,
}
DEAD = {**MESSAGE, "status": "dead", "attempts": 5, "reason": "lease_lapsed"}
SERVICE = {
    "name": "translate",
    "created_at": "2026-11-29T12:58:00.000Z",
    "max_attempts": 5,
    "lease_seconds": 60.0,
    "title": "German to English",
}
WORKER = {
    "name": "translator",
    "state": "working",
    "since": "2026-11-29T12:58:00.000Z",
    "until": "2026-11-29T13:01:00.000Z",
}
BUSY = {
    **SERVICE,
    "waiting": 3,
    "delayed": 0,
    "in_flight": 1,
    "dead": 0,
    "oldest_at": "2026-11-29T13:00:00.123Z",
    "came": 12,
    "acked": 8,
    "workers": [WORKER],
}
PROBLEM = {
    "type": "urn:taskpost:problem:invalid_request",
    "title": "The request does not fit the contract",
    "status": 422,
    "detail": "/contnet is not known; did you mean content?",
    "code": "invalid_request",
    "retryable": False,
    "hint": "Mend what `errors` lists; /openapi.yaml has the whole contract.",
    "request_id": "b7c1f0a4d2e95813",
    "errors": [{"pointer": "/contnet", "detail": "is not known; did you mean content?"}],
}

REQUESTS: dict[str, Any] = {
    "registerAgent": {"id": "translator", "description": "German to English", "tags": ["text"]},
    "retireAgent": {},
    "sendMessage": {
        "from": "orchestrator",
        "task_id": "task-42",
        "type": "request",
        "content": {"text": "translate this contract"},
    },
    "ackMessages": {"ids": ["m0000000000000001"]},
    "sendMessages": {
        "from": "orchestrator",
        "messages": [
            {"to": "translator", "type": "request", "content": "the first half"},
            {"to": "reviewer@work3", "type": "message", "content": "it begins"},
        ],
    },
    "ackMessage": {"from": "translator"},
    "closeTask": {"from": "orchestrator"},
    "purgeTask": {"from": "orchestrator"},
    "claimMessages": {"limit": 10, "lease_seconds": 60, "wait": 20, "ack": [RECEIPT]},
    "redriveMessages": {},
    "extendLease": {"from": "translator", "receipt": RECEIPT, "lease_seconds": 60},
    "releaseMessage": {"from": "translator", "receipt": RECEIPT, "reason": "no model is free"},
    "redriveMessage": {"from": "translator"},
    "discardMessage": {"from": "translator"},
    "declareService": {"title": "German to English", "max_attempts": 5},
    "requestService": {
        "from": "orchestrator",
        "task_id": "task-42",
        "content": {"text": "translate this contract"},
    },
    "claimRequests": {"from": "translator", "wait": 20},
    "registerWorker": {"from": "translator", "state": "working"},
    "redriveRequests": {},
    "closeService": {},
}

ANSWERS: dict[str, Any] = {
    "registerAgent": AGENT,
    "listAgents": {"agents": [AGENT]},
    "readAgent": AGENT,
    "retireAgent": {**AGENT, "retired_at": "2026-11-29T18:00:00.000Z"},
    "deleteAgent": {"status": "deleted", "agent_id": "translator"},
    "sendMessage": SENT,
    "pollInbox": {"messages": [MESSAGE]},
    "countInbox": {"unread": 1, "delayed": 0, "in_flight": 0, "dead": 0},
    "ackMessages": {"results": [{"id": "m0000000000000001", "status": "acked"}]},
    "sendMessages": {"messages": [SENT]},
    "ackMessage": ACKED,
    "readMessage": ACKED,
    "listTasks": {"tasks": [TASK]},
    "readTask": TASK,
    "readHistory": {"messages": [ACKED]},
    "closeTask": CLOSED,
    "purgeTask": CLOSED,
    "claimMessages": {
        "messages": [CLAIMED],
        "results": [{"id": RECEIPT, "status": "acked"}],
    },
    "redriveMessages": {"redriven": 3, "dead": 0},
    "extendLease": CLAIMED,
    "releaseMessage": {**MESSAGE, "attempts": 1, "reason": "no model is free"},
    "redriveMessage": MESSAGE,
    "discardMessage": {**ACKED, "attempts": 5, "reason": "lease_lapsed"},
    "listServices": {"services": [SERVICE]},
    "readService": BUSY,
    "declareService": BUSY,
    "requestService": {
        **MESSAGE,
        "to": "service:translate",
        "recipient": {"known": True, "served": True},
    },
    "listRequests": {"messages": [{**DEAD, "to": "service:translate"}]},
    "claimRequests": {"messages": [{**CLAIMED, "to": "service:translate"}]},
    "registerWorker": WORKER,
    "redriveRequests": {"redriven": 3, "dead": 0},
    "closeService": {**BUSY, "closed_at": "2026-11-29T14:00:00.000Z"},
    "health": {"status": "healthy", "version": VERSION},
    "ready": {"status": "ready"},
}

PATH = {
    "service": "translate",
    "agent": "translator",
    "message": "m0000000000000001",
    "task_id": "task-42",
}
