"""What a task's messages say about it: its state, who owes what to whom, what is open.

Derived from the messages alone. A request is open until a done or failed
replies to it (one without ``reply_to``: any on the task from its recipient to
its requester, or to anybody when there is no closer one), or until its
requester cancels it. A task is the worst of its requests.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from inbox import ids
from inbox.message import timestamp
from models.threads import Entry

FINAL = ("done", "failed")
# From the worst to the best. Withdrawn requests count only where there is nothing else.
RANK = ("failed", "waiting", "open", "done", "cancelled")


class Owed(msgspec.Struct, omit_defaults=True, rename={"debtor": "from"}):
    """An answer that one agent owes another."""

    debtor: str
    to: str
    type: str  # request, question
    id: str
    since: str


class Summary(msgspec.Struct, omit_defaults=True):
    """A task as its messages show it."""

    task_id: str
    state: str  # open, waiting, done, failed, cancelled, closed
    participants: list[str]
    owes: list[Owed]
    open_questions: list[str]
    messages: int
    unread: int
    by_type: dict[str, int]
    first_at: str
    last_at: str
    closed_by: str | None = None
    closed_at: str | None = None


def summary(
    task_id: str, entries: Sequence[Entry], closed: tuple[str, int] | None = None
) -> Summary:
    """The summary of a thread's messages, given in order; at least one."""
    states = {entry.seq: "open" for entry in entries if entry.type == "request"}
    questions: dict[int, Entry] = {}
    requests = {entry.seq: entry for entry in entries if entry.type == "request"}
    for entry in entries:
        if entry.type in FINAL:
            for seq in _settled(entry, requests, states):
                states[seq] = entry.type
            _moot(entry, questions)
        elif entry.type == "cancel":
            for seq in _cancelled(entry, requests, states):
                states[seq] = "cancelled"
        elif entry.type == "question":
            questions[entry.seq] = entry
        elif entry.type == "answer":
            _answer(entry, questions)
    owed = [requests[seq] for seq, state in states.items() if state == "open"]
    owed += questions.values()
    return Summary(
        task_id=task_id,
        state="closed" if closed else _state(entries, states, questions),
        participants=sorted(_participants(entries)),
        owes=[_owed(entry) for entry in sorted(owed, key=lambda entry: entry.seq)],
        open_questions=[ids.written(seq) for seq in questions],
        messages=len(entries),
        unread=sum(entry.unread for entry in entries),
        by_type=dict(Counter(entry.type for entry in entries)),
        first_at=timestamp(entries[0].created_at),
        last_at=timestamp(max(entry.touched_at for entry in entries)),
        closed_by=closed[0] if closed else None,
        closed_at=timestamp(closed[1]) if closed else None,
    )


def _participants(entries: Sequence[Entry]) -> set[str]:
    named = {name for entry in entries for name in (entry.sender, entry.inbox, entry.worker)}
    return {name for name in named if name is not None}


def _debtor(request: Entry) -> str:
    """Who is to answer: of what was sent to a service, the worker that has it."""
    return request.worker or request.inbox


def _settled(final: Entry, requests: dict[int, Entry], states: dict[int, str]) -> list[int]:
    """The requests that a done or failed ends."""
    if final.reply_to is not None:
        return [final.reply_to] if final.reply_to in requests else []
    mine = [
        seq
        for seq, request in requests.items()
        if seq < final.seq and _debtor(request) == final.sender and states[seq] == "open"
    ]
    closer = [seq for seq in mine if requests[seq].sender == final.inbox]
    return closer or mine


def _cancelled(cancel: Entry, requests: dict[int, Entry], states: dict[int, str]) -> list[int]:
    """The requests that a cancel withdraws: the canceller's own, also one that has failed."""
    if cancel.reply_to is not None:
        request = requests.get(cancel.reply_to)
        return [request.seq] if request is not None and request.sender == cancel.sender else []
    return [
        seq
        for seq, request in requests.items()
        if seq < cancel.seq
        and (request.sender, request.inbox) == (cancel.sender, cancel.inbox)
        and states[seq] == "open"
    ]


def _answer(answer: Entry, questions: dict[int, Entry]) -> None:
    """Take the questions off that an answer answers."""
    if answer.reply_to is not None:
        questions.pop(answer.reply_to, None)
        return
    for seq, question in list(questions.items()):
        if (question.inbox, question.sender) == (answer.sender, answer.inbox):
            del questions[seq]


def _moot(final: Entry, questions: dict[int, Entry]) -> None:
    """Whoever has finished no longer waits for an answer from the one it has finished for."""
    for seq, question in list(questions.items()):
        if (question.sender, question.inbox) == (final.sender, final.inbox):
            del questions[seq]


def _state(entries: Sequence[Entry], states: dict[int, str], questions: dict[int, Entry]) -> str:
    found = set(states.values())
    if questions:
        found.add("waiting")
    if not found:
        finals = [entry.type for entry in entries if entry.type in FINAL]
        return finals[-1] if finals else "open"
    return next(state for state in RANK if state in found)


def _owed(entry: Entry) -> Owed:
    return Owed(
        _debtor(entry),
        entry.sender,
        entry.type,
        ids.written(entry.seq),
        timestamp(entry.created_at),
    )
