"""Where a process stands among the others of its job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hpc_llm.slurm import nodelist


@dataclass(frozen=True)
class Context:
    rank: int = 0
    world: int = 1
    local_rank: int = 0  # among the processes of this node
    local_world: int = 1
    node: str = "localhost"  # Slurm's name of the node: several may share one host name
    nodes: tuple[str, ...] = ("localhost",)
    restart: int = 0  # how often the job has been requeued
    job: str | None = None  # 12, or 12_3 for an array element; None outside a job
    master_address: str = "127.0.0.1"
    master_port: int = 29500

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> Context:
        """From the variables of an srun task, of submitit's local executor, or of neither: one process.

        A shell inside a Slurm allocation is not a task: only SLURM_PROCID together with SLURM_STEP_ID,
        which srun sets, makes one.

        Raises
        ------
        ValueError
            A variable that must be a number is not one, or a rank lies outside its world.
        """
        if "SUBMITIT_LOCAL_GLOBALID" in environment or "SUBMITIT_LOCAL_JOB_ID" in environment:
            context = _submitit_local(environment)
        elif "SLURM_STEP_ID" in environment and "SLURM_PROCID" in environment:
            context = _srun_task(environment)
        else:
            return Context()
        for name, rank, world in (
            ("rank", context.rank, context.world),
            ("local rank", context.local_rank, context.local_world),
        ):
            if not 0 <= rank < world:
                raise ValueError(f"{name} {rank} is not below the number of processes, {world}")
        return context


def _srun_task(environment: Mapping[str, str]) -> Context:
    nodes = tuple(
        nodelist.expand(environment.get("SLURM_STEP_NODELIST") or environment["SLURM_JOB_NODELIST"])
    )
    job = environment["SLURM_JOB_ID"]
    if "SLURM_ARRAY_TASK_ID" in environment:
        job = f"{environment['SLURM_ARRAY_JOB_ID']}_{environment['SLURM_ARRAY_TASK_ID']}"
    node_rank = _number(environment, "SLURM_NODEID", 0)
    return Context(
        rank=_number(environment, "SLURM_PROCID", 0),
        world=_number(environment, "SLURM_STEP_NUM_TASKS", _number(environment, "SLURM_NTASKS", 1)),
        local_rank=_number(environment, "SLURM_LOCALID", 0),
        local_world=_tasks_on_node(environment, node_rank),
        node=environment.get("SLURMD_NODENAME", nodes[node_rank]),
        nodes=nodes,
        restart=_number(environment, "SLURM_RESTART_COUNT", 0),  # unset on the first run
        job=job,
        master_address=environment.get("MASTER_ADDR", nodes[0]),
        master_port=_number(environment, "MASTER_PORT", 29500),
    )


def _submitit_local(environment: Mapping[str, str]) -> Context:
    tasks = _number(environment, "SUBMITIT_LOCAL_NTASKS", 1)
    return Context(
        rank=_number(environment, "SUBMITIT_LOCAL_GLOBALID", 0),
        world=tasks,
        local_rank=_number(environment, "SUBMITIT_LOCAL_LOCALID", 0),
        local_world=tasks,  # the local executor has one node
        job=environment.get("SUBMITIT_LOCAL_JOB_ID"),
        master_address=environment.get("MASTER_ADDR", "127.0.0.1"),
        master_port=_number(environment, "MASTER_PORT", 29500),
    )


def _tasks_on_node(environment: Mapping[str, str], node_rank: int) -> int:
    """From ``2(x3),1``: two tasks on each of three nodes, then one (sbatch(1), SLURM_TASKS_PER_NODE)."""
    text = environment.get("SLURM_STEP_TASKS_PER_NODE") or environment.get("SLURM_TASKS_PER_NODE", "1")
    counts: list[int] = []
    for item in text.split(","):
        tasks, _, repeat = item.partition("(x")
        if not tasks.isdecimal() or not (repeat.removesuffix(")").isdecimal() or not repeat):
            raise ValueError(f"SLURM_STEP_TASKS_PER_NODE={text!r} is not a list such as 2(x3),1")
        counts += [int(tasks)] * int(repeat.removesuffix(")") or 1)
    if node_rank >= len(counts):
        raise ValueError(f"SLURM_NODEID={node_rank} is outside SLURM_STEP_TASKS_PER_NODE={text}")
    return counts[node_rank]


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "")
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name}={text!r} is not a number") from None
