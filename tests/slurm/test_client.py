"""The client against a real controller and a real accounting database."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest
from conftest import MAX_ARRAY_SIZE, mini_slurm, until

from hpc_llm.slurm import nodelist
from hpc_llm.slurm.client import Client, SlurmError
from hpc_llm.slurm.states import State


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "job.sh"
    path.write_text('#!/bin/bash\n#SBATCH --output=/dev/null --time=5\nsleep "${1:-0}"\n')
    return path


def test_limits_partitions_and_nodes(cluster: Client) -> None:
    limits = cluster.config()
    assert limits.max_array_size == MAX_ARRAY_SIZE
    assert limits.enforce_part_limits == "ALL"
    assert limits.preempt_send_user_signal and limits.accounting
    batch, urgent = sorted(cluster.partitions(), key=lambda partition: partition.name)
    assert (batch.name, batch.default, batch.max_time_s, batch.grace_s) == ("batch", True, 86_400, 10)
    assert urgent.priority_tier > batch.priority_tier
    assert {(group.cpus, group.mem_mb, group.gpus) for group in cluster.nodes()} == {(8, 8_000, 4)}


def test_an_array_in_queue_and_accounting(cluster: Client, script: Path) -> None:
    job = cluster.submit(script, ["300"], ["--array=0-9%2", "--job-name=a b|c"])
    until(lambda: sum(row.state is State.RUNNING for row in cluster.queue([job])) == 2, "two elements")
    rows = cluster.queue([job])
    assert sorted(i for row in rows for i in row.ids) == [f"{job}_{i}" for i in range(10)]
    assert {row.name for row in rows} == {"a b|c"}
    assert len(cluster.queue(name="a b|c")) == len(rows)
    cluster.cancel([job, "99999"])
    until(lambda: all(row.state is State.CANCELLED for row in cluster.queue([job])), "the cancellation")
    until(lambda: {row.state for row in cluster.accounting([job]) or []} == {State.CANCELLED}, "accounting")


def test_unknown_jobs_are_no_error(cluster: Client) -> None:
    assert cluster.queue(["99999"]) == []
    assert cluster.accounting(["99999"]) == []
    assert cluster.queue([]) == cluster.accounting([]) == []


def test_every_run_of_a_requeued_job_is_accounted_for(cluster: Client, script: Path) -> None:
    job = cluster.submit(script, ["300"])
    until(lambda: cluster.queue([job])[0].state is State.RUNNING, "the job")
    environment = {"SLURM_CONF": str(cluster.slurm_conf), "PATH": "/usr/bin"}
    subprocess.run(["scontrol", "requeue", job], env=environment, check=True)
    until(lambda: cluster.queue([job])[0].restarts == 1, "the restart to be counted")
    until(lambda: len(cluster.accounting([job]) or []) == 2, "both runs in accounting")


def test_what_slurm_refuses_is_said_in_its_words(cluster: Client, script: Path) -> None:
    with pytest.raises(SlurmError, match="invalid partition specified: nope"):
        cluster.submit(script, options=["--partition=nope"])
    with pytest.raises(SlurmError, match="time limit"):
        cluster.submit(script, options=["--time=2-0"])
    with pytest.raises(SlurmError, match="job array"):
        cluster.submit(script, options=[f"--array=0-{MAX_ARRAY_SIZE}"])
    with pytest.raises(SlurmError, match="Invalid job id"):
        cluster.show_job("99999")
    assert cluster.queue() == []


def test_test_only_submits_nothing(cluster: Client, script: Path) -> None:
    assert "to start at" in cluster.test_only(script)
    assert cluster.queue() == []


def test_the_environment_of_an_allocation_around_us_changes_nothing(
    cluster: Client, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "SBATCH_TIMELIMIT": "17",
        "SBATCH_PARTITION": "urgent",
        "SLURM_MEM_PER_NODE": "77",
        "SLURM_CPU_BIND": "quiet,mask_cpu:0x1",
        "SQUEUE_FORMAT": "%i",
        "SQUEUE_STATES": "COMPLETED",
        "SACCT_FORMAT": "jobid",
        "SLURM_TIME_FORMAT": "relative",
    }.items():
        monkeypatch.setenv(name, value)
    job = cluster.submit(script, ["300"])
    until(lambda: cluster.queue([job])[0].state is State.RUNNING, "the job")
    shown = cluster.show_job(job)
    assert (shown["TimeLimit"], shown["Partition"]) == ("00:05:00", "batch")
    assert cluster.queue([job])[0].start.startswith("20")


def test_node_lists_are_expanded_as_scontrol_does(cluster: Client) -> None:
    environment = {"SLURM_CONF": str(cluster.slurm_conf), "PATH": "/usr/bin"}
    for text in ("n[1-3,5],rack[0-1]-n[008-010]", "n[09-10]", "a,b-1,n[1-2]"):
        shown = subprocess.run(
            ["scontrol", "show", "hostnames", text],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert nodelist.expand(text) == shown.stdout.split()


def test_a_cluster_that_is_not_there(
    cluster: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SlurmError, match=r"nowhere\.conf does not exist"):
        Client(str(tmp_path / "nowhere.conf"))
    lines = Path(str(cluster.slurm_conf)).read_text().splitlines()
    dead = tmp_path / "slurm.conf"
    dead.write_text(
        "\n".join("SlurmctldPort=9" if line.startswith("SlurmctldPort") else line for line in lines)
    )
    with pytest.raises(SlurmError, match=rf"does not answer \(SLURM_CONF={dead}\)"):
        Client(str(dead)).config()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SlurmError, match="Slurm is not installed on this machine"):
        cluster.config()


def test_a_site_without_accounting(slurm_installed: None, script: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        started = mini_slurm("up", "--no-accounting", "--nodes", "1", "--dir", f"{folder}/slurm")
        assert started.returncode == 0, started.stderr
        try:
            client = Client(f"{folder}/slurm/slurm.conf")
            job = client.submit(script)
            until(lambda: client.queue([job])[0].state is State.DONE, "the job")
            assert client.accounting([job]) is None
            assert not client.config().accounting
        finally:
            assert mini_slurm("down", "--dir", f"{folder}/slurm").returncode == 0
