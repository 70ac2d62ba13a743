"""Stage: documents without their near-duplicates. Inputs: documents, minhash_cluster."""

from __future__ import annotations

from hpc_llm.data.dedup import removals
from hpc_llm.run.shard import Shard


def run(shard: Shard) -> None:
    removals.apply(shard, "minhash_duplicate")
