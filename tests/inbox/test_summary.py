"""The summary of a task, from its messages alone."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from inbox import ids, names
from inbox.summary import RANK, Summary, summary
from models.threads import Entry

START = 1_700_000_000_000


def thread(*lines: str, **options: Any) -> Summary:
    """The summary of messages like ``a request b``, or ``b done a 1`` in reply to the first."""
    entries = []
    for seq, line in enumerate(lines, 1):
        sender, type, inbox, *reply = line.split()
        at = START + seq * 1000
        replied = int(reply[0]) if reply else None
        entries.append(Entry("t", seq, type, sender, inbox, replied, at, at, 0))
    return summary("t", entries, **options)


def owes(made: Summary) -> list[str]:
    """Who owes what to whom, as ``b request a 1``."""
    return [f"{owed.debtor} {owed.type} {owed.to} {int(owed.id[1:], 16)}" for owed in made.owes]


def test_a_request_is_open_until_it_is_answered() -> None:
    made = thread("a request b")
    assert (made.state, owes(made)) == ("open", ["b request a 1"])
    assert thread("a request b", "b progress a 1").state == "open"
    for final in ("done", "failed"):
        made = thread("a request b", f"b {final} a 1")
        assert (made.state, owes(made)) == (final, [])


def test_a_final_without_a_reply_ends_what_was_asked_of_its_sender() -> None:
    assert thread("a request b", "b done a").state == "done"
    assert thread("a request b", "c done a").state == "open"
    assert thread("a request b", "a done b").state == "open"
    assert thread("b done a", "a request b").state == "open"


def test_a_final_prefers_the_requests_of_the_one_it_goes_to() -> None:
    made = thread("a request b", "c request b", "b done c")
    assert owes(made) == ["b request a 1"]
    assert thread("a request b", "c request b", "b done d").state == "done"


def test_a_final_in_reply_ends_that_request_alone() -> None:
    made = thread("a request b", "a request b", "b done a 2")
    assert (made.state, owes(made)) == ("open", ["b request a 1"])
    assert thread("a request b", "b progress a", "b done a 2").state == "open"


def test_a_task_is_the_worst_of_its_requests() -> None:
    assert thread("a request b", "a request c", "b failed a 1").state == "failed"
    assert thread("a request b", "a request c", "b done a 1", "c failed a 2").state == "failed"
    assert thread("a request b", "a request c", "b done a 1").state == "open"
    assert thread("a request b", "a request c", "b done a 1", "a cancel c 2").state == "done"
    assert thread("a request b", "b failed a 1", "b done a 1").state == "done"


def test_a_question_waits_until_it_is_answered() -> None:
    made = thread("a request b", "b question a 1")
    assert (made.state, made.open_questions) == ("waiting", [ids.written(2)])
    assert owes(made) == ["b request a 1", "a question b 2"]
    for answer in ("a answer b 2", "a answer b"):
        made = thread("a request b", "b question a 1", answer)
        assert (made.state, made.open_questions) == ("open", [])
    assert thread("a request b", "b question a", "c answer b").state == "waiting"


def test_two_questions_are_answered_one_by_one_or_at_once() -> None:
    asked = ("a request b", "b question a", "b question a")
    assert thread(*asked, "a answer b 2").open_questions == [ids.written(3)]
    assert thread(*asked, "a answer b").open_questions == []


def test_who_has_finished_waits_for_no_answer() -> None:
    made = thread("a request b", "b question a", "b done a 1")
    assert (made.state, owes(made)) == ("done", [])
    assert thread("a request b", "b question c", "b done a 1").state == "waiting"


def test_the_requester_withdraws_its_own_requests() -> None:
    assert thread("a request b", "a cancel b").state == "cancelled"
    assert thread("a request b", "a cancel b 1").state == "cancelled"
    assert thread("a request b", "b failed a", "a cancel b 1").state == "cancelled"
    for other in ("b cancel a", "b cancel a 1", "c cancel b", "c cancel b 1"):
        assert thread("a request b", other).state == "open"
    made = thread("a request b", "a request c", "a cancel c")
    assert owes(made) == ["b request a 1"]


def test_a_cancelled_request_may_be_answered_all_the_same() -> None:
    assert thread("a request b", "a cancel b", "b done a 1").state == "done"


def test_a_thread_without_a_request_is_open_or_as_its_last_result() -> None:
    assert thread("a message b").state == "open"
    assert thread("a done b", "b failed a").state == "failed"
    assert thread("a question b").state == "waiting"
    assert thread("a cancel b").state == "open"


def test_closing_goes_before_all() -> None:
    made = thread("a request b", "b failed a", closed=("a", START))
    assert (made.state, made.closed_by) == ("closed", "a")
    assert made.closed_at == "2023-11-14T22:13:20.000Z"
    assert owes(thread("a request b", closed=("a", START))) == ["b request a 1"]


def test_counts_and_times_are_those_of_the_messages() -> None:
    first = Entry("t", 1, "request", "b", "a", None, START, START + 9000, 0)
    second = Entry("t", 2, "message", "a", "c", None, START + 1000, START + 1000, 1)
    made = summary("t", [first, second])
    assert (made.messages, made.unread) == (2, 1)
    assert made.by_type == {"request": 1, "message": 1}
    assert made.participants == ["a", "b", "c"]
    assert (made.first_at[-7:], made.last_at[-7:]) == ("20.000Z", "29.000Z")


AGENTS = some.sampled_from("abc")
LINES = some.lists(
    some.tuples(AGENTS, some.sampled_from(names.MESSAGE_TYPES), AGENTS, some.integers(0, 12)),
    min_size=1,
    max_size=12,
)


@given(LINES)
def test_any_thread_has_a_state_and_owes_only_what_was_asked(lines: list) -> None:
    texts = [
        f"{sender} {type} {inbox} {reply}" if 0 < reply <= place else f"{sender} {type} {inbox}"
        for place, (sender, type, inbox, reply) in enumerate(lines)
    ]
    made = thread(*texts)
    assert made.state in RANK
    asked = dict(enumerate(texts, 1))
    for owed in made.owes:
        sender, type, inbox, *_ = asked[int(owed.id[1:], 16)].split()
        assert (owed.to, owed.type, owed.debtor) == (sender, type, inbox)
    assert [owed.id for owed in made.owes] == sorted(owed.id for owed in made.owes)
    assert made.state in ("failed", "waiting") or not made.open_questions
    assert made.state in ("failed", "waiting", "open") or not made.owes
    assert sum(made.by_type.values()) == made.messages == len(texts)
