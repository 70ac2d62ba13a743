"""The process that does the work of one array element, or of one rank of a gang.

    python -m hpc_llm.run.worker RUN_FOLDER STAGE SUBMISSION [ELEMENT]

ELEMENT defaults to SLURM_ARRAY_TASK_ID, then to 0. Exit codes: `hpc_llm.node.codes`.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from hpc_llm.node import codes
from hpc_llm.node import local as node_local
from hpc_llm.node.context import Context
from hpc_llm.run import atomic, plan
from hpc_llm.run.folder import RunFolder
from hpc_llm.run.shard import Shard
from hpc_llm.run.submission import Submission

LAUNCHER_VARIABLE = "HPC_LLM_LAUNCHER"  # process id of the launcher that a local worker must not outlive


@dataclass(frozen=True)
class Payload:
    """What submitit carries: names, never a closure."""

    run: str
    stage: str
    submission: str
    element: int

    def __call__(self) -> int:
        """Do the work; the process ends with the exit code, whatever submitit would make of a result."""
        _end_with(int(os.environ[LAUNCHER_VARIABLE]))
        code = work(self)
        if code:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        return code


def _end_with(launcher: int) -> None:
    """End this process soon after `launcher` has: a relaunch would start a second trainer beside this one."""

    def watch() -> None:
        while Path(f"/proc/{launcher}").exists():
            time.sleep(0.5)
        os._exit(codes.FAILED)

    threading.Thread(target=watch, daemon=True).start()


class _StopFlag:
    """Set by SIGUSR2 and SIGTERM; looked at between shards. A gang's own handler replaces it."""

    def __init__(self) -> None:
        self.requested = False
        for number in (signal.SIGUSR2, signal.SIGTERM):
            signal.signal(number, self)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.requested = True


def work(payload: Payload) -> int:
    """Work through the element's unfinished shards; returns the exit code."""
    stop = _StopFlag()
    folder = RunFolder(payload.run)
    submission = Submission.read(Path(payload.submission))
    node_local.prepare(Path(submission.code))
    config = _config(folder)
    stages = {stage.name: stage for stage in plan.read(atomic.read_json(folder.plan))}
    stage = stages[payload.stage]
    rank = Context.from_environment(os.environ).rank if stage.kind == "gang" else 0
    module, _, function = stage.work.partition(":")
    run = None
    for index in submission.elements[payload.element]:
        if folder.record(stage.name, index).exists():
            continue
        if stop.requested:
            _say(f"{stage.name}: asked to stop; shards from {index} on are left for the restart")
            return codes.STOPPED
        started = time.time()
        shard = Shard(folder, config, stages, stage, index)
        try:
            shard.check_inputs()
            run = run or getattr(importlib.import_module(module), function)
            run(shard)
            if rank == 0:
                shard.finish()
        except (ValueError, OSError) as error:
            _say(f"error: {stage.name} shard {index}: {error}")
            if os.environ.get("HPC_LLM_TRACEBACK"):
                traceback.print_exc()
            return codes.FAILED
        account = shard.account
        if rank == 0:
            _say(
                f"{stage.name} shard {index}: {account.documents_in} documents in, {account.documents_out} out, "
                f"{len(account.quarantined)} quarantined, {time.time() - started:.1f} s"
            )
    return codes.DONE


def _config(folder: RunFolder):  # type: ignore[no-untyped-def]
    from omegaconf import OmegaConf

    from hpc_llm.config.schema import Config

    return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(Config), OmegaConf.load(folder.config)))


def _say(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)


def main(arguments: list[str]) -> int:
    if len(arguments) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return codes.REFUSED
    run, stage, submission = arguments[:3]
    element = int(arguments[3] if len(arguments) == 4 else os.environ.get("SLURM_ARRAY_TASK_ID", "0"))
    try:
        return work(Payload(run, stage, submission, element))
    finally:
        # The batch script signals until the step has ended, and srun ends the slower ranks with TERM. Handlers
        # do not outlive the interpreter's shutdown, and the default action would replace the exit code.
        for number in (signal.SIGUSR2, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
