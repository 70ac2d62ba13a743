"""Every layout gives the losses, gradient norms and first weights of one process."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.parallel.launch import ranks

TRAIN = "tests.parallel.layouts:train"
# Relative, float32: layouts differ in the order of their sums. Gradients feel the weights' own differences,
# which grow through AdamW where a gradient is near zero.
TOLERANCE = {"loss": 1e-5, "validation": 1e-5, "norm": 2e-5}

FOUR = {
    "tp4": {"tp": 4, "micro_batch": 8},
    "pp4": {"pp": 4},
    "dp4": {},
    "dp4_zero2": {"zero": 2, "micro_batch": 1, "steps": 10},
    "pp2_tp2_gpipe_recompute": {
        "pp": 2,
        "tp": 2,
        "micro_batch": 4,
        "schedule": "gpipe",
        "activation_checkpointing": True,
        "steps": 10,
    },
}


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    layouts = {"fp32": {}, "bf16": {"precision": "bf16", "steps": 5}}
    return ranks(1, TRAIN, tmp_path_factory.mktemp("one"), {"layouts": layouts})


@pytest.fixture(scope="module")
def four_processes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    arguments = {"layouts": FOUR, "cross_entropy": True}
    return ranks(4, TRAIN, tmp_path_factory.mktemp("four"), arguments, timeout=240)


def largest_difference(ours: list[float], reference: list[float]) -> float:
    return max(abs(a / b - 1) for a, b in zip(ours, reference, strict=False))


def assert_same_run(run: dict[str, Any], reference: dict[str, Any], steps: int = 20) -> None:
    assert (len(run["loss"]), len(run["validation"])) == (steps, steps // 10)
    differences = {k: largest_difference(run[k], reference[k]) for k in TOLERANCE if run[k]}
    print(differences)
    assert all(difference < TOLERANCE[k] for k, difference in differences.items()), differences
    assert run["initial"] == reference["initial"]
    assert run["tokens"] == steps * 8 * 32


def test_one_process_learns(one_process: dict[str, Any]) -> None:
    losses = one_process["fp32"]["loss"]
    assert losses[-1] < 0.85 * losses[0]


@pytest.mark.parametrize("name", FOUR)
def test_four_processes(name: str, four_processes: dict[str, Any], one_process: dict[str, Any]) -> None:
    assert_same_run(four_processes[name], one_process["fp32"], FOUR[name].get("steps", 20))


def test_vocabulary_parallel_cross_entropy(four_processes: dict[str, Any]) -> None:
    assert four_processes["cross_entropy"]["loss"] < 1e-6
    assert four_processes["cross_entropy"]["gradient"] < 1e-5


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on the CPU")
def test_compiled_and_recomputed(tmp_path: Path, one_process: dict[str, Any]) -> None:
    layout = {"tp": 2, "compile": True, "activation_checkpointing": True, "micro_batch": 4, "steps": 2}
    run = ranks(2, TRAIN, tmp_path, {"layouts": {"compiled": layout}}, timeout=300)["compiled"]
    assert_same_run(run, one_process["fp32"], steps=2)


def test_eight_processes_in_three_dimensions(tmp_path: Path, one_process: dict[str, Any]) -> None:
    layouts = {
        "fp32": {"tp": 2, "pp": 2},
        "bf16": {"tp": 2, "pp": 2, "precision": "bf16", "steps": 5},
    }
    runs = ranks(8, TRAIN, tmp_path, {"layouts": layouts}, timeout=240)
    assert_same_run(runs["fp32"], one_process["fp32"])
    # bfloat16 keeps 8 bits: sums in another order differ in the last of them.
    assert largest_difference(runs["bf16"]["loss"], one_process["bf16"]["loss"]) < 2**-8
