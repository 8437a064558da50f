"""A page of an inbox: in order, of the asked number and size; no more of it read than is shown."""

import itertools

import pytest

from models import clock, database, inboxes
from models.inboxes import PAGE_BYTES, Filter
from models.rows import Row
from tests.models import plans
from tests.models.others import put

UNREAD = Filter()


def fill(count: int, **given: object) -> list[Row]:
    """Send so many messages, every third of them delayed until now."""
    database.begin()
    due = clock.now() - 1
    found = [
        put(task_id=f"task-{number % 3}", visible_at=due if number % 3 == 2 else 0, **given)
        for number in range(count)
    ]
    database.commit()
    return found


def page(
    wanted: Filter = UNREAD, limit: int = 500, size: int = PAGE_BYTES
) -> tuple[list[Row], bool]:
    """A page of bob's inbox, and whether more follow."""
    _, found = inboxes.page("main", "bob", "bob", wanted, limit, size)
    return found.rows, found.more


@pytest.mark.parametrize("status", ["unread", "all"])
@pytest.mark.parametrize("tasks", [(), ("task-0",), ("task-2", "task-0", "task-1")])
@pytest.mark.parametrize("types", [(), ("request", "done")])
@pytest.mark.parametrize("sender", [None, "alice"])
def test_a_page_is_in_order_whatever_was_ready_at_once_and_whatever_became_due(
    store: str, status: str, tasks: tuple[str, ...], types: tuple[str, ...], sender: str | None
) -> None:
    expected = [row for row in fill(40) if not tasks or row.task_id in tasks]
    for after, limit in itertools.product((None, 0, 17), (1, 7, 500)):
        above = [row for row in expected if row.seq > (after or 0)]
        found, more = page(Filter(status, tasks, types, sender, after), limit)
        assert found == above[:limit]
        assert more == (len(above) > limit)


def test_reading_on_from_the_last_of_each_page_finds_every_message_once(store: str) -> None:
    expected = fill(40)
    found: list[Row] = []
    more = True
    while more:
        rows, more = page(Filter(after=found[-1].seq if found else None), limit=7)
        found += rows
    assert found == expected


@pytest.mark.parametrize(
    ("size", "shown"),
    [(1, 1), (100, 1), (199, 1), (200, 2), (350, 3), (1000, 10), (10_000, 10)],
)
def test_a_page_ends_before_it_is_larger_than_asked_and_has_one_message_at_least(
    store: str, size: int, shown: int
) -> None:
    # Bytes, not characters: each of these is two.
    expected = fill(10, content='"{}"'.format("ü" * 49).encode())
    found, more = page(size=size)
    assert found == expected[:shown]
    assert more == (shown < 10)


def test_messages_without_content_take_no_room_in_a_page(store: str) -> None:
    expected = fill(10, content=None)
    assert page(size=1) == (expected, False)


def test_an_empty_inbox_has_an_empty_page(store: str) -> None:
    fill(3)
    for wanted in (Filter("dead"), Filter(after=1 << 40), Filter(sender="carol")):
        assert page(wanted) == ([], False)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_sqlite_reads_no_more_of_an_inbox_than_a_page_shows(store: str) -> None:
    """It would else hold half a gigabyte to show four megabytes of it."""
    fill(500, content=b"1" * 1000)
    whole = plans.cost(lambda: page())
    assert plans.cost(lambda: page(size=5000)) < 0.6 * whole
