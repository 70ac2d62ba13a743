"""Tensor parallel with sequence parallel (Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.2).

Column- and row-parallel layers hold a slice of their weight and see the whole sequence; between them
norms and the residual stream hold a slice of the sequence. Parameters are DTensors on the tp axis, so
checkpoints, FSDP and norms know what is sharded; the computation runs on their local tensors.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard

from hpc_llm.model.layers import local
from hpc_llm.parallel.cross_entropy import vocabulary_parallel_cross_entropy
from hpc_llm.parallel.mesh import Axis

_COLLECTIVES = torch.ops._c10d_functional  # differentiable, and traceable by torch.compile

_COLUMN_PARALLEL = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "embed_tokens", "lm_head")
_ROW_PARALLEL = ("o_proj", "down_proj")
_REPLICATED = ("norm", "layernorm")


def placement(name: str) -> Placement:
    """How the parameter `name` is laid over the tp axis."""
    owner = name.split(".")[-2]
    if owner in _COLUMN_PARALLEL:
        return Shard(0)
    if owner in _ROW_PARALLEL:
        return Shard(1)
    assert owner.endswith(_REPLICATED), f"no tensor-parallel placement for {name}"
    return Replicate()


def shard_parameters(model: nn.Module, mesh: DeviceMesh) -> None:
    """Replace every parameter by a DTensor on `mesh`. Values are not kept: for a model on the meta device.

    Raises ValueError when a sharded dimension is not a multiple of the axis.
    """
    for name, parameter in list(model.named_parameters()):
        where, shape = placement(name), list(parameter.shape)
        if isinstance(where, Shard):
            if shape[where.dim] % mesh.size():
                raise ValueError(
                    f"parallel.tp={mesh.size()} does not divide the {shape[where.dim]} of {name}'s "
                    f"dimension {where.dim}"
                )
            shape[where.dim] //= mesh.size()
        part = torch.empty(shape, dtype=parameter.dtype, device=parameter.device)
        owner = model.get_submodule(name.rpartition(".")[0])
        owner.weight = nn.Parameter(DTensor.from_local(part, mesh, [where], run_check=False))


class TensorParallel:
    """The `Region` (see hpc_llm.model.region) of a layer that is split over the ranks of one axis."""

    def __init__(self, axis: Axis) -> None:
        self.size = axis.size
        self._rank = axis.rank
        self._group = axis.group
        self._name = axis.group.group_name

    def gather(self, x: Tensor) -> Tensor:
        batch, part, hidden = x.shape
        gathered = _COLLECTIVES.all_gather_into_tensor(x.contiguous(), self.size, self._name)
        ranks_first = _COLLECTIVES.wait_tensor(gathered).view(self.size, batch, part, hidden)
        return ranks_first.transpose(0, 1).reshape(batch, self.size * part, hidden)

    def scatter(self, x: Tensor) -> Tensor:
        batch, sequence, hidden = x.shape
        part = sequence // self.size
        assert part * self.size == sequence, f"a sequence of {sequence} tokens over tp={self.size}"
        # Reductions are in float32 whatever autocast chose for the matrix product.
        ranks_first = x.float().view(batch, self.size, part, hidden).transpose(0, 1)
        flat = ranks_first.reshape(self.size * batch, part, hidden)
        return _COLLECTIVES.wait_tensor(
            _COLLECTIVES.reduce_scatter_tensor(flat, "sum", self.size, self._name)
        )

    def embed(self, tokens: Tensor, weight: Tensor) -> Tensor:
        row = tokens - self._rank * weight.shape[0]
        elsewhere = (row < 0) | (row >= weight.shape[0])
        partial = F.embedding(row.masked_fill(elsewhere, 0), weight)
        # FSDP hooks the gradient of what a wrapped module returns, and must not be handed a view.
        return self.scatter(partial.masked_fill(elsewhere[..., None], 0.0)).clone()

    def cross_entropy(self, logits: Tensor, targets: Tensor, vocab_size: int) -> Tensor:
        return vocabulary_parallel_cross_entropy(logits, targets, vocab_size, self._group)


def sum_partial_gradients(model: nn.Module, axis: Axis) -> None:
    """Sum over tp the gradients of replicated parameters: each rank has seen its slice of the sequence only.

    Call once, after the last backward pass of a step and before the gradient norm.
    """
    if axis.size == 1:
        return
    partial = [
        local(p.grad)
        for name, p in model.named_parameters()
        if p.grad is not None and isinstance(placement(name), Replicate)
    ]
    if not partial:
        return
    flat = torch.cat([g.flatten() for g in partial])
    dist.all_reduce(flat, group=axis.group)
    for grad, summed in zip(partial, torch.split(flat, [g.numel() for g in partial]), strict=True):
        grad.copy_(summed.view_as(grad))
