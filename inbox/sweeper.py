"""The sweeper: once a second, in one process at a time, what time has ended is put away.

Which process that is, a lease in the table decides. Every batch is a short
transaction of its own, with a pause after it as long as it took, so that
whoever sends meanwhile does not wait.
"""

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from inbox import bell, burial, lifetimes, retention, turn
from inbox.errors import InternalError, Problem
from inbox.message import timestamp
from models import clock, logs, sweepers, sweeping
from models.logs import Ages
from models.sweeping import Ended, Scanned

LEASE = 10_000  # ms; renewed when half of it is over
PASS = 60_000  # ms between two walks over what is old
BATCH = 100  # rows: what others wait for, a few milliseconds
TASKS = 50  # silent tasks whose removal one batch begins
SCANNED = 2000  # rows that one step of a walk looks at
PATIENCE = 0.8  # seconds that one round may take
FREE_PAGES = 256  # of a SQLite file, kept for what comes

Work = Callable[[], int]


class Sweeper:
    """What sweeps in this process. ``report`` is told what goes wrong."""

    def __init__(self, report: Callable[[Exception], None] | None = None) -> None:
        self.me = secrets.token_hex(8)
        self.report = report
        self.done: Counter[str] = Counter()
        self.errors = 0
        self.last_error: str | None = None
        self.walks: Iterator[Work] | None = None
        self.walked_at = -PASS

    def round(self) -> bool:
        """Sweep, if it is this process's turn; whether it was. What goes wrong is told."""
        try:
            if not self._holds():
                return False
            self._sweep(time.monotonic() + PATIENCE)
        except Exception as error:  # a mistake of ours must not be the end of all sweeping
            self._failed(error)
            return False
        return True

    def leave(self) -> None:
        """Let another process sweep from now on."""
        try:
            found = turn.reading(sweepers.leased)
            if found is not None and found.holder == self.me:
                turn.alone(lambda: sweepers.lease(self.me, clock.now(), self._report()))
        except Problem as problem:
            self._failed(problem)

    def _failed(self, error: Exception) -> None:
        self.errors += 1
        self.last_error = (error if isinstance(error, Problem) else InternalError).code
        if self.report is not None:
            self.report(error)

    def _holds(self) -> bool:
        found = turn.reading(sweepers.leased)
        now = clock.now()
        if found is not None and found.holder != self.me and found.until > now:
            return False
        fresh = found is not None and found.holder == self.me and found.until > now + LEASE // 2
        if fresh and found is not None and found.report.get("rows") == self.done:
            return True
        return turn.alone(lambda: sweepers.lease(self.me, now + LEASE, self._report()))

    def _report(self) -> dict[str, Any]:
        said: dict[str, Any] = {"last_run": timestamp(clock.now()), "rows": dict(self.done)}
        said["errors"] = self.errors
        if self.last_error is not None:
            said["last_error"] = self.last_error
        return said

    def _sweep(self, ends: float) -> None:
        for realm in turn.reading(sweeping.realms):
            self._repeat("due", _turn_due, realm, ends)
            self._repeat("expired", _expire, realm, ends)
            self._repeat("removed", _end, realm, ends)
        self._walk(ends)
        while time.monotonic() < ends and turn.reading(sweeping.free_pages) > FREE_PAGES:
            self._batch("pages", lambda: sweeping.give_back(FREE_PAGES))

    def _repeat(
        self, kind: str, chore: Callable[[str], Work | None], realm: str, ends: float
    ) -> None:
        """Do a chore batch after batch until nothing is left of it, or no time."""
        while time.monotonic() < ends:
            found = turn.reading(lambda: chore(realm))
            if found is None or not self._batch(kind, found):
                return

    def _batch(self, kind: str, work: Work) -> int:
        began = time.monotonic()
        done = turn.alone(work)
        self.done[kind] += done
        time.sleep(min(0.1, time.monotonic() - began))
        return done

    def _walk(self, ends: float) -> None:
        """Go on with the walk over what is old; a new one begins every minute."""
        if self.walks is None and clock.now() - self.walked_at >= PASS:
            self.walked_at = clock.now()
            self.walks = _walks()
        while self.walks is not None and time.monotonic() < ends:
            work = turn.reading(lambda: next(self.walks or iter(()), None))
            if work is None:
                self.walks = None
            else:
                while self._batch("removed", work) and time.monotonic() < ends:
                    pass


def _turn_due(realm: str) -> Work | None:
    """What is due becomes ready, so that claims find it in order; what has had its last dies."""
    seqs = sweeping.due(realm, BATCH)

    def work() -> int:
        turned = sweeping.turn(realm, seqs, *retention.anew())
        for inbox, task_id in turned:
            bell.written(realm, inbox, task_id)
        dead = burial.lapse(realm, seqs) if len(turned) < len(seqs) else 0
        return len(turned) + dead

    return work if seqs else None


def _expire(realm: str) -> Work | None:
    seqs = sweeping.expired(realm, BATCH)
    return (lambda: burial.expire(realm, seqs)) if seqs else None


def _end(realm: str) -> Work | None:
    """Workers that were not heard of, agents whose time has come, closed tasks and services."""
    found = sweeping.ended(realm, 1)
    return (lambda: _ended(realm, found[0])) if found else None


def _ended(realm: str, ended: Ended) -> int:
    if ended.type == "agent":
        return lifetimes.end(realm, ended) or 1
    if ended.type == "closed":
        return retention.remove_closed(realm, ended) or 1
    if ended.type == "queue":
        return lifetimes.end_queue(realm, ended.inbox) or 1
    sweeping.remove(ended.seq)
    return 1


def _walks() -> Iterator[Work]:
    """Batches of a walk over what is unread for too long, and over tasks that are silent."""
    yield from _old_unread()
    for realm in sweeping.realms():
        yield from _silent_tasks(realm)


def _old_unread() -> Iterator[Work]:
    before = retention.cutoff(retention.configured.lifetimes.unread)
    place = 0
    while True:
        rows = sweeping.scan(place, SCANNED)
        messages = [row for row in rows if row.status != "fact"]
        old = [row for row in messages if _waits_since(row) <= before and row.expires_at is None]
        for realm in {row.realm for row in old if row.status == "unread"}:
            seqs = [row.seq for row in old if row.realm == realm and row.status == "unread"]
            for start in range(0, len(seqs), BATCH):
                yield _dropping(realm, seqs[start : start + BATCH])
        if len(rows) < SCANNED or (messages and messages[-1].created_at > before):
            return
        place = rows[-1].seq


def _waits_since(row: Scanned) -> int:
    return max(row.created_at, row.visible_at)


def _dropping(realm: str, seqs: list[int]) -> Work:
    return lambda: burial.drop(realm, seqs, "retention")


def _silent_tasks(realm: str) -> Iterator[Work]:
    before = retention.cutoff(retention.configured.lifetimes.acked)
    place = 0
    while True:
        rows = sweeping.openers(realm, place, BATCH)
        old = [task_id for _, task_id, created_at in rows if created_at <= before]
        silent = [
            task_id
            for task_id in old
            if not retention.is_log(task_id) and retention.may_go(realm, task_id)
        ]
        for start in range(0, len(silent), TASKS):
            yield _removing(realm, silent[start : start + TASKS])
        for task_id in filter(retention.is_log, old):
            yield from _old_posts(realm, task_id)
        if len(rows) < BATCH or rows[-1][2] > before:
            return
        place = rows[-1][0]


def _old_posts(realm: str, task_id: str) -> Iterator[Work]:
    """Trims a log from its old end; what cannot go yet holds nothing else up."""
    ages, place = retention.ages(), 0
    while True:
        posts = logs.posts(realm, task_id, place, ages, BATCH)
        if over := [post.seq for post in posts if post.over]:
            yield _trimming(realm, task_id, over, ages)
        if len(posts) < BATCH or posts[-1].created_at > ages.before:
            return
        place = posts[-1].seq


def _trimming(realm: str, task_id: str, seqs: list[int], ages: Ages) -> Work:
    return lambda: logs.delete(realm, task_id, seqs, ages, BATCH)


def _removing(realm: str, task_ids: list[str]) -> Work:
    """Removes about a batch of several tasks: one commit for a small task each would be slow."""

    def work() -> int:
        done = 0
        for task_id in task_ids:
            # Asked again: somebody may have sent to it since.
            if done < BATCH and retention.may_go(realm, task_id):
                done += retention.remove_some(realm, task_id)
        return done

    return work


def status() -> dict[str, Any] | None:
    """What the sweeper of this database has last written down; None before its first run."""
    found = turn.reading(sweepers.leased)
    return found.report if found is not None else None
