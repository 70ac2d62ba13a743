"""The training stage on real token files: stopped, killed and moved to another layout, it goes on exactly."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hpc_llm.node import codes
from hpc_llm.run import journal
from hpc_llm.run.folder import RunFolder
from hpc_llm.train import manifest
from hpc_llm.train.stop import Stopped, StopRequest
from tests.parallel.launch import ROOT, launch, logs, ranks
from tests.train import runs

STAGE = "tests.train.runs:stage"
CUBE = {"parallel": {"tp": 2, "pp": 2}, "train": {"checkpoint": {"keep": 9}}}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    runs.write_inputs(RunFolder(folder))
    return folder


@pytest.fixture(scope="module")
def one_process(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Trained to the end by one process, undisturbed."""
    run = copy(inputs, tmp_path_factory.mktemp("one") / "run")
    extra = ranks(1, STAGE, run.path / "launch", {"run": str(run.path)})
    assert extra["steps"] == 12 and extra["tokens"] == 12 * 8 * 32
    assert extra["loss_last"] < 0.95 * extra["loss_first"]
    return run


@pytest.fixture(scope="module")
def cube(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Trained to the end by tp=2 x pp=2 x dp=2, undisturbed; every checkpoint kept."""
    run = copy(inputs, tmp_path_factory.mktemp("cube") / "run")
    ranks(8, STAGE, run.path / "launch", {"run": str(run.path), **CUBE})
    return run


def copy(inputs: Path, target: Path) -> RunFolder:
    shutil.copytree(inputs, target)
    return RunFolder(target)


def losses(run: RunFolder) -> dict[int, str]:
    """The last hexadecimal loss told for each step."""
    return {row["step"]: row["loss_hex"] for row in journal.read(run.metrics)}


def assert_continues(ours: dict[int, str], theirs: dict[int, str]) -> None:
    """Steps 9 to 12 in another layout: equal but for the order of sums."""
    assert sorted(ours) == [9, 10, 11, 12]
    for step, loss in ours.items():
        assert float.fromhex(loss) == pytest.approx(float.fromhex(theirs[step]), rel=1e-5)


def final_weights(run: RunFolder) -> dict[str, str]:
    checkpoint = manifest.published(run.checkpoints)[-1]
    assert checkpoint.name == "step_00000012"
    return runs.weights(checkpoint)


def test_a_run_records_what_it_did(one_process: RunFolder) -> None:
    rows = list(journal.read(one_process.metrics))
    assert [r["step"] for r in rows] == list(range(1, 13))
    assert [r["step"] for r in rows if "validation_loss" in r] == [6, 12]
    assert [r["tokens"] for r in rows] == [n * 8 * 32 for n in range(1, 13)]
    assert [p.name for p in manifest.published(one_process.checkpoints)] == ["step_00000008", "step_00000012"]
    assert list(one_process.tensorboard(0).iterdir())


def test_stopped_in_eight_ranks_and_resumed_is_bit_identical(
    cube: RunFolder, inputs: Path, tmp_path: Path
) -> None:
    run = copy(inputs, tmp_path / "run")
    arguments = {"run": str(run.path), **CUBE}
    # The signal reaches one rank of eight, within step 6; all of them stop before step 7.
    stopped, _ = launch(8, STAGE, tmp_path / "first", {**arguments, "stop_after": 6})
    assert stopped == [codes.STOPPED] * 8, logs(tmp_path / "first")
    assert manifest.published(run.checkpoints)[-1].name == "step_00000006"
    assert max(losses(run)) == 6
    ranks(8, STAGE, tmp_path / "second", arguments)
    assert losses(run) == losses(cube)
    assert final_weights(run) == final_weights(cube)
    assert [r["step"] for r in journal.read(run.metrics)] == list(range(1, 13))


def test_a_checkpoint_of_eight_ranks_goes_on_in_one(cube: RunFolder, inputs: Path, tmp_path: Path) -> None:
    run = copy(inputs, tmp_path / "run")
    shutil.copytree(cube.checkpoints / "step_00000008", run.checkpoints / "step_00000008")
    ranks(1, STAGE, tmp_path / "launch", {"run": str(run.path)})
    assert_continues(losses(run), losses(cube))


def test_a_checkpoint_of_one_rank_goes_on_in_four(
    one_process: RunFolder, inputs: Path, tmp_path: Path
) -> None:
    run = copy(inputs, tmp_path / "run")
    shutil.copytree(one_process.checkpoints / "step_00000008", run.checkpoints / "step_00000008")
    ranks(4, STAGE, tmp_path / "launch", {"run": str(run.path), "parallel": {"tp": 2}})
    assert_continues(losses(run), losses(one_process))


def test_killed_and_started_again_is_bit_identical(
    one_process: RunFolder, inputs: Path, tmp_path: Path
) -> None:
    run = copy(inputs, tmp_path / "run")
    arguments = {"run": str(run.path), "kill_in": 7}
    killed, _ = launch(1, STAGE, tmp_path / "first", arguments)
    assert killed == [-signal.SIGKILL]
    del arguments["kill_in"]
    ranks(1, STAGE, tmp_path / "second", arguments)
    assert losses(run) == losses(one_process)
    assert final_weights(run) == final_weights(one_process)


def test_a_damaged_checkpoint_costs_steps_and_nothing_else(
    one_process: RunFolder, inputs: Path, tmp_path: Path
) -> None:
    run = copy(inputs, tmp_path / "run")
    shutil.copytree(one_process.checkpoints, run.checkpoints)
    shutil.copy(one_process.metrics, run.metrics)
    path = run.checkpoints / "step_00000012" / "__0_0.distcp"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    ranks(1, STAGE, tmp_path / "launch", {"run": str(run.path)})
    said = (tmp_path / "launch" / "rank_0.log").read_text()
    assert "corrupt_step_00000012" in said and "continues from step 8" in said
    assert losses(run) == losses(one_process)
    assert final_weights(run) == final_weights(one_process)


def test_divergence_ends_the_run_and_is_never_saved(inputs: Path, tmp_path: Path) -> None:
    run = copy(inputs, tmp_path / "run")
    exploding = {"lr": 1e30, "clip": 0.0}
    failed, _ = launch(1, STAGE, tmp_path / "launch", {"run": str(run.path), "optim": exploding})
    assert failed == [1]
    assert "training diverged: step 2" in (tmp_path / "launch" / "rank_0.log").read_text()
    assert not manifest.published(run.checkpoints)


@pytest.mark.parametrize("number", [signal.SIGUSR2, signal.SIGTERM])
def test_signals_only_set_a_flag(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with StopRequest() as stop:
        assert not stop.requested
        os.kill(os.getpid(), number)
        assert stop.requested
    assert signal.getsignal(number) is before
    assert Stopped().code == codes.STOPPED


def test_a_request_made_before_is_not_lost() -> None:
    with StopRequest() as first:
        os.kill(os.getpid(), signal.SIGUSR2)
        assert first.requested
        with StopRequest() as second:
            assert second.requested


def test_signals_are_handled_before_torch_is_imported() -> None:
    code = "import sys; import hpc_llm.train.stage; print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
