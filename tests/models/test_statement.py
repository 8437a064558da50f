"""A statement is written once and reads the same to both databases."""

import pytest

from models import database
from models.statement import Statement

THING = Statement(
    """
    SELECT :name, :now
    FROM things WHERE name = :name AND seq IN :seqs
    """
)


def test_sqlite_gets_the_words_as_they_are_with_each_list_taken_apart() -> None:
    values = {"name": "a", "now": 1, "seqs": (7, 8)}
    assert THING.for_sqlite(values) == (
        "SELECT :name, :now FROM things WHERE name = :name AND seq IN (:seqs_0, :seqs_1)"
    )
    assert values == {"name": "a", "now": 1, "seqs_0": 7, "seqs_1": 8}


def test_without_lists_sqlite_gets_the_very_same_text_each_time() -> None:
    """The driver finds what it has prepared by its text."""
    statement = Statement("SELECT  :name\n")
    assert statement.for_sqlite({"name": "a"}) is statement.for_sqlite({"name": "b"})
    assert statement.sqlite == "SELECT :name"


def test_postgresql_prepares_it_with_a_place_and_a_type_for_each_name() -> None:
    assert THING.prepare == (
        f"PREPARE {THING.name} (text, bigint, bigint[]) AS "
        "SELECT $1, $2 FROM things WHERE name = $1 AND seq = ANY($3)"
    )
    assert THING.execute == f"EXECUTE {THING.name} (%(name)s, %(now)s, %(seqs)s)"


def test_without_parameters_there_is_nothing_to_give() -> None:
    statement = Statement("SELECT 1")
    assert statement.prepare == f"PREPARE {statement.name} AS SELECT 1"
    assert statement.execute == f"EXECUTE {statement.name}"


def test_a_cast_is_no_parameter() -> None:
    statement = Statement("SELECT 1", "SELECT CAST(:now AS text), 1::bigint")
    assert statement.prepare.endswith("(bigint) AS SELECT CAST($1 AS text), 1::bigint")


def test_where_the_words_differ_each_database_gets_its_own() -> None:
    statement = Statement("SELECT length(:name)", "SELECT octet_length(:name)")
    assert statement.sqlite == "SELECT length(:name)"
    assert statement.prepare.endswith("AS SELECT octet_length($1)")


def test_no_two_statements_share_a_name() -> None:
    assert Statement("SELECT 1").name != Statement("SELECT 1").name


@pytest.mark.parametrize("seqs", [(), (5,), (5, 6, 5)])
def test_a_list_may_be_empty_or_say_a_thing_twice(store: str, seqs: tuple[int, ...]) -> None:
    statement = Statement("SELECT COUNT(*) FROM (SELECT 5 AS seq) t WHERE t.seq IN :seqs")
    assert database.run(statement, seqs=seqs).fetchone() == (int(5 in seqs),)


def test_a_list_that_is_named_twice_is_the_same_list(store: str) -> None:
    statement = Statement("SELECT 5 IN :seqs, 6 IN :seqs, 7 IN :seqs")
    assert tuple(database.run(statement, seqs=(5, 6)).fetchone()) == (True, True, False)


def test_of_two_lists_the_longer_name_is_left_alone(store: str) -> None:
    statement = Statement("SELECT 'a' IN :keys, 'b' IN :keys_too")
    row = database.run(statement, keys=("a",), keys_too=("a",)).fetchone()
    assert tuple(map(bool, row)) == (True, False)


@pytest.mark.parametrize("text", ["", "%", "%s", "a:b", ":name", "'", '"; --', "\\", "ü\u2028𝄞"])
def test_a_value_comes_back_as_it_went(store: str, text: str) -> None:
    statement = Statement("SELECT CAST(:name AS text), CAST(:sender AS text)")
    for _ in range(2):
        assert database.run(statement, name=text, sender=None).fetchone() == (text, None)


def test_watchers_are_told_what_is_run_with_its_values(store: str) -> None:
    told = []
    database.watchers.append(lambda statement, values: told.append((statement, values)))
    try:
        database.run(THING_THAT_IS, seqs=(1, 2))
    finally:
        database.watchers.pop()
    assert told == [(THING_THAT_IS, {"seqs": (1, 2)})]


THING_THAT_IS = Statement("SELECT 1 WHERE 1 IN :seqs")
