"""Whether a job is restarted: three budgets over the events of its attempts. Pure.

* Preemption or another requeue of Slurm's own, and a time limit whose warning was obeyed: free, without end.
* A node that died under the job: `max_node_failures` in a row.
* A failure of the work itself: `max_failures` restarts in a row.

"In a row" means without progress in between: a new completion record or checkpoint empties both budgets,
since a run that moves is worth restarting and one that does not is not.

The one caller is `hpc_llm.run.attempt`, at the end of the batch script. It appends these events:

``start``    before the work: job, restart, node, marker (what is done so far)
``signal``   written by the script's trap the moment Slurm warns: window, which is squeue's
             ``state|start|end|limit`` of the job: see `at_limit`
``stopped``  the same, when the work says that it was asked to stop and the script was not
``end``      after the work: code, action, reason

An attempt is a ``start`` and what follows it. Without an ``end`` it was cut down: by Slurm if there was a
``signal``, by its node otherwise. The start is thus a failure until something better is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from hpc_llm.node import codes
from hpc_llm.slurm import timefmt


@dataclass(frozen=True)
class Budget:
    max_failures: int
    max_node_failures: int


class Action(StrEnum):
    DONE = "done"
    RESTART = "restart"
    GIVE_UP = "give up"


@dataclass(frozen=True)
class Decision:
    action: Action
    reason: str


@dataclass(frozen=True)
class Attempt:
    marker: str  # what was done when it started
    nodes: str
    code: int | None = None  # None: no end was written
    signalled: bool = False
    at_limit: bool = False  # the signal came for the time limit, not for a preemption
    gave_up: bool = False  # a later start is a person's decision


def attempts(events: Iterable[Mapping[str, Any]], job: str) -> list[Attempt]:
    """The attempts of one job id, oldest first. Another id is another submission, with budgets of its own."""
    found: list[Attempt] = []
    for event in events:
        if event.get("job") != job:
            continue
        kind = event.get("event")
        if kind == "start":
            found.append(Attempt(marker=str(event["marker"]), nodes=str(event.get("nodes", ""))))
        elif found and kind == "signal":
            # The first signal says why; what follows is its consequence. After the end it changed nothing.
            if found[-1].code is None and not found[-1].signalled:
                found[-1] = replace(
                    found[-1], signalled=True, at_limit=at_limit(str(event.get("window", "")))
                )
        elif found and kind == "stopped":
            # Only the step was told, if Slurm has another end in mind than the limit; otherwise nobody was.
            found[-1] = replace(found[-1], signalled=not at_limit(str(event.get("window", ""))))
        elif found and kind == "end":
            gave_up = event.get("action") == Action.GIVE_UP
            found[-1] = replace(found[-1], code=int(event["code"]), gave_up=gave_up)
    return found


def decide(history: Sequence[Attempt], marker: str, budget: Budget) -> Decision:
    """What follows the last attempt of `history`.

    Parameters
    ----------
    marker
        What is done now; an attempt made progress if the next one started from another marker.
    """
    failures = node_failures = 0
    decision = Decision(Action.RESTART, "first start")
    followers = [attempt.marker for attempt in history[1:]] + [marker]
    for attempt, after in zip(history, followers, strict=True):
        progressed = attempt.marker != after
        if progressed:
            failures = node_failures = 0
        if attempt.code == codes.DONE:
            decision = Decision(Action.DONE, "done")
        elif attempt.code == codes.REFUSED:
            decision = Decision(Action.GIVE_UP, "the work was refused; a restart would say the same")
        elif _free(attempt, progressed):
            why = "warned of its time limit" if attempt.at_limit else "preempted, or asked to stop"
            decision = Decision(Action.RESTART, why)
        elif attempt.code is None and not attempt.signalled:
            node_failures += 1
            decision = _within(node_failures, budget.max_node_failures, f"lost its node ({attempt.nodes})")
        else:
            failures += 1
            decision = _within(failures, budget.max_failures, _what_failed(attempt))
        if attempt.gave_up:
            failures = node_failures = 0
    return decision


def _free(attempt: Attempt, progressed: bool) -> bool:
    if attempt.code == codes.STOPPED:
        # A stop that nobody asked for must not go round for ever.
        return attempt.signalled or progressed
    # Cut down before it could obey. At a time limit without progress, every restart would end like this.
    return attempt.signalled and (progressed or not attempt.at_limit)


def _within(count: int, most: int, what: str) -> Decision:
    row = f"{count} in a row without a new checkpoint or shard, {most} restarts allowed"
    return Decision(Action.RESTART if count <= most else Action.GIVE_UP, f"{what}: {row}")


def _what_failed(attempt: Attempt) -> str:
    if attempt.at_limit:
        return "its time limit is too short for one shard or checkpoint"
    if attempt.code is not None and attempt.code > 128:
        return f"killed by signal {attempt.code - 128} on {attempt.nodes}"
    return f"exit code {attempt.code} on {attempt.nodes}"


def at_limit(window: str) -> bool:
    """Whether a signal announced the time limit, from squeue's ``state|start|end|limit`` at that moment.

    At a preemption Slurm moves the end forward. A job that no longer runs by the time its script is told to
    end was requeued by Slurm (preempted without grace, or its node set down), or else it will not be back.
    An unreadable window counts as the limit: then only restarts with progress are free.
    """
    try:
        state, start, end, limit = window.split("|")
        if state != "RUNNING":
            return False
        limit_s = timefmt.parse(limit)
        lasts_s = (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
    except ValueError:
        return True
    return limit_s is not None and lasts_s >= limit_s
