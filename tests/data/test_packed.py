from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpc_llm.data.tokens.indexed import Writer
from hpc_llm.data.tokens.packed import Order, PackedDataset, permute


def write(folder: Path, shards: list[list[int]]) -> list[Path]:
    """One file for each shard; document lengths as given; the tokens count up over all of them."""
    paths, token = [], 0
    for at, lengths in enumerate(shards):
        path = folder / f"{at:05d}.train.bin"
        with Writer(path, path.with_suffix(".idx"), np.dtype("<u2")) as writer:
            for length in lengths:
                writer.add(np.arange(token, token + length))
                token += length
        paths.append(path)
    return paths


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 9), max_size=4), min_size=1, max_size=6).filter(
        lambda s: sum(map(sum, s)) > 1
    ),
    st.data(),
)
def test_samples_are_the_stream_in_order(
    tmp_path_factory: pytest.TempPathFactory, shards: list[list[int]], data: st.DataObject
) -> None:
    total = sum(map(sum, shards))
    length = data.draw(st.integers(1, total - 1))
    dataset = PackedDataset(write(tmp_path_factory.mktemp("p"), shards), length)
    assert len(dataset) == (total - 1) // length
    for index in range(len(dataset)):
        assert dataset[index].tolist() == list(range(index * length, index * length + length + 1))
    with pytest.raises(IndexError):
        dataset[len(dataset)]
    with pytest.raises(IndexError):
        dataset[-1]


def test_every_input_token_once_in_an_epoch(tmp_path: Path) -> None:
    dataset = PackedDataset(write(tmp_path, [[700, 1], [], [5, 294]]), 7)
    order = Order(len(dataset), seed=3)
    for epoch in range(3):
        seen = []
        for index in range(epoch * len(dataset), (epoch + 1) * len(dataset)):
            at, sample = order[index]
            assert at == epoch
            seen.extend(dataset[sample][:-1].tolist())
        assert sorted(seen) == list(range(7 * len(dataset)))
        assert seen != sorted(seen)


def test_too_short_a_stream_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="7 tokens in 2 files"):
        PackedDataset(write(tmp_path, [[3], [4]]), 7)
    assert len(PackedDataset(write(tmp_path, [[3], [4]]), 6)) == 1


@settings(deadline=None)
@given(st.integers(1, 3000), st.integers(-(2**70), 2**70))
def test_permutation_is_a_bijection(n: int, seed: int) -> None:
    image = permute(np.arange(n), n, seed)
    assert sorted(image.tolist()) == list(range(n))
    assert permute(n - 1, n, seed) == image[-1]


def test_permutations_are_spread_and_independent() -> None:
    n, seeds = 1000, 400
    images = np.stack([permute(np.arange(n), n, seed) for seed in range(seeds)])
    # Uniform and independent images have mean (n-1)/2 at each index, and agree with probability 1/n.
    sd = np.sqrt((n * n - 1) / 12 / seeds)
    assert np.abs(images.mean(axis=0) - (n - 1) / 2).max() < 5 * sd
    fixed = (images == np.arange(n)).sum()
    assert abs(fixed - seeds) < 5 * np.sqrt(seeds)
    same = (images[1:] == images[:-1]).sum()
    assert abs(same - (seeds - 1)) < 5 * np.sqrt(seeds)
    neighbours = np.abs(np.diff(images, axis=1)).mean()
    assert abs(neighbours - n / 3) < 10


def test_large_ranges_cost_no_memory() -> None:
    n = 2**40 + 12345
    index = np.arange(1000) * (n // 1000)
    image = permute(index, n, 1)
    assert len(set(image.tolist())) == 1000
    assert image.min() >= 0
    assert image.max() < n


@pytest.mark.parametrize("index", [-1, 10])
def test_an_index_outside_is_refused(index: int) -> None:
    with pytest.raises(ValueError, match=r"range\(10\)"):
        permute(index, 10, 0)


def test_order_is_a_function_of_seed_and_index() -> None:
    order = [Order(100, 1)[i] for i in range(300)]
    assert order == [Order(100, 1)[i] for i in range(300)]
    assert [s for _, s in order[:100]] != [s for _, s in order[100:200]]
    assert order != [Order(100, 2)[i] for i in range(300)]
