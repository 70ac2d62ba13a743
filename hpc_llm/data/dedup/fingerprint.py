"""What a document shard holds, in a few bytes: row numbers mean nothing without it.

Signatures and removals name documents by (shard, row). Every file that does carries the fingerprints of the
shards it was made from, and whoever applies it compares: a file added, reordered or rewritten in between is
an error, never the silent removal of other documents.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import xxhash

from hpc_llm.data.documents import utf8


class Fingerprint:
    """xxh3-128 over ids and texts with their lengths; the same however the rows are cut into batches."""

    def __init__(self) -> None:
        self.rows = 0
        self._hashes = [xxhash.xxh3_128() for _ in range(4)]

    def update(self, batch: pa.RecordBatch) -> None:
        """Add the rows of `batch`; it needs the columns ``id`` and ``text``."""
        self.rows += batch.num_rows
        for at, name in enumerate(("id", "text")):
            buffer, offsets = utf8(batch.column(name))
            self._hashes[2 * at].update(np.diff(offsets).data)
            self._hashes[2 * at + 1].update(buffer[offsets[0] : offsets[-1]].data)

    @property
    def value(self) -> str:
        """``rows:digest``."""
        return f"{self.rows}:" + xxhash.xxh3_128_hexdigest(b"".join(h.digest() for h in self._hashes))


def rows_of(value: str) -> int:
    """Documents in the shard that `value` was taken from."""
    return int(value.split(":")[0])
