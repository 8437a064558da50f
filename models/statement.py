"""A statement of SQL, written once for both databases."""

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

PARAMETER = re.compile(r"(?<!:):([a-z_][a-z_0-9]*)")
WRITE = re.compile(r"\b(?:INSERT|UPDATE|DELETE)\b")
LIST = re.compile(r"IN :([a-z_][a-z_0-9]*)")

# The types of parameters, by name, where they are not text; PostgreSQL prepares with them.
BIGINTS = (
    "seq now after before fence fetch near bytes visible_at expires_at deadline reply_to lease"
    " until extends_by delay settled_at"
)
TYPES = {
    **dict.fromkeys(BIGINTS.split(), "bigint"),
    "unknown": "boolean",
    "anyone": "boolean",
    "final": "boolean",
    "attempts": "integer",
    "bare": "bigint[]",
    "receipts": "text[]",
    "dedup_hash": "bytea",
    "seqs": "bigint[]",
    "rows": "json",
}

_numbers = itertools.count(1)


class Statement:
    """SQL with named parameters (``:name``); a tuple is given where it says ``IN :name``.

    ``postgresql`` is given where that database needs other words. There the
    statement is prepared once a connection, which saves planning it each time.
    ``undo`` is what takes the statement's work back on SQLite, with the same
    parameters and ``:changed``, the number of rows.
    """

    def __init__(self, sql: str, postgresql: str | None = None, undo: str | None = None) -> None:
        self.undo = undo
        self.sqlite = " ".join(sql.split())
        self.writes = WRITE.search(self.sqlite) is not None
        self.lists = list(dict.fromkeys(LIST.findall(self.sqlite)))
        # For many rows at once, each a tuple in the order of the parameters: a tenth faster.
        self.names = list(dict.fromkeys(PARAMETER.findall(self.sqlite)))
        self.numbered = PARAMETER.sub(
            lambda found: f"?{self.names.index(found[1]) + 1}", self.sqlite
        )
        self.name = f"taskpost_{next(_numbers)}"
        self.text = text = LIST.sub(r"= ANY(:\1)", " ".join((postgresql or sql).split()))
        names = list(dict.fromkeys(PARAMETER.findall(text)))
        places = {name: f"${place}" for place, name in enumerate(names, 1)}
        usual = {name: "text[]" if name in self.lists else "text" for name in names}
        types = ", ".join(TYPES.get(name, usual[name]) for name in names)
        body = PARAMETER.sub(lambda found: places[found[1]], text)
        given = ", ".join(f"%({name})s" for name in names)
        self.prepare = f"PREPARE {self.name}{f' ({types})' if names else ''} AS {body}"
        self.execute = f"EXECUTE {self.name}{f' ({given})' if names else ''}"

    def for_sqlite(self, values: dict[str, Any]) -> str:
        """The text for SQLite; each list in ``values`` is taken apart."""
        if not self.lists:
            return self.sqlite
        apart: dict[str, str] = {}
        for name in self.lists:
            items = {f"{name}_{place}": item for place, item in enumerate(values.pop(name))}
            apart[name] = ", ".join(f":{key}" for key in items)
            values.update(items)
        return LIST.sub(lambda found: f"IN ({apart[found[1]]})", self.sqlite)


def records(fields: Iterable[str]) -> str:
    """On PostgreSQL: what is given for ``:rows``, as a table ``d`` with these and ``ordinality``.

    One JSON text, since arrays, one for each column, take three times as long to write and read.
    """
    typed = ", ".join(f'"{name}" {TYPES.get(name, "text")}' for name in fields)
    return f"ROWS FROM (json_to_recordset(:rows) AS ({typed})) WITH ORDINALITY AS d"


def as_records(rows: Sequence[dict[str, Any]]) -> str:
    """What is given for ``:rows``."""
    return msgspec.json.encode(rows).decode()
