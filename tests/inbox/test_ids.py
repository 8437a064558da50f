"""Ids: opaque, of one width, in the order of their messages; what is no id is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from inbox import ids
from inbox.errors import InvalidCursor

SEQS = some.integers(0, (1 << 63) - 1)


@given(SEQS)
def test_an_id_reads_as_the_seq_it_was_written_from(seq: int) -> None:
    assert ids.read(ids.written(seq)) == seq
    assert ids.cursor(ids.written(seq)) == seq


@given(SEQS, SEQS)
def test_ids_sort_as_their_messages_do(one: int, other: int) -> None:
    assert (ids.written(one) < ids.written(other)) == (one < other)
    assert len(ids.written(one)) == len(ids.written(other))


@given(some.text())
def test_any_other_text_is_no_id(text: str) -> None:
    seq = ids.read(text)
    assert seq is None or ids.written(seq) == text


@pytest.mark.parametrize(
    "text",
    ["", "1", "m", "m1", "m000000000000000g", "M0000000000000001", "m000000000000000A", " m1",
     "m0000000000000001\n", "m\u0660000000000000001", "m8000000000000000", "mffffffffffffffff",
     "m00000000000000001", "m-000000000000001"],
)  # fmt: skip
def test_what_is_nearly_an_id_is_none(text: str) -> None:
    assert ids.read(text) is None
    with pytest.raises(InvalidCursor):
        ids.cursor(text)
