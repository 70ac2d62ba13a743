from __future__ import annotations

import pytest

from hpc_llm.slurm import limits

# Lines of Slurm 22.05.8; the second text has what other sites set, and lacks what older versions lack.
CONFIG = """\
Configuration data as of 2026-12-01T17:30:28
AccountingStorageType   = accounting_storage/slurmdbd
AuthInfo                = socket=/run/x,cred_expire=5
ClusterName             = mini
DependencyParameters    = (null)
EnforcePartLimits       = ALL
JobRequeue              = 1
KillWait                = 5 sec
MaxArraySize            = 11
MaxJobCount             = 10000
MinJobAge               = 3600 sec
PowerPlugin             =
PreemptMode             = REQUEUE
RequeueExit             = (null)
RequeueExitHold         = (null)
SchedulerParameters     = sched_interval=1,batch_sched_delay=0
SlurmctldHost[0]        = vm(127.0.0.1)
SlurmctldParameters     = preempt_send_user_signal
SLURM_VERSION           = 22.05.8
"""
OTHER = """\
AccountingStorageType   = accounting_storage/none
AuthInfo                = (null)
DependencyParameters    = kill_invalid_depend
MaxArraySize            = 4001
RequeueExit             = 1-3,18
RequeueExitHold         = 99
SchedulerParameters     = bf_max_job_test=100,max_array_tasks=500
SlurmctldParameters     = (null)
SLURM_VERSION           = 24.11.1
"""


def test_config() -> None:
    found = limits.parse_config(CONFIG)
    assert found == limits.ClusterLimits(
        cluster="mini",
        version="22.05.8",
        max_array_size=11,
        max_array_tasks=11,
        max_job_count=10_000,
        enforce_part_limits="ALL",
        requeue_exit=frozenset(),
        requeue_exit_hold=frozenset(),
        job_requeue=True,
        preempt_mode="REQUEUE",
        preempt_send_user_signal=True,
        cred_expire_s=5,
        kill_invalid_depend=False,
        kill_wait_s=5,
        min_job_age_s=3_600,
        accounting=True,
    )


def test_config_of_another_site_and_the_stated_defaults() -> None:
    found = limits.parse_config(OTHER)
    assert (found.max_array_size, found.max_array_tasks) == (4001, 500)
    assert found.requeue_exit == {1, 2, 3, 18}
    assert found.requeue_exit_hold == {99}
    assert found.cred_expire_s == 120
    assert found.kill_invalid_depend
    assert not found.preempt_send_user_signal
    assert not found.accounting
    assert found.enforce_part_limits == "NO"


def test_other_text_is_not_taken_for_a_config() -> None:
    with pytest.raises(ValueError, match="scontrol show config"):
        limits.parse_config("slurm_load_ctl_conf error: Unable to contact slurm controller")


def test_partitions() -> None:
    text = (
        "PartitionName=batch AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL Default=YES DefaultTime=NONE "
        "GraceTime=10 MaxNodes=UNLIMITED MaxTime=1-00:00:00 Nodes=n[1-4] PriorityTier=1 PreemptMode=REQUEUE "
        "State=UP TotalCPUs=32 TotalNodes=4 MaxMemPerNode=UNLIMITED TRES=cpu=32,mem=32000M\n"
        "PartitionName=old AllowAccounts=a,b Default=NO DefaultTime=01:00:00 MaxNodes=2 MaxTime=UNLIMITED "
        "Nodes=(null) State=DOWN TotalCPUs=0 TotalNodes=0 MaxMemPerNode=4000\n"
    )
    batch, old = limits.parse_partitions(text)
    assert (batch.name, batch.default, batch.state, batch.nodes) == ("batch", True, "UP", "n[1-4]")
    assert (batch.max_time_s, batch.default_time_s, batch.max_nodes) == (86_400, None, None)
    assert (batch.grace_s, batch.total_nodes, batch.total_cpus) == (10, 4, 32)
    assert batch.allow_accounts is None
    assert (old.default, old.state, old.nodes, old.max_time_s) == (False, "DOWN", "", None)
    assert (old.default_time_s, old.max_nodes, old.max_mem_per_node_mb) == (3_600, 2, 4_000)
    assert old.allow_accounts == ("a", "b")


def test_nodes() -> None:
    text = (
        "batch|4|8|8000|gpu:4|(null)|idle\n"
        "gpu|2|128+|1000000+|gpu:h100:4(S:0-1),gpu:a100:2,nic:8|ib,hbm|mixed*\n"
        "down|1|8|8000|(null)||down$\n"
    )
    batch, gpu, down = limits.parse_nodes(text)
    assert (batch.count, batch.cpus, batch.mem_mb, batch.gpus, batch.state) == (4, 8, 8_000, 4, "idle")
    assert (gpu.cpus, gpu.gpus, gpu.features, gpu.state) == (128, 6, ("ib", "hbm"), "mixed")
    assert (down.gpus, down.state) == (0, "down")
