"""Keeps the account of a job's attempts and decides on the next. Called by the batch script, around the work:

    python -m hpc_llm.run.attempt start RUN_FOLDER STAGE SUBMISSION
    python -m hpc_llm.run.attempt end RUN_FOLDER STAGE SUBMISSION CODE

Appends to ``stages/STAGE/events/<token>_<element>.jsonl``, one file and one writer for each array element.
The policy is `hpc_llm.run.retry`. Exit codes: `hpc_llm.node.codes.GO_ON`, ``RESTART``, ``GIVE_UP``.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from hpc_llm.node import codes
from hpc_llm.run import atomic, journal, retry
from hpc_llm.run.folder import RunFolder


def marker(folder: RunFolder, stage: str, shards: list[int], gang: bool) -> str:
    """What this element has done: its completion records and, for training, the newest checkpoint."""
    done = sum(folder.record(stage, shard).exists() for shard in shards)
    newest = max((_step(entry.name) for entry in _entries(folder.checkpoints)), default=-1) if gang else -1
    return f"{done} shards" + (f", checkpoint {newest}" if newest >= 0 else "")


def start(folder: RunFolder, stage: str, submission: dict[str, Any]) -> int:
    """Account for the attempt that begins; GIVE_UP if those before it have used up a budget.

    A budget that the last ``end`` has already judged is not judged again: who starts the job after that
    has decided so. This is for attempts without an end, whose nodes died under them.
    """
    element, gang = _element()
    events = _events(folder, stage, submission, element)
    now = marker(folder, stage, submission["elements"][element], gang)
    history = retry.attempts(journal.read(events), _job())
    if history and history[-1].code is None:
        decision = retry.decide(history, now, _budget(submission))
        if decision.action is retry.Action.GIVE_UP:
            journal.append(
                events,
                {
                    "event": "end",
                    "job": _job(),
                    "code": codes.GIVE_UP,
                    "action": "give up",
                    "reason": decision.reason,
                },
            )
            print(f"hpc_llm: giving up: {decision.reason}", flush=True)
            return codes.GIVE_UP
    restart = int(os.environ.get("SLURM_RESTART_COUNT") or 0)
    nodes = os.environ.get("SLURM_JOB_NODELIST", "")
    journal.append(
        events, {"event": "start", "job": _job(), "restart": restart, "nodes": nodes, "marker": now}
    )
    print(f"hpc_llm: {stage} of {folder.path}, job {_job()} restart {restart} on {nodes}: {now}", flush=True)
    return codes.GO_ON


def end(folder: RunFolder, stage: str, submission: dict[str, Any], code: int) -> int:
    """Account for the attempt that ended with `code` and say what follows it."""
    element, gang = _element()
    events = _events(folder, stage, submission, element)
    now = marker(folder, stage, submission["elements"][element], gang)
    ended = {"event": "end", "job": _job(), "code": code}
    history = retry.attempts([*journal.read(events), ended], _job())
    decision = retry.decide(history, now, _budget(submission))
    journal.append(events, {**ended, "action": decision.action, "reason": decision.reason, "marker": now})
    print(f"hpc_llm: {decision.action}: {decision.reason}", flush=True)
    answers = {
        retry.Action.DONE: codes.GO_ON,
        retry.Action.RESTART: codes.RESTART,
        retry.Action.GIVE_UP: codes.GIVE_UP,
    }
    return answers[decision.action]


def _job() -> str:
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}" if array else os.environ["SLURM_JOB_ID"]


def _element() -> tuple[int, bool]:
    """The element of the submission, and whether it is a gang: gangs are submitted without an array."""
    text = os.environ.get("SLURM_ARRAY_TASK_ID")
    return (0, True) if text is None else (int(text), False)


def _events(folder: RunFolder, stage: str, submission: dict[str, Any], element: int) -> Path:
    return folder.events(stage) / f"{submission['token']}_{element}.jsonl"


def _budget(submission: dict[str, Any]) -> retry.Budget:
    restart = submission["restart"]
    return retry.Budget(int(restart["max_failures"]), int(restart["max_node_failures"]))


def _entries(folder: Path) -> list[Path]:
    try:
        return [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    except FileNotFoundError:
        return []


def _step(name: str) -> int:
    """The number that a checkpoint's name ends with; -1 for other files."""
    match = re.search(r"([0-9]+)$", name)
    return int(match.group(1)) if match else -1


def main(arguments: list[str]) -> int:
    if len(arguments) not in (4, 5) or (arguments[0], len(arguments)) not in (("start", 4), ("end", 5)):
        print(__doc__, file=sys.stderr)
        return codes.REFUSED
    folder, stage = RunFolder(arguments[1]), arguments[2]
    submission = atomic.read_json(Path(arguments[3]))
    if arguments[0] == "start":
        return start(folder, stage, submission)
    return end(folder, stage, submission, int(arguments[4]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
