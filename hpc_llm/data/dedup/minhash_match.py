"""Stage: pairs of documents that share a band key, in one part of the band keys.

Reads the ``.sig`` files of all shards; writes ``.edges``: one section ``edges`` of EDGES records, from every
document with a key that an earlier (shard, row) has too, to the earliest of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hpc_llm.data.dedup import sections
from hpc_llm.data.dedup.groups import stars
from hpc_llm.data.dedup.minhash_sign import KEY_RANGES, minhash, section
from hpc_llm.data.dedup.signatures import Signatures
from hpc_llm.run.shard import Shard

RECORDS_AT_ONCE = 32_000_000  # about 2 GB while they are matched


def run(shard: Shard) -> None:
    parameters = minhash(shard.config)
    signatures = Signatures.of(shard, sections.KEYS, parameters.as_dict())
    parts = [np.zeros(0, dtype=sections.EDGES)]
    for names in _groups(signatures, _share(parameters.bands, shard.index, shard.stage.shards)):
        records, shards = signatures.read(*names)
        others, firsts = stars(np.ascontiguousarray(records["key"]))
        edges = np.empty(len(others), dtype=sections.EDGES)
        edges["shard"], edges["row"] = shards[others], records["row"][others]
        edges["kept_shard"], edges["kept_row"] = shards[firsts], records["row"][firsts]
        parts.append(edges)
    edges = np.concatenate(parts)
    shard.account.extra["minhash_edges"] = len(edges)
    meta = {"params": parameters.as_dict(), "fingerprints": signatures.fingerprints}
    with shard.output(".edges") as path:
        sections.write(path, sections.EDGES, meta, [("edges", edges)])


def _share(bands: int, index: int, partitions: int) -> Iterator[tuple[int, int]]:
    """The (band, key range) pairs of a partition: neighbours in every file, so that it reads one stretch."""
    units = bands * KEY_RANGES
    for unit in range(units * index // partitions, units * (index + 1) // partitions):
        yield divmod(unit, KEY_RANGES)


def _groups(signatures: Signatures, share: Iterator[tuple[int, int]]) -> Iterator[list[str]]:
    """Section names of one band that are read at once: as many as memory allows, each file opened once."""
    names: list[str] = []
    total, current = 0, -1
    for band, key_range in share:
        name = section(band, key_range)
        count = signatures.count(name)
        if names and (band != current or total + count > RECORDS_AT_ONCE):
            yield names
            names, total = [], 0
        names.append(name)
        total, current = total + count, band
    if names:
        yield names
