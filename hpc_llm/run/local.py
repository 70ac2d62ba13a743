"""The graph on this machine: submitit's local executor, or in this process for debugging."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hpc_llm.config.schema import Config
from hpc_llm.run import journal, lock
from hpc_llm.run.preparation import Prepared
from hpc_llm.run.stage import Stage
from hpc_llm.run.submission import Submission
from hpc_llm.run.worker import LAUNCHER_VARIABLE, Payload, work
from hpc_llm.slurm import timefmt

# Called about five times a second with the stage and how many of its shards are done.
Progress = Callable[[Stage, int], None]


class StageFailed(Exception):
    """A stage ended with shards undone; the message holds what its log said last."""


def run(prepared: Prepared, code: Path, progress: Progress) -> None:
    """Work through the selected stages in order, each only over its unfinished shards.

    Raises
    ------
    StageFailed
        A shard failed. What is finished stays finished; launching again goes on from there.
    lock.Held
        Another launcher works on this run.
    """
    with lock.hold(prepared.folder.lock):
        _run(prepared, code, progress)


def _run(prepared: Prepared, code: Path, progress: Progress) -> None:
    for stage in prepared.selected:
        todo = prepared.unfinished(stage)
        if todo:
            submission = _deal(prepared, stage, todo, code)
            path = submission.write(prepared.folder)
            event = {"stage": stage.name, "token": submission.token}
            journal.append(prepared.folder.journal, {"event": "started", **event})
            if prepared.config.cluster.executor == "debug":
                _in_process(prepared, stage, submission, path)
            else:
                _submitit(prepared, stage, submission, path, progress)
            left = prepared.unfinished(stage)
            journal.append(prepared.folder.journal, {"event": "ended", **event, "unfinished": len(left)})
            if left:
                raise StageFailed(_explain(prepared, stage, left))
        progress(stage, stage.shards)


def _deal(prepared: Prepared, stage: Stage, todo: list[int], code: Path) -> Submission:
    """As many elements as run at once, so that each process starts only once."""
    elements = min(len(todo), _parallel(prepared))
    return Submission(
        stage=stage.name,
        token=f"local-{os.getpid()}-{time.time_ns():x}",
        elements=tuple(tuple(todo[first::elements]) for first in range(elements)),
        code=str(code),
        restart={},
    )


def _parallel(prepared: Prepared) -> int:
    array = prepared.config.cluster.array
    return array.parallel or max(len(os.sched_getaffinity(0)) // array.cpus, 1)


def _in_process(prepared: Prepared, stage: Stage, submission: Submission, path: Path) -> None:
    for element in range(len(submission.elements)):
        work(Payload(str(prepared.folder.path), stage.name, str(path), element))


def _submitit(
    prepared: Prepared, stage: Stage, submission: Submission, path: Path, progress: Progress
) -> None:
    import submitit

    config = prepared.config
    gang = stage.kind == "gang"
    resources = config.cluster.train if gang else config.cluster.array
    limit = timefmt.parse(resources.time)
    tasks = config.parallel.tasks_per_node if gang else 1
    executor = submitit.LocalExecutor(folder=prepared.folder.logs(stage.name))
    executor.update_parameters(
        timeout_min=(limit if limit is not None else 10**9) / 60,
        tasks_per_node=tasks,
        gpus_per_node=_gpus(config.cluster.train.gpus_per_node, config.train.device, tasks) if gang else 0,
        stderr_to_stdout=True,
    )
    environment = {
        **config.cluster.environment,
        "PYTHONPATH": submission.code,
        "PYTHONSAFEPATH": "1",  # or the working directory would come before the snapshot
        "OMP_NUM_THREADS": str(_threads(config, tasks) if gang else config.cluster.array.cpus),
        LAUNCHER_VARIABLE: str(os.getpid()),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
    }
    jobs = []
    try:
        with _environment(environment):
            for element in range(len(submission.elements)):
                payload = Payload(str(prepared.folder.path), stage.name, str(path), element)
                jobs.append(executor.submit(payload))
        while not all(job.done() for job in jobs):
            progress(stage, stage.shards - len(prepared.unfinished(stage)))
            time.sleep(0.2)
    except BaseException:
        for job in jobs:
            job.cancel(check=False)
        raise


def _threads(config: Config, tasks: int) -> int:
    """Training ranks share the machine's cores."""
    return max(config.cluster.train.cpus_per_task, len(os.sched_getaffinity(0)) // tasks)


def _gpus(asked: int, device: str, tasks: int) -> int:
    if asked or device == "cpu":
        return asked
    return min(len(list(Path("/proc/driver/nvidia/gpus").glob("*"))), tasks)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    """submitit's controller inherits this process's environment and has no parameter for it."""
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _explain(prepared: Prepared, stage: Stage, left: list[int]) -> str:
    logs = sorted(prepared.folder.logs(stage.name).glob("*_log.out"), key=lambda path: path.stat().st_mtime)
    lines = [line for path in logs[-4:] for line in path.read_text(errors="replace").splitlines()]
    errors = [line for line in lines if "error: " in line] or [line for line in lines if line.strip()][-8:]
    shards = ", ".join(map(str, left[:8])) + (" ..." if len(left) > 8 else "")
    said = "\n".join(f"  {line}" for line in errors[-8:])
    return f"stage {stage.name}: shards {shards} failed\n{said}\nlogs: {prepared.folder.logs(stage.name)}"
