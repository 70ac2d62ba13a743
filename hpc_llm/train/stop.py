"""Stopping on request: Slurm's warning before the time limit, or before preemption."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Any

from hpc_llm.node import codes

_SIGNALS = (signal.SIGUSR2, signal.SIGTERM)


class Stopped(SystemExit):
    """The run stopped at a step boundary as it was asked to, and its checkpoint is published."""

    def __init__(self) -> None:
        super().__init__(codes.STOPPED)


class StopRequest:
    """A flag that SIGUSR2 and SIGTERM set while the block runs; they do nothing else.

    Importable without torch, so that it is in place before the long imports begin.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        self._before = {s: signal.signal(s, self) for s in _SIGNALS}
        # A handler of the same kind may have been asked already, before this one took its place.
        self.requested |= any(getattr(h, "requested", False) for h in self._before.values())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
