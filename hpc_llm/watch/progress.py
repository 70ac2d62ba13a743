"""Live progress of a local run: one line that redraws itself on a terminal, sparse lines in a log."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

from hpc_llm.run import journal
from hpc_llm.run.folder import RunFolder
from hpc_llm.run.stage import Stage
from hpc_llm.watch import tables

LOG_EVERY_S = 10.0


class Progress:
    def __init__(
        self, folder: RunFolder, stages: list[Stage], steps: int, stream: TextIO | None = None
    ) -> None:
        self._folder = folder
        self._number = {stage.name: i for i, stage in enumerate(stages, 1)}
        self._steps = steps
        self._stream = stream or sys.stdout
        self._live = self._stream.isatty()
        self._stage = ""
        self._ended = ""
        self._started = self._printed = 0.0

    def __call__(self, stage: Stage, done: int) -> None:
        now = time.monotonic()
        if stage.name != self._stage:
            self._stage, self._started, self._printed = stage.name, now, now
        if stage.name == self._ended:
            return
        finished = done == stage.shards
        self._ended = stage.name if finished else ""
        if not finished and not self._live and now - self._printed < LOG_EVERY_S:
            return
        self._printed = now
        took = tables.duration(now - self._started)
        number = f"[{self._number[stage.name]:2}/{len(self._number)}]"
        text = f"{number} {stage.name:<16} {self._detail(stage, done)}  {took}"
        if self._live:
            width = shutil.get_terminal_size().columns
            self._stream.write("\r\x1b[K" + text[: width - 1] + ("\n" if finished else ""))
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def _detail(self, stage: Stage, done: int) -> str:
        if stage.kind != "gang" or done == stage.shards:
            return f"{done}/{stage.shards} shards"
        last = _last(self._folder)
        if last is None:
            return "starting"
        left = (self._steps - last["step"]) * last.get("step_time_s", 0.0)
        return (
            f"step {last['step']}/{self._steps}  loss {last['loss']:.3f}  "
            f"{last['tokens_per_s']:,.0f} tokens/s  {tables.duration(left)} left"
        )


def _last(folder: RunFolder) -> dict[str, float] | None:
    last = None
    for event in journal.read(folder.metrics):
        if "loss" in event and "step" in event:
            last = event
    return last
