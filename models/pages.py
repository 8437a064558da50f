"""Pages of several inboxes in one round trip, for PostgreSQL.

On SQLite a statement costs less than it would to have them joined.
"""

import functools
import re
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from models import clock, database, inboxes
from models.inboxes import Box, Filter, Page
from models.rows import WIDTH, cut
from models.statement import Statement, as_records, records

SIZE = 16 << 10  # bytes of a page's content; what is larger is read by itself
EACH = re.compile(r"(?<!:):(inbox|key|fetch|sender|after|task_\d+)\b")
BESIDE = ("owner", "spelt", "ready", "due")


class Asked(NamedTuple):
    """Whose page: an inbox, its name in lower case, what of it, and how many messages at most."""

    inbox: str
    key: str
    wanted: Filter
    limit: int


@functools.lru_cache(64)
def _pages(status: str, tasks: int, types: bool, sender: bool, after: bool) -> Statement:
    """The pages of all that are asked for in this shape."""
    alone = inboxes.page_for(status, tasks, types, sender, after)
    fields = dict.fromkeys(EACH.findall(alone.text))
    each = EACH.sub(r"d.\1", alone.text)
    columns = ", ".join([*BESIDE, *(f"m{place}" for place in range(WIDTH))])
    return Statement(
        f"""
        SELECT d.ordinality, {columns} FROM {records(fields)}
        CROSS JOIN LATERAL ({each}) p ({columns})
        ORDER BY d.ordinality, m0
        """
    )


def pages(realm: str, asked: Sequence[Asked]) -> list[tuple[Box, Page] | None]:
    """What ``inboxes.page`` says of each; None for one that is to be read by itself."""
    made: list[tuple[Box, Page] | None] = [None] * len(asked)
    if database.current().dialect == "sqlite":
        return made
    shapes: dict[Any, list[int]] = {}
    for place, (_, _, wanted, _) in enumerate(asked):
        if not wanted.types:  # a list of each one's own would not go into one row
            shapes.setdefault((wanted.status, *inboxes.shape(wanted)), []).append(place)
    for shape, places in shapes.items():
        if len(places) > 1:
            found = _read(realm, _pages(*shape), [asked[place] for place in places])
            for place, page in zip(places, found, strict=True):
                made[place] = page
    return made


def _read(
    realm: str, statement: Statement, asked: Sequence[Asked]
) -> list[tuple[Box, Page] | None]:
    rows = [
        {"inbox": each.inbox, "key": each.key, **inboxes.values(each.wanted, each.limit)}
        for each in asked
    ]
    found = database.run(
        statement, realm=realm, now=clock.now(), bytes=SIZE, rows=as_records(rows)
    ).fetchall()
    by_place = {place: list(each) for place, each in groupby(found, itemgetter(0))}
    return [_page(by_place[place], each.limit) for place, each in enumerate(asked, 1)]


def _page(found: list[Any], limit: int) -> tuple[Box, Page] | None:
    _, owner, spelt, ready, due = found[0][:-WIDTH]
    rows, more = cut(found, limit, SIZE)
    if more and len(rows) < limit:
        return None  # there is room for more in a page of its own
    return Box(owner, spelt), Page(rows, more, max(ready or 0, due or 0))
