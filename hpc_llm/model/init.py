"""Initial weights that do not depend on the layout.

Row r of a parameter is drawn from Philox (Salmon et al. 2011, "Parallel random numbers: as easy as
1, 2, 3") with key = hash(seed, parameter name) and counter = r, so a rank draws only the rows it
holds and every layout holds the same model.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from hpc_llm.config.schema import ModelConfig

RESIDUAL_OUTPUTS = ("o_proj.weight", "down_proj.weight")


def normal_rows(seed: int, name: str, rows: range, columns: int) -> Tensor:
    """Standard normal float32 (len(rows), columns): those rows of the parameter `name`."""
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=16).digest()
    key = np.frombuffer(digest, dtype=np.uint64)
    out = np.empty((len(rows), columns), dtype=np.float32)
    for i, row in enumerate(rows):
        # The row is the third of four counter words: a row would need 2**128 draws to reach the next.
        bits = np.random.Philox(key=key, counter=np.array([0, 0, row, 0], dtype=np.uint64))
        np.random.Generator(bits).standard_normal(dtype=np.float32, out=out[i])
    return torch.from_numpy(out)


def standard_deviation(config: ModelConfig, name: str) -> float:
    """`init_std`, divided by sqrt(2 layers) where the output is added to the residual stream.

    Radford et al. 2019 (GPT-2), section 2.3: there are two such outputs in each layer.
    """
    if name.endswith(RESIDUAL_OUTPUTS):
        return config.init_std / math.sqrt(2 * config.layers)
    return config.init_std


@torch.no_grad()
def initialize(model: nn.Module, config: ModelConfig, seed: int) -> None:
    """Fill every parameter, or the shard of it that this rank holds, in place: norms 1, the rest normal."""
    for name, parameter in model.named_parameters():
        if isinstance(parameter, DTensor):
            local = parameter.to_local()
            shape, offset = compute_local_shape_and_global_offset(
                parameter.shape, parameter.device_mesh, parameter.placements
            )
            assert tuple(shape) == tuple(local.shape), (name, shape, local.shape)
        else:
            local, offset = parameter, (0,) * parameter.ndim
        if parameter.ndim == 1:
            local.fill_(1.0)
            continue
        rows = range(offset[0], offset[0] + local.shape[0])
        drawn = normal_rows(seed, name, rows, parameter.shape[1])
        drawn = drawn[:, offset[1] : offset[1] + local.shape[1]]
        local.copy_(drawn * standard_deviation(config, name))
