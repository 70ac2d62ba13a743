"""The four places where a layout that splits a layer over ranks has to communicate.

The model calls these and is otherwise written for plain tensors. `Whole` is the layout of one rank;
`hpc_llm.parallel.tensor.TensorParallel` has the same methods with collectives in them.
"""

from __future__ import annotations

from typing import Protocol

import torch.nn.functional as F
from torch import Tensor

IGNORED = -100  # a target with this value counts neither in the loss nor as a valid token


class Region(Protocol):
    size: int  # ranks that share one layer

    def gather(self, x: Tensor) -> Tensor:
        """(B, S / size, H), a slice of the sequence, to (B, S, H), the input of a column-parallel layer."""

    def scatter(self, x: Tensor) -> Tensor:
        """(B, S, H), a row-parallel layer's partial sum, to the sum's own slice (B, S / size, H), float32."""

    def embed(self, tokens: Tensor, weight: Tensor) -> Tensor:
        """Token ids (B, S) int64 and this rank's rows of the table to (B, S / size, H)."""

    def cross_entropy(self, logits: Tensor, targets: Tensor, vocab_size: int) -> Tensor:
        """Sum over tokens, float32 scalar, of the negative log likelihood.

        logits: (B, S, padded vocabulary / size), whose padding from `vocab_size` on takes no probability;
        targets: (B, S) int64, `IGNORED` where there is nothing to predict.
        """


class Whole:
    """One rank holds whole layers: nothing to communicate."""

    size = 1

    def gather(self, x: Tensor) -> Tensor:
        return x

    def scatter(self, x: Tensor) -> Tensor:
        return x.float()

    def embed(self, tokens: Tensor, weight: Tensor) -> Tensor:
        return F.embedding(tokens, weight)

    def cross_entropy(self, logits: Tensor, targets: Tensor, vocab_size: int) -> Tensor:
        logits = logits[..., :vocab_size].flatten(0, -2).float()
        return F.cross_entropy(logits, targets.flatten(), ignore_index=IGNORED, reduction="sum")
