from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc_llm.data import documents

texts = st.lists(st.text(), max_size=20)


def _row(index: int, text: str) -> dict[str, str]:
    return {"id": str(index), "text": text, "source": "test"}


@given(texts, st.integers(0, 20), st.integers(0, 20))
def test_utf8_of_a_slice_gives_the_bytes_of_each_row(rows: list[str], start: int, length: int) -> None:
    for kind in (pa.string(), pa.large_string()):
        column = pa.array(rows, type=kind).slice(min(start, len(rows)), length)
        buffer, offsets = documents.utf8(column)
        assert offsets.dtype == np.int64 and buffer.dtype == np.uint8
        assert [bytes(buffer[a:b]) for a, b in pairwise(offsets)] == [
            text.encode() for text in column.to_pylist()
        ]


@given(texts)
def test_strings_is_the_inverse_of_utf8(rows: list[str]) -> None:
    column = pa.array(rows, type=pa.large_string())
    again = documents.strings(*documents.utf8(column))
    again.validate(full=True)
    assert again.to_pylist() == rows


def test_written_documents_come_back_in_order_from_both_ways_of_adding(tmp_path) -> None:
    path = tmp_path / "a.parquet"
    with documents.Writer(path) as writer:
        writer.append(_row(0, "é"))
        writer.columns(id=["1", "2"], text=["b", ""], source=["s", "s"], url=[None, "u"])
        writer.append(_row(3, "d"))
        writer.extend(pa.RecordBatch.from_pylist([_row(4, "e")], schema=documents.SCHEMA))
    assert (writer.documents, writer.bytes) == (5, 5)
    rows = [row for batch in documents.batches(path) for row in batch.to_pylist()]
    assert [(row["id"], row["text"]) for row in rows] == [
        ("0", "é"),
        ("1", "b"),
        ("2", ""),
        ("3", "d"),
        ("4", "e"),
    ]
    assert rows[2]["url"] == "u" and rows[0]["meta"] is None
    assert documents.count(path) == 5


def test_a_file_without_documents_is_valid(tmp_path) -> None:
    path = tmp_path / "empty.parquet"
    with documents.Writer(path, documents.DROPPED):
        pass
    assert pq.read_schema(path).equals(documents.DROPPED)
    assert list(documents.batches(path)) == []


def test_row_groups_hold_about_sixteen_megabytes(tmp_path) -> None:
    path = tmp_path / "big.parquet"
    with documents.Writer(path) as writer:
        for index in range(50):
            writer.append(_row(index, "x" * 1_000_000))
    sizes = [documents.text_bytes(batch) for batch in documents.batches(path)]
    assert sum(sizes) == 50_000_000
    assert all(16_000_000 <= size <= 21_000_000 for size in sizes[:-1])


def test_a_null_in_a_required_column_is_refused(tmp_path) -> None:
    with documents.Writer(tmp_path / "a.parquet") as writer, pytest.raises(ValueError, match="'source'"):
        writer.columns(id=["1"], text=["a"])
