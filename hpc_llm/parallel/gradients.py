"""The gradient norm over every axis, and clipping by it."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Replicate

from hpc_llm.model.layers import local


def _copies(grad: Tensor) -> int:
    """Ranks of the mesh that hold the same elements as this rank."""
    if not isinstance(grad, DTensor):
        return 1
    copies = 1
    for axis, where in enumerate(grad.placements):
        assert not where.is_partial(), "a partial gradient has no norm yet"
        if isinstance(where, Replicate):
            copies *= grad.device_mesh.size(axis)
    return copies


def local_square_norm(parameters: Iterable[nn.Parameter], device: torch.device) -> Tensor:
    """This rank's share, float64 scalar, of the squared gradient norm: the sum over all ranks is the whole.

    Elements held by several ranks are divided by their number, so that they count once.
    """
    grads = [p.grad for p in parameters if p.grad is not None and local(p.grad).numel()]
    total = torch.zeros((), dtype=torch.float64, device=device)
    if grads:
        norms = torch.stack(torch._foreach_norm([local(g) for g in grads]))
        weights = torch.tensor([1.0 / _copies(g) for g in grads], dtype=torch.float64, device=device)
        total += (norms.double().square() * weights).sum()
    return total


def clip_(parameters: Iterable[nn.Parameter], norm: Tensor, limit: float) -> None:
    """Scale gradients in place so that their norm, which is `norm`, is at most `limit` (> 0).

    Pascanu et al. 2013 (arXiv 1211.5063), algorithm 1; the same factor on every rank.
    """
    factor = (limit / (norm + 1e-6)).clamp(max=1.0).to(torch.float32)
    grads = [local(p.grad) for p in parameters if p.grad is not None]
    if grads:
        torch._foreach_mul_(grads, factor)
