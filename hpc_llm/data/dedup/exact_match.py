"""Stage: exact duplicates in one range of the hashes.

Reads the ``.sig`` files of all shards; writes ``.remove``: the first (shard, row) with a hash stays.
"""

from __future__ import annotations

import numpy as np

from hpc_llm.data.dedup import removals, sections
from hpc_llm.data.dedup.exact_sign import params
from hpc_llm.data.dedup.groups import stars
from hpc_llm.data.dedup.signatures import Signatures
from hpc_llm.run.shard import Shard


def run(shard: Shard) -> None:
    expected = params(shard.config)
    if shard.stage.shards != expected["partitions"]:
        raise ValueError(
            f"stage {shard.stage.name} has {shard.stage.shards} shards, "
            f"dedup.exact.partitions={expected['partitions']}: they must be equal"
        )
    signatures = Signatures.of(shard, sections.DIGESTS, expected)
    records, shards = signatures.read(str(shard.index))
    others, firsts = stars(np.ascontiguousarray(records["high"]), np.ascontiguousarray(records["low"]))
    with shard.output(removals.SUFFIX) as path:
        removals.write(
            path,
            signatures.fingerprints,
            shards=shards[others],
            rows=records["row"][others],
            kept_shards=shards[firsts],
            kept_rows=records["row"][firsts],
        )
