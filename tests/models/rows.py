"""Rows as a busy year leaves them, made by SQL so that a hundred thousand take two seconds.

Every index has something to be confused by: two realms with the same names,
an inbox where nearly all is unread and one where nearly all is read, one long
thread, names, registrations and closed tasks by the thousand.
"""

from typing import NamedTuple

from models import database

START = 1_700_000_000_000  # when the first was sent, in ms since the epoch


class Sizes(NamedTuple):
    """How many rows of each kind."""

    unread: int  # in the inbox `big`; one in a hundred of them is not due for long
    read: int  # in the inbox `old`; one in a thousand of them is unread
    long: int  # in the thread `long`, all acked
    others: int  # in as many inboxes as there are names at most; one in ten of them is unread
    names: int  # agents that have registered, with a name and a presence each
    closed: int  # tasks of the inbox `old`
    foreign: int  # in the inbox `big` of another realm


MANY = Sizes(30_000, 30_000, 10_000, 20_000, 2_000, 5_000, 2_000)
FEW = Sizes(20, 20, 20, 20, 2, 1, 1)

MESSAGES = """
    INSERT INTO messages (realm, inbox, task_id, type, sender, content, opens, status,
        visible_at, attempts, dedup_key, created_at, settled_at, expires_at)
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {count} - 1)
    SELECT {realm}, {inbox}, {task_id}, 'request', {sender}, {content}, {opens}, {status},
        {visible_at}, 0, {dedup_key}, {start} + i, {settled_at}, {expires_at}
    FROM n
"""
FACTS = """
    INSERT INTO messages (realm, inbox, type, sender, content, opens, state_key, status,
        visible_at, attempts, created_at)
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {count} - 1)
    SELECT 'main', {inbox}, '{type}', {inbox}, {content}, FALSE, {state_key}, 'fact', 0, 0,
        {start} + i
    FROM n
"""
AGENT = "'agent-' || CAST(i AS TEXT)"
UNREAD_OR_ACKED = "CASE WHEN i % {0} = 0 THEN 'unread' ELSE 'acked' END"
SETTLED = "CASE WHEN i % {0} = 0 THEN NULL ELSE 1700000100000 END"
FAR = "4000000000000"
LATER = 3_000_000_000_000  # ms from now, when that is past


def numbered(prefix: str, one_of: int | None = None) -> str:
    """SQL for the prefix and the row's number, which begins anew after ``one_of`` rows."""
    number = "i" if one_of is None else f"i % {one_of}"
    return f"'{prefix}' || CAST({number} AS TEXT)"


def messages(count: int, **given: str) -> None:
    """Insert messages; a column is given as SQL, in which ``i`` is the row's number."""
    usual = {
        "realm": "'main'",
        "inbox": "'big'",
        "task_id": numbered("task-"),
        "sender": "'alice'",
        "content": "'1'" if database.current().dialect == "postgresql" else "x'31'",
        "opens": "TRUE",
        "status": "'unread'",
        "visible_at": "0",
        "dedup_key": "NULL",
        "settled_at": "NULL",
        "expires_at": "NULL",
    }
    _run(MESSAGES.format(count=count, start=START, **{**usual, **given}))


def facts(count: int, type: str, **given: str) -> None:
    """Insert facts; as ``messages``."""
    usual = {"inbox": AGENT, "content": "'{}'", "state_key": "''"}
    _run(FACTS.format(count=count, type=type, start=START, **{**usual, **given}))


def _run(sql: str) -> None:
    # By the driver itself, which takes % as it is when it is given no values.
    database.current().connection().cursor().execute(sql)


def load(sizes: Sizes) -> None:
    """Put the rows into the open database."""
    with database.current().atomic():
        messages(
            sizes.unread,
            sender=numbered("agent-", sizes.names),
            visible_at=f"CASE WHEN i % 100 = 99 THEN {FAR} ELSE 0 END",
            expires_at=f"CASE WHEN i % 50 = 0 THEN {FAR} ELSE NULL END",
            dedup_key=f"CASE WHEN i % 3 = 0 THEN {numbered('key-')} ELSE NULL END",
        )
        messages(
            sizes.read,
            inbox="'old'",
            task_id=numbered("old-"),
            sender="'agent-1'",
            dedup_key=numbered("old-key-"),
            status=UNREAD_OR_ACKED.format(1000),
            settled_at=SETTLED.format(1000),
        )
        messages(
            sizes.long,
            inbox=numbered("agent-", 2),
            task_id="'long'",
            sender="'agent-' || CAST((i + 1) % 2 AS TEXT)",
            opens="(i = 0)",
            status="'acked'",
            settled_at="1700000100000",
        )
        messages(
            sizes.others,
            inbox=numbered("agent-", sizes.names),
            task_id=numbered("some-", sizes.others // 5),
            opens=f"(i < {sizes.others // 5})",
            status=UNREAD_OR_ACKED.format(10),
            settled_at=SETTLED.format(10),
        )
        messages(sizes.foreign, realm="'other'")
        registered(sizes.names)
        facts(sizes.closed, "closed", inbox="''", state_key=numbered("old-"))


def registered(count: int) -> None:
    """Insert what agents leave that have registered and were heard of."""
    facts(count, "name", content=f"'\"' || {AGENT} || '\"'", state_key=AGENT)
    facts(count, "agent")
    facts(count, "seen")


def analyze() -> None:
    """Gather statistics, as PostgreSQL does by itself after a while."""
    database.current().execute_sql("ANALYZE messages")
