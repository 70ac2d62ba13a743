"""Stage: documents with placeholders for e-mail addresses, public IP addresses and phone numbers.

Input: documents. Writes ``.parquet``; no document is dropped. Counts spans in ``pii_emails``, ``pii_ips`` and
``pii_phones``.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hpc_llm.config.schema import PiiConfig
from hpc_llm.data import documents
from hpc_llm.data.pii import anchors, detect
from hpc_llm.run.shard import Shard


def run(shard: Shard) -> None:
    counts: Counter[str] = Counter()
    with shard.output(".parquet") as path, documents.Writer(path) as writer:
        for batch in documents.batches(shard.input(shard.stage.inputs[0], ".parquet")):
            shard.account.documents_in += batch.num_rows
            shard.account.bytes_in += documents.text_bytes(batch)
            column, found = replace_column(batch.column("text"), shard.config.pii)
            counts += found
            index = batch.schema.get_field_index("text")
            writer.extend(batch.set_column(index, batch.schema.field(index), column))
    shard.account.documents_out, shard.account.bytes_out = writer.documents, writer.bytes
    for kind in ("email", "ip", "phone"):
        shard.account.extra[f"pii_{kind}s"] = counts[kind]


def replace_column(column: pa.Array, config: PiiConfig) -> tuple[pa.Array, Counter[str]]:
    """A large_string column with placeholders, and how many spans of each kind were replaced."""
    buffer, offsets = documents.utf8(column)
    found = anchors.find(buffer, offsets)
    changed: dict[int, bytes] = {}
    counts: Counter[str] = Counter()
    documents_found, starts = np.unique(found[:, 0], return_index=True)
    bounds = [*starts.tolist(), len(found)]
    for document, (start, end) in zip(documents_found.tolist(), pairwise(bounds), strict=True):
        first = int(offsets[document])
        text = buffer[first : offsets[document + 1]].tobytes()
        hits = detect.spans(text, [(at - first, kind) for _, at, kind in found[start:end].tolist()], config)
        if hits:
            changed[document], more = detect.replace(detect.rewrite(text, hits), config)
            counts.update(hit.kind for hit in hits)
            counts += more
    return (_with(buffer, offsets, changed), counts) if changed else (column, counts)


def _with(
    buffer: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], changed: dict[int, bytes]
) -> pa.Array:
    """The column with other texts for some documents."""
    lengths = np.diff(offsets)
    parts: list[bytes] = []
    copied = int(offsets[0])
    for document, text in changed.items():
        parts += [buffer[copied : offsets[document]].tobytes(), text]
        copied = int(offsets[document + 1])
        lengths[document] = len(text)
    data = b"".join([*parts, buffer[copied : offsets[-1]].tobytes()])
    return documents.strings(np.frombuffer(data, dtype=np.uint8), np.concatenate([[0], np.cumsum(lengths)]))
