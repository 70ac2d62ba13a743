"""What a run folder says: a pure reading, into the object that ``status --json`` prints.

``stages[].state``: done | running | pending | failed | cancelled | incomplete | waiting. Where the queue does not
answer, a stage that was submitted and is not done is ``unknown``: a blind watcher must not look healthy.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hpc_llm.run import atomic, journal, lock, plan
from hpc_llm.run.folder import RunFolder
from hpc_llm.run.stage import Stage
from hpc_llm.slurm.rows import element_ids


@dataclass
class Jobs:
    """What Slurm says of a stage's jobs: ``{job id: raw state}`` of the live ones and of the ended ones."""

    live: dict[str, str] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)


def summary(folder: RunFolder, jobs: Mapping[str, Jobs] | None = None) -> dict[str, Any]:
    """The whole run as one JSON-able object.

    Parameters
    ----------
    jobs
        What the queue (and the accounting, where there is one) says of each stage; None when it was
        not asked or did not answer.
    """
    document = atomic.read_json(folder.plan)
    stages = plan.read(document)
    records = {stage.name: _records(folder, stage) for stage in stages}
    submitted = _submitted(folder)
    rows = [
        _stage(folder, stage, records[stage.name], submitted.get(stage.name, {}), jobs) for stage in stages
    ]
    training = _training(folder, document["settings"]["train"]["steps"])
    return {
        "run": str(folder.path),
        "state": _overall(rows),
        "failures": [_failure(folder, row["name"]) for row in rows if row["state"] == "failed"],
        "balanced": _balanced(stages, records),
        "documents": _documents(stages, records),
        "extra": _extra(records),
        "stages": rows,
        "training": training,
        "samples": _samples(folder),
    }


def _records(folder: RunFolder, stage: Stage) -> list[dict[str, Any]]:
    try:
        paths = sorted(path for path in folder.records(stage.name).iterdir() if path.suffix == ".json")
    except FileNotFoundError:
        return []
    try:
        return [atomic.read_json(path) for path in paths if not path.name.startswith(".")]
    except atomic.Damaged as error:
        raise atomic.Damaged(f"{error}. Remove it and launch again: the shard is done anew") from error


def _failure(folder: RunFolder, stage: str) -> dict[str, str]:
    """The newest log of a failed stage and the line of it that says most: an error, or the last one."""
    logs = [path for path in _visible(folder.logs(stage)) if path.suffix in (".log", ".out")]
    for path in sorted(logs, key=lambda path: path.stat().st_mtime, reverse=True):
        lines = [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if _ERROR.search(line)]
        if lines:
            return {"stage": stage, "log": str(path), "line": (errors or lines)[-1][:300]}
    return {"stage": stage, "log": str(folder.logs(stage)), "line": "no log was written"}


_ERROR = re.compile(r"error\b|not found|giving up|denied|Killed", re.IGNORECASE)


def _submitted(folder: RunFolder) -> dict[str, dict[str, str]]:
    """``{stage: {job id: token of its submission}}``, in the order of submission."""
    found: dict[str, dict[str, str]] = {}
    for event in journal.read(folder.journal):
        if event.get("event") in ("submitted", "started"):
            found.setdefault(event["stage"], {})[event.get("job", event["token"])] = event["token"]
    return found


def _stage(
    folder: RunFolder,
    stage: Stage,
    records: Sequence[dict[str, Any]],
    submitted: Mapping[str, str],
    jobs: Mapping[str, Jobs] | None,
) -> dict[str, Any]:
    mine = jobs.get(stage.name, Jobs()) if jobs is not None else Jobs()
    return {
        "name": stage.name,
        "kind": stage.kind,
        "state": _state(folder, stage, len(records), list(submitted), mine if jobs is not None else None),
        "shards": _shards(folder, stage, records, submitted, mine if jobs is not None else None),
        "job_ids": list(submitted),
        "job_states": {**mine.ended, **mine.live},
        "restarts": _restarts(folder, stage.name),
        "documents_in": sum(record["account"]["documents_in"] for record in records),
        "documents_out": sum(record["account"]["documents_out"] for record in records),
        "seconds": round(sum(record["seconds"] for record in records), 1),
    }


def _shards(
    folder: RunFolder,
    stage: Stage,
    records: Sequence[dict[str, Any]],
    submitted: Mapping[str, str],
    jobs: Jobs | None,
) -> dict[str, int]:
    """Done and total and, where the queue answered, running and failed.

    Failed are those of a submitted stage that are not done and that no job works on or waits to.
    """
    done = {record["shard"] for record in records}
    counts = {"done": len(done), "total": stage.shards}
    if jobs is None or not submitted:
        return counts
    running: set[int] = set()
    waiting: set[int] = set()
    for row, state in jobs.live.items():
        token = submitted[row.partition("_")[0]]
        elements = atomic.read_json(folder.submissions(stage.name) / f"{token}.json")["elements"]
        for job_id in element_ids(row):
            element = int(job_id.partition("_")[2] or 0)
            (waiting if state.startswith("PENDING") else running).update(elements[element])
    left = set(range(stage.shards)) - done
    counts["running"] = len(left & running)
    if not any(job.startswith("local-") for job in submitted):
        counts["failed"] = len(left - running - waiting)
    return counts


def _local_state(folder: RunFolder, stage: Stage) -> str:
    """Of a stage that a launcher on this machine began: it works on it, gave up on it, or was killed."""
    events = [event for event in journal.read(folder.journal) if event.get("stage") == stage.name]
    if events[-1]["event"] == "ended":
        return "failed"
    return "running" if lock.held(folder.lock) else "incomplete"


def _state(folder: RunFolder, stage: Stage, done: int, submitted: Sequence[str], jobs: Jobs | None) -> str:
    if done == stage.shards:
        return "done"
    if not submitted:
        return "waiting"
    if all(job.startswith("local-") for job in submitted):
        return _local_state(folder, stage)
    if jobs is None:
        return "unknown"
    if jobs.live:
        return (
            "running" if any(not state.startswith("PENDING") for state in jobs.live.values()) else "pending"
        )
    # Cancelled are those that a person stopped and those whose inputs were never made.
    ended = {state.partition(" ")[0].rstrip("+") for state in jobs.ended.values()}
    return "cancelled" if ended == {"CANCELLED"} else "failed"


def _restarts(folder: RunFolder, stage: str) -> int:
    """Starts beyond the first of each job element, from the events that the batch scripts write."""
    try:
        files = sorted(folder.events(stage).glob("*.jsonl"))
    except FileNotFoundError:
        return 0
    return sum(
        max(
            (int(event.get("restart", 0)) for event in journal.read(path) if event.get("event") == "start"),
            default=0,
        )
        for path in files
    )


def _overall(rows: Sequence[Mapping[str, Any]]) -> str:
    states = [row["state"] for row in rows]
    if all(state == "done" for state in states):
        return "done"
    return next(
        (s for s in ("failed", "cancelled", "unknown", "running", "pending", "incomplete") if s in states),
        "waiting",
    )


def _balanced(stages: Sequence[Stage], records: Mapping[str, list[dict[str, Any]]]) -> bool:
    """Each shard's account balances, and a finished stage took in what the finished stage before it let out."""
    for stage in stages:
        for record in records[stage.name]:
            account = record["account"]
            lost = sum(account["dropped"].values()) + len(account["quarantined"])
            if account["documents_in"] != account["documents_out"] + lost:
                return False
    return all(
        _total(records[before.name], "documents_out") == _total(records[after.name], "documents_in")
        for before, after in _document_flow(stages)
        if len(records[before.name]) == before.shards and len(records[after.name]) == after.shards
    )


# They read signatures, or only a sample of the documents.
_NOT_BY_DOCUMENT = ("minhash_match", "minhash_cluster", "exact_match", "tokenizer")


def _document_flow(stages: Sequence[Stage]) -> Iterator[tuple[Stage, Stage]]:
    """Pairs of stages of which the second reads every document that the first let out, shard by shard."""
    by_name = {stage.name: stage for stage in stages}
    for stage in stages:
        if stage.group == "data" and stage.inputs and stage.name not in _NOT_BY_DOCUMENT:
            yield by_name[stage.inputs[0]], stage


def _total(records: Sequence[dict[str, Any]], key: str) -> int:
    return sum(record["account"][key] for record in records)


def _documents(stages: Sequence[Stage], records: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    dropped: Counter[str] = Counter()
    quarantined: list[dict[str, Any]] = []
    notes: list[str] = []
    for stage in stages:
        for record in records[stage.name]:
            dropped.update(record["account"]["dropped"])
            quarantined += record["account"]["quarantined"]
            notes += record["account"].get("notes", [])
    last = next((stage for stage in reversed(stages) if stage.name == "tokenize"), stages[0])
    return {
        "in": _total(records[stages[0].name], "documents_in"),
        "kept": _total(records[last.name], "documents_out"),
        "bytes_in": _total(records[stages[0].name], "bytes_out"),
        "bytes_kept": _total(records[last.name], "bytes_in"),
        "dropped": dict(sorted(dropped.items())),
        "quarantined": len(quarantined),
        "quarantine": quarantined[:100],
        "notes": notes[:100],
    }


def _extra(records: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    total: Counter[str] = Counter()
    for rows in records.values():
        for record in rows:
            total.update({k: v for k, v in record["account"]["extra"].items() if isinstance(v, int | float)})
    return dict(total)


def _training(folder: RunFolder, steps: int) -> dict[str, Any] | None:
    """The last line for each step counts: after a crash, steps since the checkpoint are done again."""
    by_step = {
        event["step"]: event for event in journal.read(folder.metrics) if "loss" in event and "step" in event
    }
    if not by_step:
        return None
    first, last = by_step[min(by_step)], by_step[max(by_step)]
    recent = [by_step[step] for step in sorted(by_step)[-50:]]
    rates = sorted(event["tokens_per_s"] for event in recent)
    return {
        "step": last["step"],
        "steps": steps,
        "loss": last["loss"],
        "loss_first": first["loss"],
        "tokens": last["tokens"],
        "tokens_per_s": rates[len(rates) // 2],
        "restarts": last.get("restart", 0),
        "checkpoints": sorted(path.name for path in _visible(folder.checkpoints)),
    }


def _visible(path: Path) -> list[Path]:
    try:
        return [entry for entry in path.iterdir() if not entry.name.startswith(".")]
    except FileNotFoundError:
        return []


def _samples(folder: RunFolder) -> list[dict[str, Any]]:
    try:
        found = atomic.read_json(folder.export / "samples.json")
    except (FileNotFoundError, ValueError):
        return []
    return list(found)
