"""What squeue, sacct and scontrol show job print, as rows. Pure.

Text formats with fields of our choosing, since Slurm's ``--json`` changes its schema with every release.
Job ids are texts: ``12`` or, for one element of an array, ``12_3``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hpc_llm.slurm.states import State, classify

SEPARATOR = "|"
# The name comes last: it alone may hold the separator.
QUEUE_FIELDS = ("JobArrayID", "State", "Reason", "StartTime", "EndTime", "RestartCnt", "NodeList", "Name")
ACCOUNTING_FIELDS = (
    "JobID",
    "State",
    "ExitCode",
    "Submit",
    "Start",
    "End",
    "ElapsedRaw",
    "NodeList",
    "JobName",
)


@dataclass(frozen=True)
class QueueRow:
    """One line of squeue: a job, one array element, or the elements of an array that still wait together."""

    job_id: str  # 12, 12_3, or 12_[3-9%2] while elements wait together
    state: State
    raw_state: str
    reason: str  # why it waits, as Slurm names it: Priority, Dependency, BeginTime ...
    start: str  # ISO 8601 local time, expected while it waits, or N/A
    end: str  # ISO 8601 local time by its time limit, or N/A
    restarts: int
    nodes: str  # a host list, empty while it waits
    name: str

    @property
    def ids(self) -> list[str]:
        """``12`` or ``12_3`` for each job that the row stands for."""
        return element_ids(self.job_id)


@dataclass(frozen=True)
class AccountingRow:
    """One line of sacct: one run of a job. A requeued job has a row for each of its runs, oldest first."""

    job_id: str
    state: State
    raw_state: str
    exit_code: int
    signal: int
    submit: str  # ISO 8601 local time, or Unknown
    start: str
    end: str
    elapsed_s: int
    nodes: str
    name: str

    @property
    def ids(self) -> list[str]:
        return element_ids(self.job_id)


def element_ids(job_id: str) -> list[str]:
    """``12_[3-9:2,11%2]`` as 12_3, 12_5, 12_7, 12_9, 12_11; any other id as itself."""
    match = re.fullmatch(r"([0-9]+)_\[([^\]]*)\]", job_id)
    if match is None:
        return [job_id]
    array, elements = match.groups()
    ids: list[str] = []
    for first, last, step in re.findall(r"([0-9]+)(?:-([0-9]+))?(?::([0-9]+))?", elements.partition("%")[0]):
        ids += [f"{array}_{i}" for i in range(int(first), int(last or first) + 1, int(step or 1))]
    return ids


def parse_queue(text: str) -> list[QueueRow]:
    """From ``squeue -h -O`` with `QUEUE_FIELDS`, each followed by the separator."""
    rows = []
    for line in text.splitlines():
        fields = line.split(SEPARATOR, len(QUEUE_FIELDS) - 1)
        if len(fields) != len(QUEUE_FIELDS):
            continue
        job_id, state, reason, start, end, restarts, nodes, name = fields
        rows.append(
            QueueRow(
                job_id=job_id.strip(),
                state=classify(state),
                raw_state=state.strip(),
                reason="" if reason == "None" else reason,
                start=start,
                end=end,
                restarts=int(restarts) if restarts.isdecimal() else 0,
                nodes=nodes,
                name=name.rstrip().removesuffix(SEPARATOR),
            )
        )
    return rows


def parse_accounting(text: str) -> list[AccountingRow]:
    """From ``sacct -n -P -X -D`` with `ACCOUNTING_FIELDS`."""
    rows = []
    for line in text.splitlines():
        fields = line.split(SEPARATOR, len(ACCOUNTING_FIELDS) - 1)
        if len(fields) != len(ACCOUNTING_FIELDS):
            continue
        job_id, state, code, submit, start, end, elapsed, nodes, name = fields
        exit_code, _, signal = code.partition(":")
        rows.append(
            AccountingRow(
                job_id=job_id.strip(),
                state=classify(state),
                raw_state=state.strip(),
                exit_code=int(exit_code) if exit_code.isdecimal() else 0,
                signal=int(signal) if signal.isdecimal() else 0,
                submit=submit,
                start=start,
                end=end,
                elapsed_s=int(elapsed) if elapsed.isdecimal() else 0,
                nodes="" if nodes == "None assigned" else nodes,
                name=name,
            )
        )
    return rows


def parse_job(text: str) -> dict[str, str]:
    """The first record of ``scontrol show job -o``; values may hold spaces.

    Where a value contains what looks like another ``Key=``, the first one of that key stands.
    """
    line = text.strip().partition("\n")[0]
    keys = list(re.finditer(r"(?:^|\s)([A-Z][A-Za-z0-9_/:]*)=", line))
    ends = [*(key.start() for key in keys), len(line)][1:]
    fields: dict[str, str] = {}
    for key, end in zip(keys, ends, strict=True):
        fields.setdefault(key.group(1), line[key.end() : end].strip())
    return fields
