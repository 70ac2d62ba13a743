"""Stage: MinHash band keys of one document shard.

Reads ``.parquet``; writes ``.sig``: sections ``<band>/<key range>`` of KEYS records sorted by key, then row.
Band keys only, 12 bytes a band and document: candidates are accepted by banding alone, so recall is the curve
of `MinHash.recall` and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hpc_llm.config.schema import Config
from hpc_llm.data.dedup import sections, signatures
from hpc_llm.data.dedup.fingerprint import Fingerprint
from hpc_llm.data.dedup.minhash import MinHash
from hpc_llm.data.documents import batches, text_bytes, utf8
from hpc_llm.run.shard import Shard

KEY_RANGES = 8  # bounds what a match task holds: an eighth of one band of the whole corpus at least


def minhash(config: Config) -> MinHash:
    c = config.dedup.minhash
    return MinHash(c.ngram, c.bands, c.rows, c.seed)


def section(band: int, key_range: int) -> str:
    return f"{band:03d}/{key_range}"


def run(shard: Shard) -> None:
    parameters = minhash(shard.config)
    fingerprint = Fingerprint()
    keys = [np.zeros((0, parameters.bands), dtype=np.uint64)]
    rows = [np.zeros(0, dtype=np.int64)]
    for batch in batches(shard.input(shard.stage.inputs[0], ".parquet"), ["id", "text"]):
        batch_keys, signed = parameters.keys(*utf8(batch.column("text")))
        keys.append(batch_keys[signed])
        rows.append(fingerprint.rows + np.flatnonzero(signed))
        fingerprint.update(batch)
        size = text_bytes(batch)
        shard.account.bytes_in += size
        shard.account.bytes_out += size
    shard.account.documents_in = shard.account.documents_out = fingerprint.rows
    all_keys, all_rows = np.concatenate(keys), np.concatenate(rows)

    def bands() -> Iterator[tuple[str, sections.Records]]:
        for band in range(parameters.bands):
            order = np.argsort(all_keys[:, band], kind="stable")
            records = np.empty(len(order), dtype=sections.KEYS)
            records["key"], records["row"] = all_keys[order, band], all_rows[order]
            for at, part in enumerate(signatures.ranges(records, "key", KEY_RANGES)):
                yield section(band, at), part

    meta = {"params": parameters.as_dict(), "shard": shard.index, "fingerprint": fingerprint.value}
    with shard.output(signatures.SUFFIX) as path:
        sections.write(path, sections.KEYS, meta, bands())
