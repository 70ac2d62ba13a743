"""Stage: documents without their exact duplicates. Inputs: documents, exact_match."""

from __future__ import annotations

from hpc_llm.data.dedup import removals
from hpc_llm.run.shard import Shard


def run(shard: Shard) -> None:
    removals.apply(shard, "exact_duplicate")
