"""A stage: a name, its inputs, a kind, how many shards it has and what does the work."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Stage:
    """One node of the graph.

    kind
        ``array``: `shards` independent shards, worked through by array elements.
        ``gang``: one step on all ranks of the training layout, one shard.
    work
        ``module:function``, imported only on the compute node. The function takes one
        `hpc_llm.run.shard.Shard`.
    inputs
        Names of the stages whose outputs it reads; all of their shards are done before it starts.
    group
        ``data`` or ``train``: what the ``stages=`` option selects.
    items
        What each shard reads, when that is not an output of another stage: input files.
    """

    name: str
    kind: str
    work: str
    inputs: tuple[str, ...] = ()
    shards: int = 1
    group: str = "data"
    items: tuple[tuple[str, ...], ...] = field(default=())
