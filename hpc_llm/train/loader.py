"""Batches as a pure function of the global sample index: they know neither ranks nor restarts."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from hpc_llm.data.tokens.packed import Order
from hpc_llm.model.region import IGNORED


class Samples(Protocol):
    """Samples of one length L, each int64 of length L + 1: L inputs, and the targets one further."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> np.ndarray: ...


class Loader:
    """What one data-parallel rank reads: its contiguous part of each global batch.

    Every method returns inputs and targets, int64 of shape (global_batch / dp_size, L), on the CPU.
    """

    def __init__(self, samples: Samples, global_batch: int, dp_rank: int, dp_size: int) -> None:
        assert global_batch % dp_size == 0
        self.samples = samples
        self.global_batch = global_batch
        self._mine = range(global_batch // dp_size * dp_rank, global_batch // dp_size * (dp_rank + 1))

    def training(self, consumed: int, seed: int) -> tuple[Tensor, Tensor]:
        """The batch after `consumed` samples of the training order."""
        order = Order(len(self.samples), seed)
        return self._split([self.samples[order[consumed + i][1]] for i in self._mine])

    def validation(self, batch: int, limit: int) -> tuple[Tensor, Tensor]:
        """Batch number `batch` of the first `limit` samples as stored; targets beyond them are `IGNORED`."""
        first = batch * self.global_batch
        inputs, targets = self._split([self.samples[min(first + i, limit - 1)] for i in self._mine])
        beyond = torch.tensor([first + i >= limit for i in self._mine])
        return inputs, targets.masked_fill(beyond[:, None], IGNORED)

    @staticmethod
    def _split(rows: list[np.ndarray]) -> tuple[Tensor, Tensor]:
        tokens = torch.from_numpy(np.stack(rows))
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
