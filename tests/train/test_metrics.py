"""Lines of metrics.jsonl survive a kill; losses are told exactly; operations are counted as published."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from hpc_llm.config.schema import ModelConfig
from hpc_llm.run.folder import RunFolder
from hpc_llm.run.journal import read
from hpc_llm.train.flops import flops_per_token, peak_flops
from hpc_llm.train.metrics import Recorder, StepMetrics, loss_hex


def step(number: int, restart: int = 0, validation: float | None = None) -> StepMetrics:
    return StepMetrics(
        step=number,
        loss=4.0 / number,
        lr=0.1,
        grad_norm=1.0,
        tokens=number * 100,
        tokens_per_s=50.0,
        mfu=0.4,
        mfu_causal=0.3,
        step_time_s=2.0,
        restart=restart,
        validation_loss=validation,
    )


def record(folder: RunFolder, restart: int, first: int, last: int) -> None:
    with Recorder(folder, torch.device("cpu"), restart, first - 1, 10, every=2) as recorder:
        for number in range(first, last + 1):
            recorder.record(step(number, restart, 3.5 if number == 4 else None))


def test_a_restart_appends_after_a_line_cut_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = RunFolder(tmp_path)
    record(folder, 0, 1, 3)
    with folder.metrics.open("ab") as file:
        file.write(b'{"step": 4, "lo')
    record(folder, 1, 3, 5)
    rows = list(read(folder.metrics))
    assert [(r["step"], r["restart"]) for r in rows] == [(1, 0), (2, 0), (3, 0), (3, 1), (4, 1), (5, 1)]
    assert [r.get("validation_loss") for r in rows[-2:]] == [3.5, None]
    assert float.fromhex(rows[2]["loss_hex"]) == torch.tensor(4.0 / 3).item()
    assert len([json.loads(line) for line in folder.metrics.read_text().splitlines() if line[-1] == "}"]) == 6
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in said] == ["2/10", "4/10"]


def test_tensorboard_holds_every_curve(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    record(folder, 2, 1, 4)
    events = EventAccumulator(str(folder.tensorboard(2))).Reload()
    assert set(events.Tags()["scalars"]) >= {
        "train/loss",
        "train/learning_rate",
        "train/gradient_norm",
        "speed/tokens_per_s",
        "speed/mfu",
        "system/cpu_percent",
        "system/memory_rss_gb",
        "validation/loss",
    }
    assert [e.step for e in events.Scalars("train/loss")] == [1, 2, 3, 4]


def test_loss_hex_tells_floats_apart_that_print_alike() -> None:
    a = torch.tensor(5.0)
    b = torch.nextafter(a, torch.tensor(6.0))
    assert loss_hex(a.item()) != loss_hex(b.item())
    assert float.fromhex(loss_hex(b.item())) == b.item()


def test_flops_of_a_model_counted_by_hand() -> None:
    config = ModelConfig(
        layers=2, hidden=8, heads=2, kv_heads=1, ffn_hidden=16, sequence_length=4, vocab_multiple=16
    )
    attention = 8 * 8 + 2 * 8 * 4 + 8 * 8  # q, k and v of one head of 4, o
    layer = attention + 3 * 8 * 16 + 2 * 8
    multiplied = 2 * layer + 8 + 32 * 8  # final norm, head over 30 ids padded to 32
    assert flops_per_token(config, 30) == 6 * multiplied + 12 * 2 * 8 * 4
    assert flops_per_token(config, 30, causal=True) == 6 * multiplied + 6 * 2 * 8 * 4


def test_a_cpu_is_measured_and_says_so() -> None:
    peak, source = peak_flops(torch.device("cpu"), "fp32")
    assert peak > 1e8 and "measured" in source
