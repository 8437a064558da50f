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
}

ANSWERS: dict[str, Any] = {
    "registerAgent": AGENT,
    "listAgents": {"agents": [AGENT]},
    "readAgent": AGENT,
    "retireAgent": {**AGENT, "retired_at": "2026-11-29T18:00:00.000Z"},
    "deleteAgent": {"status": "deleted", "agent_id": "translator"},
    "sendMessage": SENT,
    "pollInbox": {"messages": [MESSAGE]},
    "countInbox": {"unread": 1, "delayed": 0},
    "ackMessages": {"results": [{"id": "m0000000000000001", "status": "acked"}]},
    "sendMessages": {"messages": [SENT]},
    "ackMessage": ACKED,
    "readMessage": ACKED,
    "listTasks": {"tasks": [TASK]},
    "readTask": TASK,
    "readHistory": {"messages": [ACKED]},
    "closeTask": CLOSED,
    "health": {"status": "healthy", "version": VERSION},
    "ready": {"status": "ready"},
}

PATH = {"agent": "translator", "message": "m0000000000000001", "task_id": "task-42"}
