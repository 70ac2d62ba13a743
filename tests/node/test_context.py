from __future__ import annotations

import pytest

from hpc_llm.node.context import Context

# Variables of `srun -N2 --ntasks-per-node=2` as Slurm 22.05.8 sets them for the last task.
TASK = {
    "SLURM_JOB_ID": "12",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_JOB_NODELIST": "n[1-3]",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "SLURM_NTASKS": "6",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURMD_NODENAME": "n2",
    "MASTER_ADDR": "n1",
    "MASTER_PORT": "20012",
}


def test_srun_task() -> None:
    assert Context.from_environment(TASK) == Context(
        rank=3,
        world=4,
        local_rank=1,
        local_world=2,
        node="n2",
        nodes=("n1", "n2"),
        restart=0,
        job="12",
        master_address="n1",
        master_port=20012,
    )


def test_array_element_and_restart() -> None:
    element = TASK | {"SLURM_ARRAY_JOB_ID": "9", "SLURM_ARRAY_TASK_ID": "0", "SLURM_RESTART_COUNT": "2"}
    context = Context.from_environment(element)
    assert (context.job, context.restart) == ("9_0", 2)


def test_uneven_nodes() -> None:
    uneven = TASK | {"SLURM_STEP_TASKS_PER_NODE": "3,1", "SLURM_LOCALID": "0"}
    assert Context.from_environment(uneven).local_world == 1


def test_one_process_outside_of_any_launcher_and_in_a_shell_of_an_allocation() -> None:
    assert Context.from_environment({}) == Context()
    assert Context.from_environment({"SLURM_JOB_ID": "1", "SLURM_NTASKS": "8"}) == Context()


def test_submitit_local_wins_over_an_allocation_around_it() -> None:
    local = {
        "SUBMITIT_LOCAL_NTASKS": "2",
        "SUBMITIT_LOCAL_GLOBALID": "1",
        "SUBMITIT_LOCAL_LOCALID": "1",
        "SUBMITIT_LOCAL_JOB_ID": "77",
        "MASTER_PORT": "4000",
    }
    context = Context.from_environment(TASK | local)
    assert (context.rank, context.world, context.local_rank, context.local_world) == (1, 2, 1, 2)
    assert (context.job, context.master_port, context.node) == ("77", 4000, "localhost")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"SLURM_PROCID": "x"}, "SLURM_PROCID='x'"),
        ({"SLURM_PROCID": "4"}, "rank 4"),
        ({"SLURM_LOCALID": "2"}, "local rank 2"),
        ({"SLURM_STEP_TASKS_PER_NODE": "two"}, "'two'"),
        ({"SLURM_STEP_TASKS_PER_NODE": "2"}, "SLURM_NODEID=1"),
    ],
)
def test_nonsense_is_named(changes: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Context.from_environment(TASK | changes)
