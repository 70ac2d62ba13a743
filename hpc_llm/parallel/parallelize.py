"""From a configuration to this rank's share of the model, ready to train."""

from __future__ import annotations

import functools

import torch
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint

from hpc_llm.config.schema import Config, ParallelConfig
from hpc_llm.model.init import initialize
from hpc_llm.model.region import Whole
from hpc_llm.model.transformer import Transformer
from hpc_llm.parallel.mesh import Layout, stage_layers
from hpc_llm.parallel.tensor import TensorParallel, shard_parameters


def parallelize(model: Transformer, layout: Layout, config: ParallelConfig) -> None:
    """Compile, then recompute, then FSDP, in place: each wraps what the one before it made.

    Recomputation is outside the compiled block, since inside it torch 2.13 cannot save the mesh of a
    DTensor parameter for the backward pass. All are on the forward method, so names stay as they are.
    """
    for block in model.layers.values():
        if config.compile:
            block.forward = torch.compile(block.forward, fullgraph=True)
        if config.activation_checkpointing:
            block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
    if layout.dp.size > 1:
        shard = functools.partial(fully_shard, mesh=layout.dp.mesh, reshard_after_forward=config.zero == 3)
        for module in (model.embed_tokens, *model.layers.values()):
            if module is not None:
                shard(module)
        if model.norm is not None and model.lm_head is not None:
            # The backward pass needs them again at once: resharding in between would only cost time.
            fully_shard([model.norm, model.lm_head], mesh=layout.dp.mesh, reshard_after_forward=False)
        shard(model)


def build_model(config: Config, vocab_size: int, layout: Layout) -> Transformer:
    """This rank's stage and shards, initialized from train.seed, on the layout's device, float32."""
    layers = stage_layers(config.model.layers, layout.pp.size, layout.pp.rank)
    region = TensorParallel(layout.tp) if layout.tp.size > 1 else Whole()
    with torch.device("meta"):
        model = Transformer(config.model, vocab_size, layers, region)
    if layout.tp.size > 1:
        shard_parameters(model, layout.tp.mesh)
    parallelize(model, layout, config.parallel)
    model.to_empty(device=layout.device)
    initialize(model, config.model, config.train.seed)
    return model
