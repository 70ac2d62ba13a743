"""The filter stage: documents in, documents kept (their text cleaned by C4's line rules) and dropped out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hpc_llm.config.schema import FiltersConfig
from hpc_llm.data import documents
from hpc_llm.data.filters import c4, rules
from hpc_llm.data.filters.features import features
from hpc_llm.run.shard import Shard


@dataclass(frozen=True)
class Decision:
    """What became of a batch."""

    reasons: list[str | None]  # one for each document; None: kept
    texts: pa.Array  # large_string, one for each document; of the kept ones the cleaned text
    lines_removed: int


def decide(text: pa.Array, filters: FiltersConfig) -> Decision:
    """Apply the enabled filters to a string column, in FineWeb's order: repetition, quality, C4.

    The Gopher rules see the text as it came; C4 removes lines from what they keep.
    """
    buffer, offsets = documents.utf8(text)
    reasons: list[str | None] = [None] * len(text)
    if filters.gopher_repetition.enabled or filters.gopher_quality.enabled:
        counts = features(buffer, offsets, filters.gopher_repetition.enabled)
        reasons = rules.first_reason(rules.gopher(counts, filters), len(text))
    if not filters.c4.enabled:
        return Decision(reasons, text, 0)
    skip = np.array([reason is not None for reason in reasons], dtype=bool)
    cleaned = c4.clean(buffer, offsets, skip, filters.c4)
    verdicts = [c4.REASONS[code] for code in cleaned.verdicts]
    return Decision(
        [first or second for first, second in zip(reasons, verdicts, strict=True)],
        documents.strings(cleaned.buffer, cleaned.offsets),
        cleaned.lines_removed,
    )


def run(shard: Shard) -> None:
    """Write ``.parquet``, the documents kept, and ``.dropped.parquet``, the others whole, with the reason."""
    account = shard.account
    account.extra["c4_lines_removed"] = 0
    with (
        shard.output(".parquet") as kept_path,
        shard.output(".dropped.parquet") as dropped_path,
        documents.Writer(kept_path) as kept,
        documents.Writer(dropped_path, documents.DROPPED) as dropped,
    ):
        for batch in documents.batches(shard.input(shard.stage.inputs[0], ".parquet")):
            decision = decide(batch.column("text"), shard.config.filters)
            account.documents_in += batch.num_rows
            account.bytes_in += documents.text_bytes(batch)
            account.extra["c4_lines_removed"] += decision.lines_removed
            account.dropped.update(reason for reason in decision.reasons if reason is not None)
            mask = pa.array([reason is None for reason in decision.reasons], type=pa.bool_())
            cleaned = batch.set_column(batch.schema.get_field_index("text"), "text", decision.texts)
            kept.extend(cleaned.filter(mask))
            _write_dropped(dropped, batch, decision.reasons)
    account.documents_out, account.bytes_out = kept.documents, kept.bytes


def _write_dropped(writer: documents.Writer, batch: pa.RecordBatch, reasons: list[str | None]) -> None:
    out = batch.append_column("reason", pa.array(reasons, type=pa.string()))
    out = out.append_column("kept_id", pa.nulls(batch.num_rows, type=pa.string()))
    writer.extend(out.filter(pa.array([reason is not None for reason in reasons], type=pa.bool_())))
