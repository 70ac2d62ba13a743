"""What a cluster allows, read from scontrol's and sinfo's text. Pure. Source: scontrol(1), slurm.conf(5).

Every field that an older or newer Slurm leaves out gets the default that slurm.conf(5) states.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hpc_llm.slurm import timefmt


@dataclass(frozen=True)
class ClusterLimits:
    cluster: str
    version: str  # as Slurm prints it, for example 22.05.8
    max_array_size: int  # one above the largest array *index*; 0: no arrays
    max_array_tasks: int  # most elements of one array
    max_job_count: int  # jobs the controller holds at once, each array element counted
    enforce_part_limits: str  # NO, ANY, ALL; with NO an impossible job pends for ever
    requeue_exit: frozenset[int]  # exit codes after which Slurm itself requeues
    requeue_exit_hold: frozenset[int]  # the same, then held
    job_requeue: bool  # jobs are requeued after a node failure unless they ask otherwise
    preempt_mode: str
    preempt_send_user_signal: bool  # --signal is sent at preemption too
    cred_expire_s: int  # a requeued job waits about this long before it is eligible again
    kill_invalid_depend: bool  # jobs whose dependency can never be met are cancelled
    kill_wait_s: int  # from SIGTERM at the time limit to SIGKILL
    min_job_age_s: int  # how long squeue still knows a job that has ended
    accounting: bool  # sacct has answers


@dataclass(frozen=True)
class Partition:
    name: str
    default: bool
    state: str  # UP, DOWN, DRAIN, INACTIVE; only UP starts jobs
    nodes: str  # a host list
    total_nodes: int
    total_cpus: int
    max_time_s: int | None  # None: no limit
    default_time_s: int | None  # of jobs that state none; None: max_time_s
    max_nodes: int | None  # in one job
    max_mem_per_node_mb: int | None
    grace_s: int  # from the choice to preempt to the kill
    preempt_mode: str
    priority_tier: int
    allow_accounts: tuple[str, ...] | None  # None: all
    allow_qos: tuple[str, ...] | None


@dataclass(frozen=True)
class NodeGroup:
    """Nodes of one partition that are alike."""

    partition: str
    count: int
    cpus: int  # of one node
    mem_mb: int  # of one node
    gpus: int  # of one node, of all types
    features: tuple[str, ...]
    state: str  # idle, mixed, allocated, down ... without Slurm's flag characters


def parse_config(text: str) -> ClusterLimits:
    """From ``scontrol show config``. Raises ValueError when the text is not that."""
    fields = dict(re.findall(r"^(\S+)\s*=[ ]?(.*?)\s*$", text, flags=re.MULTILINE))
    if "SLURM_VERSION" not in fields:
        raise ValueError(f"this is not the output of 'scontrol show config': {text[:200]!r}")
    max_array_size = _number(fields.get("MaxArraySize"), 1001)
    scheduler = _parameters(fields.get("SchedulerParameters"))
    return ClusterLimits(
        cluster=fields.get("ClusterName", ""),
        version=fields["SLURM_VERSION"],
        max_array_size=max_array_size,
        max_array_tasks=_number(scheduler.get("max_array_tasks"), max_array_size),
        max_job_count=_number(fields.get("MaxJobCount"), 10_000),
        enforce_part_limits=fields.get("EnforcePartLimits", "NO").upper(),
        requeue_exit=_codes(fields.get("RequeueExit")),
        requeue_exit_hold=_codes(fields.get("RequeueExitHold")),
        job_requeue=_number(fields.get("JobRequeue"), 1) != 0,
        preempt_mode=fields.get("PreemptMode", "OFF").upper(),
        preempt_send_user_signal="preempt_send_user_signal" in _parameters(fields.get("SlurmctldParameters")),
        cred_expire_s=_number(_parameters(fields.get("AuthInfo")).get("cred_expire"), 120),
        kill_invalid_depend=any(
            "kill_invalid_depend" in _parameters(fields.get(key))
            for key in ("DependencyParameters", "SchedulerParameters")  # moved between versions
        ),
        kill_wait_s=_number(fields.get("KillWait"), 30),
        min_job_age_s=_number(fields.get("MinJobAge"), 300),
        accounting=fields.get("AccountingStorageType", "").removeprefix("accounting_storage/")
        not in ("", "none", "(null)"),
    )


def parse_partitions(text: str) -> list[Partition]:
    """From ``scontrol show partition -o``, one partition a line."""
    partitions = []
    for line in text.splitlines():
        fields = dict(re.findall(r"(\S+?)=(\S*)", line))
        if "PartitionName" not in fields:
            continue
        partitions.append(
            Partition(
                name=fields["PartitionName"],
                default=fields.get("Default") == "YES",
                state=fields.get("State", "UNKNOWN"),
                nodes="" if fields.get("Nodes") in (None, "(null)") else fields["Nodes"],
                total_nodes=_number(fields.get("TotalNodes"), 0),
                total_cpus=_number(fields.get("TotalCPUs"), 0),
                max_time_s=_time(fields.get("MaxTime")),
                default_time_s=_time(fields.get("DefaultTime")),
                max_nodes=_limit(fields.get("MaxNodes")),
                max_mem_per_node_mb=_limit(fields.get("MaxMemPerNode")),
                grace_s=_number(fields.get("GraceTime"), 0),
                preempt_mode=fields.get("PreemptMode", "OFF"),
                priority_tier=_number(fields.get("PriorityTier"), 1),
                allow_accounts=_names(fields.get("AllowAccounts")),
                allow_qos=_names(fields.get("AllowQos")),
            )
        )
    return partitions


# Partition without its default mark, nodes, CPUs, megabytes, generic resources, features, state.
SINFO_FORMAT = "%R|%D|%c|%m|%G|%f|%T"


def parse_nodes(text: str) -> list[NodeGroup]:
    """From ``sinfo -h -e -o SINFO_FORMAT``."""
    groups = []
    for line in text.splitlines():
        fields = line.strip().split("|")
        if len(fields) != 7:
            continue
        partition, count, cpus, mem, gres, features, state = fields
        groups.append(
            NodeGroup(
                partition=partition,
                count=_number(count, 0),
                cpus=_number(cpus, 0),
                mem_mb=_number(mem, 0),
                gpus=sum(int(n) for n in re.findall(r"(?:^|,)gpu(?::[^:,()]+)?:([0-9]+)", gres)),
                features=() if features in ("(null)", "") else tuple(features.split(",")),
                state=re.sub(r"[^a-z].*", "", state.lower()),
            )
        )
    return groups


def _number(text: str | None, default: int) -> int:
    """The number that `text` starts with (Slurm appends units, or + to say at least)."""
    match = re.match(r"[0-9]+", text or "")
    return int(match.group()) if match else default


def _limit(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _time(text: str | None) -> int | None:
    return None if text in (None, "NONE", "") else timefmt.parse(text)


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text in (None, "ALL", "(null)") else tuple(text.split(","))


def _parameters(text: str | None) -> dict[str, str]:
    """``a=1,b`` as {a: "1", b: ""}; names in lower case."""
    pairs = (item.partition("=") for item in (text or "").split(",") if item and item != "(null)")
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _codes(text: str | None) -> frozenset[int]:
    """``1-9,18`` as a set of exit codes."""
    codes: set[int] = set()
    for first, last in re.findall(r"([0-9]+)(?:-([0-9]+))?", text or ""):
        codes.update(range(int(first), int(last or first) + 1))
    return frozenset(codes)
