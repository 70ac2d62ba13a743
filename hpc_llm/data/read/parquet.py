"""Parquet files, row group by row group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from hpc_llm.config.schema import SourceConfig
from hpc_llm.data.read.outcome import Document, Dropped, Outcome, Outcomes
from hpc_llm.data.read.streams import Bad

BATCH_ROWS = 1024


def read(path: str, source: SourceConfig) -> Outcomes:
    """The documents of one file, in batches of rows, so that memory is bounded by a row group's pages.

    ``source.id_field`` gives the id, else it is ``<path>#<row>``; offsets in a `Bad` are row numbers.
    A file without a readable footer is one `Bad`; so is what follows a damaged page.
    Raises ValueError when the column ``source.text_field`` is absent or holds no strings.
    """
    row = 0
    try:
        with pq.ParquetFile(path) as file:
            _check(file.schema_arrow, path, source)
            for batch in file.iter_batches(batch_size=BATCH_ROWS, use_threads=False):
                for record in _rows(batch, row):
                    yield record if isinstance(record, Bad) else _document(record, path, row, source)
                    row += 1
    except FileNotFoundError:
        raise ValueError(f"input {path} is gone; it was there when the run was planned") from None
    except (pa.ArrowException, OSError) as error:
        yield Bad(row, f"unreadable Parquet from row {row} on: {str(error).splitlines()[0]}")


def _check(schema: pa.Schema, path: str, source: SourceConfig) -> None:
    columns = ", ".join(f"{field.name}: {field.type}" for field in schema)
    if source.text_field not in schema.names:
        raise _ColumnError(
            f"{path} has no column {source.text_field!r} (source.text_field); columns: {columns}"
        )
    kind = schema.field(source.text_field).type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        raise _ColumnError(
            f"{path}: column {source.text_field!r} (source.text_field) is no string; columns: {columns}"
        )


class _ColumnError(ValueError):
    """Not an ArrowInvalid, which is a ValueError too: it must reach the user."""


def _rows(batch: pa.RecordBatch, first: int) -> Iterator[dict[str, Any] | Bad]:
    """Rows as mappings; a row with a string that is no UTF-8 costs itself only."""
    try:
        yield from batch.to_pylist()
    except UnicodeDecodeError:
        for index in range(batch.num_rows):
            try:
                yield from batch.slice(index, 1).to_pylist()
            except UnicodeDecodeError as error:
                yield Bad(first + index, f"invalid UTF-8: {error.reason}")


def _document(record: dict[str, Any], path: str, row: int, source: SourceConfig) -> Outcome:
    text = record.pop(source.text_field)
    if text is None:
        return Bad(row, f"null in source.text_field={source.text_field!r}")
    if not text or text.isspace():
        return Dropped("empty_text", row)
    identity = record.pop(source.id_field, None)
    url = record.pop("url", None) if isinstance(record.get("url"), str) else None
    return Document(
        id=f"{path}#{row}" if identity is None else str(identity),
        text=text,
        source=path,
        url=url,
        meta=orjson.dumps(record, default=str, option=orjson.OPT_NON_STR_KEYS).decode() if record else None,
    )
