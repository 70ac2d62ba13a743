"""What a Slurm job state means to us. Source: squeue(1), JOB STATE CODES; sacct(1), JOB STATE CODES."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    PENDING = "pending"  # will run or run again without our doing
    RUNNING = "running"  # has its nodes
    DONE = "done"
    PREEMPTED = "preempted"  # ended by a job of higher priority
    NODE_FAILED = "node failed"  # ended by the cluster, through no fault of the job
    TIMEOUT = "timeout"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"  # a word this version of Slurm has and we do not know: never taken for an end

    @property
    def ended(self) -> bool:
        return self not in (State.PENDING, State.RUNNING, State.UNKNOWN)


_STATES = {
    "PENDING": State.PENDING,
    "REQUEUED": State.PENDING,
    "REQUEUE_FED": State.PENDING,
    "REQUEUE_HOLD": State.PENDING,
    "RESV_DEL_HOLD": State.PENDING,
    "SPECIAL_EXIT": State.PENDING,
    "CONFIGURING": State.RUNNING,
    "POWER_UP_NODE": State.RUNNING,
    "RUNNING": State.RUNNING,
    "COMPLETING": State.RUNNING,
    "RESIZING": State.RUNNING,
    "SIGNALING": State.RUNNING,
    "STAGE_OUT": State.RUNNING,
    "STOPPED": State.RUNNING,
    "SUSPENDED": State.RUNNING,
    "COMPLETED": State.DONE,
    "PREEMPTED": State.PREEMPTED,
    "NODE_FAIL": State.NODE_FAILED,
    "BOOT_FAIL": State.NODE_FAILED,
    "LAUNCH_FAILED": State.NODE_FAILED,
    "RECONFIG_FAIL": State.NODE_FAILED,
    "TIMEOUT": State.TIMEOUT,
    "DEADLINE": State.TIMEOUT,
    "FAILED": State.FAILED,
    "OUT_OF_MEMORY": State.FAILED,
    "CANCELLED": State.CANCELLED,
    "REVOKED": State.CANCELLED,
}


def classify(raw: str) -> State:
    """Any state text of squeue, sacct or scontrol, ``CANCELLED by 1000`` and the cut-off ``CANCELLED+``
    included. Never raises: what is not understood, or is cut off to where it is ambiguous, is UNKNOWN.
    """
    words = raw.strip().upper().split()
    if not words:
        return State.UNKNOWN
    word = words[0]
    if word.endswith("+"):
        matches = {state for name, state in _STATES.items() if word != "+" and name.startswith(word[:-1])}
        return matches.pop() if len(matches) == 1 else State.UNKNOWN
    return _STATES.get(word, State.UNKNOWN)
