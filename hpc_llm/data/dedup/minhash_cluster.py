"""Stage: connected components of the matched pairs; one document of each stays.

Reads the ``.edges`` of all partitions; writes ``.remove``. The survivor of a component is its smallest
(shard, row), whatever the order of edges, partitions or workers. A component can hold chains: documents that
are alike only through others between them go together, as in every such pipeline. Memory: about 25 bytes for
each document of the corpus, and the edges of one partition.
"""

from __future__ import annotations

import numpy as np

from hpc_llm.data.dedup import removals, sections
from hpc_llm.data.dedup.fingerprint import rows_of
from hpc_llm.data.dedup.groups import flatten, union
from hpc_llm.data.dedup.minhash_sign import minhash
from hpc_llm.run.shard import Shard


def run(shard: Shard) -> None:
    parameters = minhash(shard.config).as_dict()
    files = [
        sections.Sections(path, sections.EDGES) for path in shard.inputs(shard.stage.inputs[1], ".edges")
    ]
    fingerprints: list[str] = files[0].meta["fingerprints"]
    for file in files:
        if file.meta != {"params": parameters, "fingerprints": fingerprints}:
            raise ValueError(f"{file.path}: made from other documents or parameters than {files[0].path}")
    base = np.concatenate([[0], np.cumsum([rows_of(f) for f in fingerprints], dtype=np.int64)])
    parent = np.arange(base[-1], dtype=np.int64)
    for file in files:
        edges = file.read("edges")
        union(parent, base[edges["shard"]] + edges["row"], base[edges["kept_shard"]] + edges["kept_row"])
    flatten(parent)

    removed = np.flatnonzero(parent != np.arange(len(parent)))
    kept = parent[removed]
    kept_shard = np.searchsorted(base, kept, side="right") - 1
    shards = np.searchsorted(base, removed, side="right") - 1
    shard.account.extra["minhash_clusters"] = len(np.unique(kept))
    with shard.output(removals.SUFFIX) as path:
        removals.write(
            path,
            fingerprints,
            shards=shards,
            rows=removed - base[shards],
            kept_shards=kept_shard,
            kept_rows=kept - base[kept_shard],
        )
