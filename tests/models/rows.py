"""A hundred thousand rows as a busy year leaves them, made by SQL so that it takes a second.

Every index has something to be confused by: two realms with the same names,
an inbox of 30,000 unread, one of 30,000 nearly all read, a thread of 10,000, names,
registrations and closed tasks by the thousand.
"""

from typing import Any

from models import database

UNREAD = 30_000  # in the inbox `big`, of which one in a hundred is not yet due
READ = 30_000  # in the inbox `old`, of which one in a thousand is unread
LONG = 10_000  # in the thread `long`
OTHERS = 20_000  # in a thousand inboxes, all acked but one in ten
NAMES = 2_000  # each with a registration
CLOSED = 5_000
FOREIGN = 2_000  # in the inbox `big` of another realm

START = 1_700_000_000_000  # when the first was sent, in ms since the epoch

MESSAGE = """
    INSERT INTO messages (realm, inbox, task_id, type, sender, content, opens, status,
        visible_at, attempts, dedup_key, created_at, settled_at, expires_at)
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {count} - 1)
    SELECT {realm}, {inbox}, {task_id}, 'request', {sender}, '{{"n": 1}}', {opens}, {status},
        {visible_at}, 0, {dedup_key}, {start} + i, {settled_at}, {expires_at}
    FROM n
"""
FACT = """
    INSERT INTO messages (realm, inbox, type, sender, content, opens, state_key, status,
        visible_at, attempts, created_at)
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {count} - 1)
    SELECT 'main', {inbox}, '{type}', {inbox}, {content}, FALSE, {state_key}, 'fact', 0, 0,
        {start} + i
    FROM n
"""

I = "CAST(i AS TEXT)"  # noqa: E741
AGENT = f"'agent-' || {I}"


def _message(count: int, **given: str) -> str:
    usual = {
        "realm": "'main'",
        "inbox": "'big'",
        "task_id": f"'task-' || {I}",
        "sender": "'agent-' || CAST(i % 1000 AS TEXT)",
        "opens": "TRUE",
        "status": "'unread'",
        "visible_at": "0",
        "dedup_key": "NULL",
        "settled_at": "NULL",
        "expires_at": "NULL",
    }
    return MESSAGE.format(count=count, start=START, **{**usual, **given})


def _fact(count: int, type: str, **given: str) -> str:
    usual = {"inbox": AGENT, "content": "'{}'", "state_key": "''"}
    return FACT.format(count=count, type=type, start=START, **{**usual, **given})


def _statements() -> list[str]:
    settled = "CASE WHEN i % {0} = 0 THEN NULL ELSE 1700000100000 END"
    acked = "CASE WHEN i % {0} = 0 THEN 'unread' ELSE 'acked' END"
    return [
        _message(
            UNREAD,
            visible_at="CASE WHEN i % 100 = 0 THEN 4000000000000 ELSE 0 END",
            expires_at="CASE WHEN i % 50 = 0 THEN 4000000000000 ELSE NULL END",
            dedup_key=f"CASE WHEN i % 3 = 0 THEN 'key-' || {I} ELSE NULL END",
        ),
        _message(
            READ,
            inbox="'old'",
            task_id=f"'old-' || {I}",
            sender="'agent-1'",
            dedup_key=f"'key-old-' || {I}",
            status=acked.format(1000),
            settled_at=settled.format(1000),
        ),
        _message(
            LONG,
            inbox="'agent-' || CAST(i % 2 AS TEXT)",
            task_id="'long'",
            sender="'agent-' || CAST((i + 1) % 2 AS TEXT)",
            opens="(i = 0)",
            status="'acked'",
            settled_at="1700000100000",
        ),
        _message(
            OTHERS,
            inbox="'agent-' || CAST(i % 1000 AS TEXT)",
            task_id="'some-' || CAST(i % 4000 AS TEXT)",
            opens="(i < 4000)",
            status=acked.format(10),
            settled_at=settled.format(10),
        ),
        _message(FOREIGN, realm="'other'"),
        _fact(NAMES, "name", content=f"'\"' || {AGENT} || '\"'", state_key=AGENT),
        _fact(NAMES, "agent"),
        _fact(NAMES, "seen"),
        _fact(CLOSED, "closed", inbox="''", state_key=f"'old-' || {I}"),
    ]


def load() -> None:
    """Put the rows into the open database."""
    opened: Any = database.current()
    with opened.atomic():
        for statement in _statements():
            opened.connection().cursor().execute(statement)
