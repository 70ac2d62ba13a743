"""Stage: 128-bit hashes of the texts of one document shard.

Two documents are exact duplicates when their texts are equal after Unicode NFC and after every run of white
space, leading and trailing ones dropped, has become one blank. Case and punctuation count.
Reads ``.parquet``; writes ``.sig``: one section for each partition of the match stage, of DIGESTS records
sorted by hash, then row.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from hpc_llm.config.schema import Config
from hpc_llm.data.dedup import sections, signatures
from hpc_llm.data.dedup.fingerprint import Fingerprint
from hpc_llm.data.documents import batches, text_bytes
from hpc_llm.run.shard import Shard


def params(config: Config) -> dict[str, Any]:
    return {
        "definition": f"nfc-blank/1 unicode {unicodedata.unidata_version}",
        "partitions": config.dedup.exact.partitions,
    }


def digests(texts: Iterable[str]) -> npt.NDArray[np.uint64]:
    """xxh3-128 of each normalised text: uint64 of shape (texts, 2), high half first."""
    data = b"".join(xxhash.xxh3_128_digest(_normalized(text).encode()) for text in texts)
    return np.frombuffer(data, dtype=">u8").astype(np.uint64).reshape(-1, 2)


def _normalized(text: str) -> str:
    return " ".join((text if text.isascii() else unicodedata.normalize("NFC", text)).split())


def run(shard: Shard) -> None:
    fingerprint = Fingerprint()
    parts = [np.zeros((0, 2), dtype=np.uint64)]
    for batch in batches(shard.input(shard.stage.inputs[0], ".parquet"), ["id", "text"]):
        parts.append(digests(batch.column("text").to_pylist()))
        fingerprint.update(batch)
        size = text_bytes(batch)
        shard.account.bytes_in += size
        shard.account.bytes_out += size
    shard.account.documents_in = shard.account.documents_out = fingerprint.rows

    high, low = np.concatenate(parts).T
    order = np.lexsort((low, high))
    records = np.empty(len(order), dtype=sections.DIGESTS)
    records["high"], records["low"], records["row"] = high[order], low[order], order
    meta = {"params": params(shard.config), "shard": shard.index, "fingerprint": fingerprint.value}
    ranges = signatures.ranges(records, "high", shard.config.dedup.exact.partitions)
    with shard.output(signatures.SUFFIX) as path:
        sections.write(path, sections.DIGESTS, meta, ((str(at), part) for at, part in enumerate(ranges)))
