"""The logs of rooms and direct threads: what of them is old, and deleting it from the old end.

A post of a room lies in the log once, and as a copy in the inbox of each
member; it goes with all its copies, the post itself last.
"""

from collections.abc import Sequence
from typing import NamedTuple

from models import database
from models.statement import Statement
from models.sweeping import OPENS, THREAD

# Done with for long enough. ``before``: what was done then or earlier; ``deadline``: what died;
# ``until``: what has an idempotency key.
OVER = """
    m.created_at <= :before
    AND ((m.status IN ('acked', 'expired') AND COALESCE(m.settled_at, m.created_at) <= :before)
        OR (m.status = 'dead' AND m.settled_at <= :deadline))
    AND (m.dedup_key IS NULL OR m.created_at <= :until)
"""
# Always as (...) IS NULL: for NOT EXISTS, PostgreSQL may read all copies there are to join with.
COPIED = "SELECT 1 FROM messages c WHERE c.copy_of = m.seq"
LIVELY = f"{COPIED} AND NOT ({OVER.replace('m.', 'c.')}) LIMIT 1"

LOG = Statement(
    f"""
    SELECT m.seq, m.created_at, {OVER} AND ({LIVELY}) IS NULL
    FROM messages m WHERE {THREAD} AND m.seq > :after ORDER BY m.seq LIMIT :fetch
    """
)
DELETE_COPIES = Statement(
    f"""
    DELETE FROM messages WHERE seq IN (
        SELECT m.seq FROM messages m
        WHERE m.copy_of IN :seqs AND {OVER} ORDER BY m.copy_of, m.seq LIMIT :fetch
    )
    """
)
DELETE_POSTS = Statement(
    f"""
    DELETE FROM messages WHERE seq IN (
        SELECT m.seq FROM messages m WHERE m.seq IN :seqs AND m.realm = :realm AND {OVER}
        AND ({COPIED} LIMIT 1) IS NULL
    )
    """
)


class Ages(NamedTuple):
    """The times from which on things are not old yet, in ms."""

    before: int  # for what was acknowledged, or has expired
    deadline: int  # for dead letters
    until: int  # for what has an idempotency key


class Post(NamedTuple):
    """What the sweeper needs to know of a post; ``over`` if it may go, with all its copies."""

    seq: int
    created_at: int
    over: bool


def posts(realm: str, task_id: str, after: int, ages: Ages, limit: int) -> list[Post]:
    """The posts of a log above the seq ``after``, the oldest first."""
    found = database.run(
        LOG, realm=realm, task_id=task_id, after=after, fetch=limit, **ages._asdict()
    )
    return [Post(seq, created_at, bool(over)) for seq, created_at, over in found.fetchall()]


def delete(realm: str, task_id: str, seqs: Sequence[int], ages: Ages, limit: int) -> int:
    """Delete at most ``limit`` copies of these posts or, when there are fewer, the posts as well.

    Only what is over: someone may have brought something back to life since.
    """
    given = {"seqs": tuple(seqs), **ages._asdict()}
    copies = int(database.run(DELETE_COPIES, **given, fetch=limit).rowcount)
    if copies == limit:
        return copies
    gone = int(database.run(DELETE_POSTS, realm=realm, **given).rowcount)
    if gone:
        database.run(OPENS, realm=realm, task_id=task_id)
    return copies + gone
