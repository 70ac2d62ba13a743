"""Cross entropy over logits whose vocabulary is split over ranks (Shoeybi et al. 2019, arXiv 1909.08053,
section 3): three numbers a token are reduced instead of gathering the logits."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from hpc_llm.model.region import IGNORED


class _VocabularyParallel(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits_TV: Tensor, targets_T: Tensor, first: int, group: dist.ProcessGroup
    ) -> Tensor:
        top_T = logits_TV.amax(dim=-1)
        dist.all_reduce(top_T, dist.ReduceOp.MAX, group=group)
        shifted_TV = logits_TV - top_T[:, None]

        column_T = targets_T - first
        mine_T = (column_T >= 0) & (column_T < logits_TV.shape[1])
        column_T = column_T.where(mine_T, 0)
        target_T = shifted_TV.gather(1, column_T[:, None])[:, 0].where(mine_T, 0.0)

        exp_TV = shifted_TV.exp_()
        sums_2T = torch.stack((exp_TV.sum(dim=-1), target_T))
        dist.all_reduce(sums_2T, group=group)
        denominator_T, target_T = sums_2T

        counted_T = targets_T != IGNORED
        ctx.save_for_backward(exp_TV.div_(denominator_T[:, None]), column_T, mine_T, counted_T)
        return (denominator_T.log() - target_T).where(counted_T, 0.0).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        softmax_TV, column_T, mine_T, counted_T = ctx.saved_tensors
        grad_TV = softmax_TV.clone()
        grad_TV[torch.arange(len(column_T), device=column_T.device), column_T] -= mine_T.to(grad_TV.dtype)
        return grad_TV.mul_((grads[0] * counted_T)[:, None]), None, None, None


def vocabulary_parallel_cross_entropy(
    logits: Tensor, targets: Tensor, vocab_size: int, group: dist.ProcessGroup
) -> Tensor:
    """Negative log likelihood summed over tokens, float32 scalar, the same on every rank of `group`.

    logits: (B, S, V), this rank's V columns of the padded vocabulary, columns in rank order.
    targets: (B, S) int64 in [0, vocab_size), or `IGNORED`; the same on every rank.
    """
    columns = logits.shape[-1]
    first = dist.get_rank(group) * columns
    logits_TV = logits.flatten(0, -2).float()
    if first + columns > vocab_size:
        padding = torch.arange(first, first + columns, device=logits.device) >= vocab_size
        logits_TV = logits_TV.masked_fill(padding, float("-inf"))
    loss: Tensor = _VocabularyParallel.apply(logits_TV, targets.flatten(), first, group)  # type: ignore[no-untyped-call]
    return loss
