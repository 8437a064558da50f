"""Facts: rows that state something about an address instead of saying something to someone."""

from collections.abc import Sequence
from typing import NamedTuple

from models import clock, database
from models.statement import Statement
from models.table import Message

COLUMNS = (
    "n.seq, n.inbox, n.state_key, n.sender, n.content, n.created_at, n.settled_at, n.task_id,"
    " n.expires_at"
)
# By its key a name is looked up without saying that it is a fact: an index that is for facts alone
# is then out of the question, which PostgreSQL would else skip through while the table is small.
NAMED = f"SELECT {COLUMNS} FROM messages n WHERE n.realm = :realm AND n.type = 'name'"
FACT = f"""
    SELECT {COLUMNS} FROM messages n
    WHERE n.realm = :realm AND n.type = :type AND n.status = 'fact'
"""

INSERT = """
    INSERT INTO messages (realm, inbox, task_id, type, sender, content, opens, state_key, status,
        visible_at, attempts, created_at)
    VALUES (:realm, :inbox, :task_id, :type, :sender, :content, FALSE, :state_key, 'fact',
        0, 0, :now)
"""
STATE = Statement(
    INSERT
    + """
    ON CONFLICT (realm, type, inbox, state_key) WHERE status = 'fact' DO UPDATE
    SET sender = excluded.sender, content = excluded.content, task_id = excluded.task_id,
        created_at = excluded.created_at, settled_at = NULL
    RETURNING seq
    """
)
STATE_ONCE = Statement(
    INSERT
    + """
    ON CONFLICT (realm, type, inbox, state_key) WHERE status = 'fact' DO NOTHING
    RETURNING seq
    """
)
STATE_NAME = Statement(
    INSERT
    # Any conflict: a name is unique by itself and, as every fact, with its agent, and of two
    # that come at once PostgreSQL may find the second index broken before the first.
    + """
    ON CONFLICT DO NOTHING
    RETURNING seq
    """
)
# Two numbers each, so that nobody takes them for a writer's mark.
SHARE = Statement("SELECT pg_advisory_xact_lock_shared(28782, hashtext(:realm || ' ' || :name))")
TAKE = Statement("SELECT pg_advisory_xact_lock(28782, hashtext(:realm || ' ' || :name))")
GET = f"{FACT} AND n.inbox = :inbox AND n.state_key = :state_key"
GET_PLAIN = Statement(GET)
GET_LOCKED = Statement(GET, f"{GET} FOR UPDATE")  # SQLite has one writer anyway
LISTED = Statement(f"{FACT} AND n.inbox > :inbox ORDER BY n.inbox, n.state_key LIMIT :fetch")
OF = Statement(f"{FACT} AND n.inbox IN :inboxes AND n.state_key = ''")
NAMES = Statement(f"{NAMED} AND n.state_key IN :keys")
NEAR = Statement(
    f"""
    SELECT content FROM ({NAMED} AND n.state_key >= :key ORDER BY n.state_key LIMIT :near) above
    WHERE settled_at IS NULL
    UNION ALL
    SELECT content FROM (
        {NAMED} AND n.state_key < :key ORDER BY n.state_key DESC LIMIT :near
    ) below
    WHERE settled_at IS NULL
    """
)


class Fact(NamedTuple):
    """One fact; times in ms since the epoch, ``settled_at`` when it was withdrawn."""

    seq: int
    inbox: str
    state_key: str
    sender: str
    content: str | None
    created_at: int
    settled_at: int | None
    task_id: str | None
    expires_at: int | None


def state(
    realm: str,
    type: str,
    inbox: str,
    sender: str,
    content: str | None = None,
    key: str = "",
    task_id: str | None = None,
    once: bool = False,
    at: int | None = None,
) -> bool:
    """State a fact, replacing an earlier one; with ``once`` keep the earlier one.

    ``at`` is when it was stated, in ms; by default now.

    True when it was written. A name is always stated once: it has one owner.
    """
    statement = STATE_NAME if type == "name" else STATE_ONCE if once else STATE
    found = database.run(
        statement,
        realm=realm,
        type=type,
        inbox=inbox,
        sender=sender,
        content=content,
        state_key=key,
        task_id=task_id,
        now=clock.now() if at is None else at,
    )
    return found.fetchone() is not None


def get(realm: str, type: str, inbox: str, key: str = "", lock: bool = False) -> Fact | None:
    """The fact, or None; with ``lock`` nobody else changes it before this unit of work ends."""
    statement = GET_LOCKED if lock else GET_PLAIN
    found = database.run(statement, realm=realm, type=type, inbox=inbox, state_key=key).fetchone()
    return Fact._make(found) if found else None


def names(realm: str, keys: Sequence[str]) -> dict[str, Fact]:
    """The names on record for these keys (names in lower case), by key."""
    if not keys:
        return {}
    found = database.run(NAMES, realm=realm, keys=tuple(keys)).fetchall()
    return {fact.state_key: fact for fact in map(Fact._make, found)}


def hold(realm: str, name: str, alone: bool) -> None:
    """Keep what a name means as it is until the unit of work ends.

    Whoever sends to a name that is not on record shares it with others who
    do; whoever makes it an alias holds it ``alone``, and has seen then all
    that was sent to it. SQLite needs nothing: there is one writer at a time.
    """
    if database.current().dialect == "postgresql":
        database.run(TAKE if alone else SHARE, realm=realm, name=name)


def near(realm: str, key: str, reach: int = 100) -> list[str]:
    """The spellings (JSON strings) of the ``reach`` names on either side that stand."""
    found = database.run(NEAR, realm=realm, key=key, near=reach)
    return [content for (content,) in found.fetchall()]


def listed(realm: str, type: str, after: str, limit: int) -> list[Fact]:
    """Facts of a type by address, from the first address above ``after``."""
    found = database.run(LISTED, realm=realm, type=type, inbox=after, fetch=limit)
    return [Fact._make(values) for values in found.fetchall()]


def of(realm: str, type: str, inboxes: Sequence[str]) -> dict[str, Fact]:
    """The facts of a type with an empty key about these addresses, by address."""
    if not inboxes:
        return {}
    found = database.run(OF, realm=realm, type=type, inboxes=tuple(inboxes)).fetchall()
    return {fact.inbox: fact for fact in map(Fact._make, found)}


def amend(seq: int, content: str) -> None:
    """Give a fact new details; when it was first stated stays."""
    database.query(Message.update(content=content).where(Message.seq == seq))


def withdraw(seqs: Sequence[int], at: int | None) -> None:
    """Mark facts as withdrawn at a time in ms, or as standing again (None)."""
    if seqs:
        database.query(Message.update(settled_at=at).where(Message.seq.in_(list(seqs))))


def remove(seqs: Sequence[int]) -> None:
    """Delete facts."""
    if seqs:
        database.query(Message.delete().where(Message.seq.in_(list(seqs))))
