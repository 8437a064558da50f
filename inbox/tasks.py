"""Tasks: the list, one summary, the history, closing.

An agent sees of a task what it has sent and what was sent to it; a task in
which it has no part is not there for it.
"""

from inbox import ids, retention
from inbox.errors import NotYours, TaskNotFound
from inbox.message import Message, message
from inbox.names import POSTMASTER, Actor
from inbox.poll import resolve
from inbox.summary import Summary, summary
from models import clock, facts, lifetimes, threads

PAGE = 200  # openers that one page of the list walks at most


def listed(
    actor: Actor, state: str | None, agent: str | None, after: str | None, limit: int
) -> tuple[list[Summary], str | None]:
    """Tasks that the actor has a part in, newest first, and the cursor of the next page.

    ``agent`` narrows to the tasks in which that agent takes part. A page that
    is narrowed may be short and still have a next.
    """
    before = ids.cursor(after) if after is not None else threads.END
    walked = threads.openers(actor.realm, before, PAGE)
    summaries = _summaries(actor, [task_id for _, task_id in walked])
    wanted = resolve(actor.realm, agent) if agent is not None else None
    found: list[Summary] = []
    for place, (seq, task_id) in enumerate(walked, 1):
        made = summaries.get(task_id)
        if made is not None and _fits(made, state, wanted):
            found.append(made)
        if len(found) == limit and place < len(walked):
            return found, ids.written(seq)
    return found, ids.written(walked[-1][0]) if len(walked) == PAGE else None


def _fits(made: Summary, state: str | None, agent: str | None) -> bool:
    return state in (None, made.state) and (agent is None or agent in made.participants)


def _summaries(actor: Actor, task_ids: list[str]) -> dict[str, Summary]:
    entries = threads.entries(actor.realm, task_ids, _home(actor))
    closed = threads.closed(actor.realm, task_ids)
    return {
        task_id: summary(task_id, found, closed.get(task_id))
        for task_id, found in entries.items()
        if found
    }


def read(actor: Actor, task_id: str) -> Summary:
    """The summary of one task; raises ``TaskNotFound``."""
    found = _summaries(actor, [task_id]).get(task_id)
    if found is None:
        raise TaskNotFound(f"There is no task {task_id!r}.")
    return found


def history(
    actor: Actor, task_id: str, after: str | None, limit: int
) -> tuple[list[Message], str | None, bool]:
    """A page of a task's messages, oldest first, and the cursor of the next.

    Reading on from the last id seen skips nothing, also while others commit:
    what is committed while something before it is not is held back, and the
    third value says that a look a few milliseconds later shows it. Raises
    ``TaskNotFound``.
    """
    place = ids.cursor(after) if after is not None else 0
    rows, more, hidden = threads.history(actor.realm, task_id, _home(actor), place, limit)
    if not rows and not hidden:
        read(actor, task_id)
    messages = [message(row) for row in rows]
    return messages, messages[-1].id if more else None, hidden


def close(actor: Actor, task_id: str, keep: float | None = None) -> Summary:
    """Close a task: it takes no more messages, and the agents registered for it end.

    It is removed after ``keep`` seconds, or when the settings say so. Twice is
    as once. For the agent that began it and for the operator; raises
    ``NotYours`` for others who have a part in it, ``TaskNotFound`` for the rest.
    """
    by = _owner(actor, task_id)
    new = facts.state(actor.realm, "closed", "", by, key=task_id, task_id=task_id, once=True)
    if new or keep is not None:
        lifetimes.remove_task_at(actor.realm, task_id, retention.closed_until(keep))
        lifetimes.end_with_task(actor.realm, task_id)
    return read(actor, task_id)


def purge(actor: Actor, task_id: str) -> Summary:
    """Close a task and have all of it removed, within seconds; the summary as it was.

    The senders of what is unread are told. Of a message with an idempotency
    key the row stays for its 24 hours. For the same as ``close``.
    """
    found = close(actor, task_id)
    lifetimes.remove_task_at(actor.realm, task_id, clock.now())
    return found


def _owner(actor: Actor, task_id: str) -> str:
    """In whose name the actor may end a task."""
    read(actor, task_id)
    first = threads.first(actor.realm, task_id)
    assert first is not None
    if actor.name is not None and first.sender != resolve(actor.realm, actor.name):
        raise NotYours(f"The task was begun by {first.sender}, who may close it.")
    return first.sender if actor.name is not None else POSTMASTER


def _home(actor: Actor) -> str | None:
    return resolve(actor.realm, actor.name) if actor.name is not None else None
