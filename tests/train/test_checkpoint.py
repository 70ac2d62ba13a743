"""Checkpoints that were damaged are refused by name, and the one before is loaded."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from hpc_llm.config.schema import OptimConfig
from hpc_llm.train import manifest
from hpc_llm.train.checkpoint import Checkpointer, CheckpointError, load_weights
from hpc_llm.train.manifest import Corrupt, Position
from hpc_llm.train.optimizer import build_optimizer


@pytest.fixture(scope="module", autouse=True)
def group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Toy:
    """A model whose every weight is the number of steps it has seen."""

    def __init__(self, inputs: int = 300) -> None:
        self.model = nn.Linear(inputs, 20, bias=False)
        self.optimizer = build_optimizer(self.model, OptimConfig())
        self.set(0)

    def set(self, value: float) -> None:
        with torch.no_grad():
            self.model.weight.fill_(value)
            self.optimizer.state[self.model.weight]["exp_avg"].fill_(value / 2)

    @property
    def values(self) -> tuple[float, float, float]:
        moments = self.optimizer.state[self.model.weight]
        assert self.model.weight.unique().numel() == 1
        return self.model.weight[0, 0].item(), moments["exp_avg"][0, 0].item(), moments["step"].item()


def save(folder: Path, steps: int, keep: int = 9, asynchronous: bool = True) -> None:
    toy, checkpoints = Toy(), Checkpointer(folder, keep, asynchronous)
    for step in range(1, steps + 1):
        toy.set(step)
        checkpoints.save(toy.model, toy.optimizer, Position(step, 8 * step, 256 * step))
    checkpoints.close()


def load(folder: Path) -> tuple[Toy, Position]:
    toy, checkpoints = Toy(), Checkpointer(folder, 9, True)
    position = checkpoints.load(toy.model, toy.optimizer)
    checkpoints.close()
    return toy, position


@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_was_saved_is_loaded_and_keep_newest(tmp_path: Path, asynchronous: bool) -> None:
    save(tmp_path, 4, keep=2, asynchronous=asynchronous)
    assert [p.name for p in manifest.published(tmp_path)] == ["step_00000003", "step_00000004"]
    toy, position = load(tmp_path)
    assert position == Position(4, 32, 1024)
    assert toy.values == (4.0, 2.0, 4.0)


def test_training_on_while_a_checkpoint_is_written_does_not_change_it(tmp_path: Path) -> None:
    toy, checkpoints = Toy(), Checkpointer(tmp_path, 1, True)
    toy.set(7)
    checkpoints.save(toy.model, toy.optimizer, Position(7))
    toy.set(8)
    checkpoints.close()
    assert load(tmp_path)[0].values == (7.0, 3.5, 7.0)


def flip_a_bit(checkpoint: Path) -> None:
    path = checkpoint / "__0_0.distcp"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x40
    path.write_bytes(content)


def truncate(checkpoint: Path) -> None:
    path = checkpoint / "__0_0.distcp"
    path.write_bytes(path.read_bytes()[:-100])


def damage_the_index(checkpoint: Path) -> None:
    path = checkpoint / ".metadata"
    path.write_bytes(path.read_bytes()[::-1])


def cut_the_manifest(checkpoint: Path) -> None:
    path = checkpoint / "manifest.json"
    path.write_bytes(path.read_bytes()[:40])


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (flip_a_bit, "has checksum"),
        (truncate, "its manifest says"),
        (damage_the_index, "has checksum"),
        (cut_the_manifest, "is not a manifest"),
        (lambda c: (c / "manifest.json").unlink(), "manifest.json is missing"),
        (lambda c: (c / "__0_0.distcp").unlink(), "No such file"),
    ],
)
def test_damage_is_named_and_the_checkpoint_before_is_loaded(
    damage: Callable[[Path], object], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, 2)
    damage(tmp_path / "step_00000002")
    toy, position = load(tmp_path)
    assert (position.step, toy.values) == (1, (1.0, 0.5, 1.0))
    said = capsys.readouterr().out
    assert reason in said and "corrupt_step_00000002" in said and "continues from step 1" in said
    assert [p.name for p in manifest.published(tmp_path)] == ["step_00000001"]


def test_nothing_good_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path, 1)
    flip_a_bit(tmp_path / "step_00000001")
    toy, position = load(tmp_path)
    assert (position, toy.values) == (Position(), (0.0, 0.0, 0.0))
    assert "continues from step 0" in capsys.readouterr().out


def test_a_torn_write_is_not_seen_and_does_not_disturb_the_next(tmp_path: Path) -> None:
    save(tmp_path, 2)
    torn = manifest.temporary(tmp_path, 2)
    shutil.copytree(tmp_path / "step_00000002", torn)
    shutil.rmtree(tmp_path / "step_00000002")
    assert load(tmp_path)[1].step == 1
    assert not torn.exists()
    save(tmp_path, 2)
    assert load(tmp_path)[1].step == 2


def test_a_write_that_fails_is_raised_at_the_next_save(tmp_path: Path) -> None:
    toy, checkpoints = Toy(), Checkpointer(tmp_path, 1, True)
    manifest.temporary(tmp_path, 1).write_text("in the way")
    checkpoints.save(toy.model, toy.optimizer, Position(1))
    with pytest.raises(CheckpointError, match=r"writing .*step_00000001"):
        checkpoints.save(toy.model, toy.optimizer, Position(2))
    assert not manifest.published(tmp_path)


def test_a_good_checkpoint_of_another_model_is_an_error_and_not_a_fresh_start(tmp_path: Path) -> None:
    save(tmp_path, 1)
    other, checkpoints = Toy(inputs=100), Checkpointer(tmp_path, 1, True)
    with pytest.raises(CheckpointError, match=r"reading .*step_00000001"):
        checkpoints.load(other.model, other.optimizer)
    assert manifest.published(tmp_path)


def test_weights_alone_are_verified_too(tmp_path: Path) -> None:
    save(tmp_path, 1)
    toy = Toy()
    assert load_weights(tmp_path / "step_00000001", toy.model).step == 1
    assert toy.values[0] == 1.0
    flip_a_bit(tmp_path / "step_00000001")
    with pytest.raises(Corrupt):
        load_weights(tmp_path / "step_00000001", toy.model)
