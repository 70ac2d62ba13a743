"""What the run tells about itself: metrics.jsonl, TensorBoard, and a line on standard output."""

from __future__ import annotations

import json
import struct
import time
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import BinaryIO

import psutil
import torch
from torch.utils.tensorboard import SummaryWriter

from hpc_llm.run.folder import RunFolder


@dataclass(frozen=True)
class StepMetrics:
    """One optimizer step, the same on every rank; the keys of a line in metrics.jsonl."""

    step: int
    loss: float  # mean negative log likelihood of the step's tokens, nats
    lr: float
    grad_norm: float  # before clipping
    tokens: int  # predicted since the start of the run
    tokens_per_s: float  # over all ranks, this step
    mfu: float  # share of peak FLOP/s, whole attention matrix counted
    mfu_causal: float  # the same, half of it counted
    step_time_s: float
    restart: int
    validation_loss: float | None = None


def loss_hex(loss: float) -> str:
    """The float32 loss, exactly: equal text means equal bits."""
    return float.hex(struct.unpack("f", struct.pack("f", loss))[0])


class Recorder:
    """Writes the metrics of one rank; a context manager.

    `restart` counts the starts of the job before this one; `steps` is the last step of training; from
    `step` on, what TensorBoard has seen in an earlier attempt of the same restart is purged.
    """

    def __init__(
        self, folder: RunFolder, device: torch.device, restart: int, step: int, steps: int, every: int
    ) -> None:
        self._device, self._steps, self._every = device, steps, every
        folder.metrics.parent.mkdir(parents=True, exist_ok=True)
        self._file = folder.metrics.open("a+b")
        _end_line(self._file)
        self._board = SummaryWriter(str(folder.tensorboard(restart)), purge_step=step + 1)
        self._process = psutil.Process()
        self._process.cpu_percent()  # the first call only sets the start of the interval
        self._first: tuple[int, float] | None = None

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._board.close()

    def record(self, metrics: StepMetrics) -> None:
        now = time.time()
        row = {k: v for k, v in asdict(metrics).items() if v is not None}
        row |= {"loss_hex": loss_hex(metrics.loss), "time": now}
        self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()
        self._scalars(metrics)
        if metrics.step % self._every == 0 or metrics.step == self._steps:
            print(self._line(metrics, now), flush=True)

    def _scalars(self, m: StepMetrics) -> None:
        memory = psutil.virtual_memory()
        values = {
            "train/loss": m.loss,
            "train/learning_rate": m.lr,
            "train/gradient_norm": m.grad_norm,
            "speed/tokens_per_s": m.tokens_per_s,
            "speed/step_time_s": m.step_time_s,
            "speed/mfu": m.mfu,
            "speed/mfu_causal": m.mfu_causal,
            "system/cpu_percent": self._process.cpu_percent(),
            "system/memory_rss_gb": self._process.memory_info().rss / 1e9,
            "system/host_memory_percent": memory.percent,
        }
        if m.validation_loss is not None:
            values["validation/loss"] = m.validation_loss
        if self._device.type == "cuda":
            values["system/device_memory_gb"] = torch.cuda.max_memory_allocated(self._device) / 1e9
        for name, value in values.items():
            self._board.add_scalar(name, value, m.step)

    def _line(self, m: StepMetrics, now: float) -> str:
        self._first = self._first or (m.step, now)
        done = m.step - self._first[0]
        pace = (now - self._first[1]) / done if done else m.step_time_s
        left = int(pace * (self._steps - m.step))
        validation = f"  validation {m.validation_loss:.4f}" if m.validation_loss is not None else ""
        return (
            f"step {m.step}/{self._steps}  loss {m.loss:.4f}{validation}  lr {m.lr:.2e}  "
            f"grad norm {m.grad_norm:.3f}  {m.tokens_per_s:,.0f} tokens/s  MFU {m.mfu:.1%}  "
            f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d} left"
        )


def _end_line(file: BinaryIO) -> None:
    """A process killed while it wrote may have left half a line: do not continue it."""
    if file.tell():
        file.seek(-1, 2)
        if file.read(1) != b"\n":
            file.write(b"\n")
