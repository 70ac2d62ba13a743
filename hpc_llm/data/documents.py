"""The document batch: what travels between the data stages.

A batch is an Arrow record batch of `SCHEMA`. On disk it is Parquet, zstd level 1, in row groups of
about 16 MB of text, so that a reader holds one row group and never a shard. Column `text` is a
``large_string``: 64-bit offsets, because one row group may hold a document of any length.
Hot loops take the column as the two buffers that `utf8` hands out, without a copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = pa.schema(
    [
        # The input's own, else file#offset; never depends on the shard. An input that repeats, repeats it.
        pa.field("id", pa.string(), nullable=False),
        pa.field("text", pa.large_string(), nullable=False),
        pa.field("url", pa.string()),
        pa.field("source", pa.string(), nullable=False),  # file, package or archive it came from
        pa.field("meta", pa.string()),  # a JSON object
    ]
)

# Documents that a stage took out, with the reason and, for duplicates, the id of the one that stays.
DROPPED = pa.schema(
    [*SCHEMA, pa.field("reason", pa.string(), nullable=False), pa.field("kept_id", pa.string())]
)

ROW_GROUP_BYTES = 16_000_000
ROW_GROUP_ROWS = 100_000  # bounds a row group of very short documents


class Writer:
    """Writes documents of `schema` to one Parquet file; a context manager.

    ``documents`` and ``bytes`` (UTF-8 bytes of `text`) count what was written so far. A file without
    documents is a valid file with no rows. When the block ends with an error the file is closed as it
    is: publishing it or not is the caller's business.
    """

    def __init__(self, path: str | Path, schema: pa.Schema = SCHEMA) -> None:
        self.schema = schema
        self.documents = 0
        self.bytes = 0
        self._batches: list[pa.RecordBatch] = []
        self._rows: list[Mapping[str, Any]] = []
        self._row_bytes = 0
        self._pending_bytes = 0
        self._pending_rows = 0
        self._writer = pq.ParquetWriter(
            path, schema, compression="zstd", compression_level=1, use_dictionary=["source", "reason"]
        )

    def append(self, row: Mapping[str, Any]) -> None:
        """Add one document: a mapping of column to value; a nullable column may be absent."""
        self._rows.append(row)
        self._row_bytes += len(row["text"])  # characters: close enough to decide when to flush
        if self._row_bytes >= ROW_GROUP_BYTES // 4 or len(self._rows) >= 10_000:
            self._take_rows()

    def extend(self, batch: pa.RecordBatch) -> None:
        """Add the rows of `batch`, whose columns are those of the schema, in any order."""
        self._take_rows()
        self._take(batch.select(self.schema.names).cast(self.schema))

    def columns(self, **columns: Sequence[Any] | pa.Array) -> None:
        """Add one row for each element of the columns; a nullable column may be absent."""
        rows = len(columns["text"])
        arrays = [
            columns[f.name]
            if isinstance(columns.get(f.name), pa.Array)
            else pa.array(columns.get(f.name, [None] * rows), type=f.type)
            for f in self.schema
        ]
        self._take_rows()
        self._take(pa.RecordBatch.from_arrays(arrays, schema=self.schema))

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._take_rows()
        self._flush()
        self._writer.close()

    def _take_rows(self) -> None:
        if self._rows:
            rows, self._rows, self._row_bytes = self._rows, [], 0
            self._take(pa.RecordBatch.from_pylist(rows, schema=self.schema))

    def _take(self, batch: pa.RecordBatch) -> None:
        for field, column in zip(self.schema, batch.columns, strict=True):
            if not field.nullable and column.null_count:
                raise ValueError(f"column {field.name!r} holds {column.null_count} nulls; it allows none")
        size = text_bytes(batch)
        self.documents += batch.num_rows
        self.bytes += size
        self._batches.append(batch)
        self._pending_bytes += size
        self._pending_rows += batch.num_rows
        if self._pending_bytes >= ROW_GROUP_BYTES or self._pending_rows >= ROW_GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._pending_rows:
            table = pa.Table.from_batches(self._batches, schema=self.schema)
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._batches, self._pending_bytes, self._pending_rows = [], 0, 0


def batches(path: str | Path, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The row groups of a file in order, each as one record batch; only `columns` of it when given."""
    with pq.ParquetFile(path) as file:
        for index in range(file.num_row_groups):
            table = file.read_row_group(index, columns=columns, use_threads=False).combine_chunks()
            yield from table.to_batches()


def count(path: str | Path) -> int:
    """Documents in a file, from its footer."""
    rows: int = pq.read_metadata(path).num_rows
    return rows


def utf8(column: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The bytes of a string column and their offsets, without a copy of the bytes.

    Returns ``(buffer, offsets)``: `buffer` uint8, `offsets` int64 of length rows + 1; document i is
    ``buffer[offsets[i]:offsets[i + 1]]``. The offsets are absolute, so the first need not be 0 in a
    slice. Both are read-only views into Arrow memory and keep it alive.
    """
    if pa.types.is_string(column.type):
        column = column.cast(pa.large_string())
    _, offsets, data = column.buffers()
    ends = (
        np.frombuffer(offsets, dtype=np.int64, count=len(column) + 1, offset=8 * column.offset)
        if offsets is not None and offsets.size
        else np.zeros(1, dtype=np.int64)
    )
    buffer = np.frombuffer(data, dtype=np.uint8) if data is not None else np.zeros(0, dtype=np.uint8)
    return buffer, ends


def strings(buffer: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> pa.Array:
    """The inverse of `utf8`: a large_string column over the two buffers, without a copy."""
    return pa.Array.from_buffers(
        pa.large_string(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(buffer)]
    )


def text_bytes(batch: pa.RecordBatch) -> int:
    """UTF-8 bytes of the batch's `text` column."""
    _, offsets = utf8(batch.column("text"))
    return int(offsets[-1] - offsets[0])
