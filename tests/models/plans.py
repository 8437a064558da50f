"""How the open database goes about a statement: which index, looked up by which columns, how far.

Statements are recorded where the verbs run them, so a plan is the one that
is used: on PostgreSQL the generic plan that the connection keeps.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from models import database
from models.statement import Statement

ROWS = "primary key"

# What an index must be looked up by: less, and it would be walked past what is not asked for.
FITTING = {
    ROWS: ("seq",),
    "messages_ready": ("realm", "inbox"),
    "messages_later_task": ("realm", "inbox"),
    "messages_ready_task": ("realm", "inbox"),  # an inbox as a whole is counted from it, too
    "messages_later": ("realm", "inbox"),
    "messages_inbox": ("realm", "inbox"),
    "messages_dead": ("realm", "inbox"),
    "messages_thread": ("realm", "task_id"),
    "messages_openers": ("realm",),
    "messages_dedup": ("realm", "sender", "dedup_key"),
    "messages_facts": ("realm", "type", "inbox"),
    "messages_names": ("realm", "state_key"),
    "messages_copies": ("copy_of",),
    "messages_expiry": ("realm", "inbox"),
    "messages_deadlines": ("realm", "expr"),
    "messages_due": ("realm", "expr"),
    "messages_fact_ends": ("realm", "expr"),
    "messages_task_agents": ("realm", "task_id"),
}


class Scan(NamedTuple):
    """One way into the table: under which alias, by which index (None: all of it)."""

    alias: str
    index: str | None
    columns: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether the index is looked up by as much as it must be."""
        return self.index is not None and set(FITTING[self.index]) <= set(self.columns)


Recorded = tuple[Any, dict[str, Any]]


@contextlib.contextmanager
def recorded() -> Iterator[list[Recorded]]:
    """The statements that are run inside the block, with their values."""
    seen: list[Recorded] = []

    def note(statement: Any, values: dict[str, Any]) -> None:
        seen.append((statement, values))

    database.watchers.append(note)
    try:
        yield seen
    finally:
        database.watchers.remove(note)


def _text(statement: Any, values: dict[str, Any]) -> tuple[str, Any]:
    """What the driver was given."""
    if not isinstance(statement, Statement):
        return statement.sql()
    values = dict(values)
    if database.current().dialect == "sqlite":
        return statement.for_sqlite(values), values
    return statement.execute, {
        name: list(value) if name in statement.lists else value for name, value in values.items()
    }


def scans(statement: Any, values: dict[str, Any]) -> list[Scan]:
    """Every way into the table that the statement's plan has."""
    text, given = _text(statement, values)
    if database.current().dialect == "sqlite":
        lines = database.current().execute_sql("EXPLAIN QUERY PLAN " + text, given).fetchall()
        aliases = _aliases(text)
        return [scan for *_, line in lines if (scan := _of_sqlite(line)) and scan.alias in aliases]
    plan = database.current().execute_sql("EXPLAIN (FORMAT JSON) " + text, given).fetchone()[0]
    return list(_of_postgresql(plan[0]["Plan"]))


def _aliases(sql: str) -> set[str]:
    """The names that the table goes by; those of subqueries are no ways into it."""
    tables = set(re.findall(r'\bmessages"? (?:AS )?"?(?!WHERE|SET|VALUES)(\w+)', sql))
    subqueries = set(re.findall(r"\) (?:AS )?(?!AS\b)([a-z]\w*)", sql))
    assert not tables & subqueries, f"{tables & subqueries} is a table and a subquery"
    return tables | {"messages"}


def _of_sqlite(line: str) -> Scan | None:
    found = re.match(r"(?:SEARCH|SCAN) (\S+)(?: USING (.*))?", line)
    if not found:
        return None
    if line == "SEARCH messages":  # its first or its last row
        return Scan("messages", ROWS, ("seq",))
    how = found[2] or ""
    index = ROWS if how.startswith("INTEGER PRIMARY KEY") else None
    if named := re.search(r"INDEX (\w+)", how):
        index = named[1]
    how = how.replace("<expr>", "expr").replace("rowid", "seq")
    columns = tuple(re.findall(r"(\w+)[=<>]+\?", how))
    # "ANY(realm)" is a skip-scan: the index is walked.
    return Scan(found[1], None if "ANY(" in how or not columns else index, columns)


def _of_postgresql(node: dict[str, Any], alias: str = "", above: str = "") -> Iterator[Scan]:
    alias = node.get("Alias", alias)
    if "Index Name" in node:
        index = ROWS if node["Index Name"] == "messages_pkey" else node["Index Name"]
        condition = node.get("Index Cond", "")
        negative = re.sub(r"\(- (?:visible_at|expires_at)\)", "(- expr)", condition)
        negative = re.sub(r"COALESCE\(\(- expr\), '0'::bigint\)", "expr", negative)
        columns = re.findall(r"\((?:\(- )?(\w+)\)? (?:=|<|>|<=|>=) ", negative)
        if index == ROWS and above == "Limit" and "Filter" not in node:
            columns.append("seq")  # its first or its last row
        if index in FITTING:
            yield Scan(re.sub(r"_\d+$", "", alias), index, tuple(columns))
    elif node["Node Type"] == "Seq Scan" and node["Relation Name"] == "messages":
        yield Scan(re.sub(r"_\d+$", "", alias), None, ())
    for below in node.get("Plans", ()):
        yield from _of_postgresql(below, alias, node["Node Type"])


def cost(work: Callable[[], Any]) -> int:
    """How much the database does for ``work``, which it may do twice: a number without a clock.

    On SQLite the instructions of its machine, on PostgreSQL the pages looked at.
    """
    if database.current().dialect == "sqlite":
        return _instructions(work)
    with recorded() as seen:
        work()
    return sum(_pages(*each) for each in seen)


def _instructions(work: Callable[[], Any]) -> int:
    done = 0

    def count() -> None:
        nonlocal done
        done += 1

    connection = database.current().connection()
    connection.set_progress_handler(count, 10)
    try:
        work()
    finally:
        connection.set_progress_handler(None, 10)
    return done * 10


def _pages(statement: Any, values: dict[str, Any]) -> int:
    text, given = _text(statement, values)
    asked = "EXPLAIN (ANALYZE, BUFFERS, TIMING off, FORMAT JSON) "
    plan = database.current().execute_sql(asked + text, given).fetchone()[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])
