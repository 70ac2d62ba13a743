"""Any number of data-parallel ranks reads the same global batches."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hpc_llm.model.region import IGNORED
from hpc_llm.train.loader import Loader


class Numbered:
    """Sample i is 10 i, 10 i + 1, ..., 10 i + 4."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> np.ndarray:
        return 10 * index + np.arange(5)


def batch(dp: int, consumed: int, seed: int = 0) -> torch.Tensor:
    loaders = [Loader(Numbered(), 8, rank, dp) for rank in range(dp)]
    return torch.cat([loader.training(consumed, seed)[0] for loader in loaders])


@pytest.mark.parametrize("dp", [2, 4, 8])
@pytest.mark.parametrize("consumed", [0, 8, 16])  # the last spans two epochs
def test_global_batch_does_not_depend_on_ranks(dp: int, consumed: int) -> None:
    assert torch.equal(batch(dp, consumed), batch(1, consumed))


def test_every_epoch_sees_every_sample_once_in_another_order() -> None:
    seen = torch.cat([batch(1, step * 8)[:, 0] for step in range(5)])
    first, second = seen[:20], seen[20:]
    assert sorted(first.tolist()) == sorted(second.tolist()) == [10 * i for i in range(20)]
    assert first.tolist() != second.tolist()
    assert not torch.equal(batch(1, 0, seed=1), batch(1, 0))


def test_targets_are_one_further() -> None:
    inputs, targets = Loader(Numbered(), 8, 0, 1).training(0, 0)
    assert inputs.dtype == targets.dtype == torch.int64
    assert torch.equal(targets, inputs + 1) and inputs.shape == (8, 4)


def test_validation_counts_each_sample_once() -> None:
    loaders = [Loader(Numbered(), 8, rank, 2) for rank in range(2)]
    parts = [loader.validation(b, limit=11) for b in range(2) for loader in loaders]
    counted = torch.cat([inputs[(targets != IGNORED).all(dim=1), 0] for inputs, targets in parts])
    assert counted.tolist() == [10 * i for i in range(11)]
    assert sum(int((targets != IGNORED).sum()) for _, targets in parts) == 11 * 4
