"""Whole graphs on the real cluster: raw pages to an exported model, interrupted and not."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from hpc_llm.run import journal
from hpc_llm.slurm.client import Client
from tests.slurm.conftest import mini_slurm, until
from tests.slurm.runs import SMALL, command, corpus, digests, losses, status, wait_until_done

STEPS = 150  # half a minute and more of training: Slurm looks at time limits every thirty seconds


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def launch(
    client: Client, root: Path, name: str, pages: Path, *more: str
) -> subprocess.CompletedProcess[str]:
    return command(
        "hpc_llm.launch", "+cluster=mini_slurm", f"run.root={root}", f"run.name={name}", f"source.paths=[{pages}]",
        *SMALL, "parallel=3d_8", f"train.steps={STEPS}", "train.checkpoint.interval_steps=20", *more,
        slurm_conf=client.slurm_conf,
    )  # fmt: skip


@pytest.fixture(scope="session")
def finished(cluster: Client, root: Path, pages: Path) -> Path:
    """One undisturbed run of the whole graph, which the other tests compare with."""
    done = launch(cluster, root, "whole", pages)
    assert done.returncode == 0, done.stderr
    assert "submitted 13 stages" in done.stdout
    wait_until_done(root / "whole", 400)
    return root / "whole"


def test_one_launch_takes_raw_pages_to_an_exported_model(finished: Path):
    found = status(finished)
    assert found["balanced"]
    assert found["documents"]["quarantined"] == 1
    duplicates = sum(
        n for reason, n in found["documents"]["dropped"].items() if reason.endswith("_duplicate")
    )
    assert duplicates > 30
    assert (
        found["documents"]["in"]
        == found["documents"]["kept"] + sum(found["documents"]["dropped"].values()) + 1
    )
    assert found["extra"]["pii_emails"] > 10
    assert found["training"]["step"] == STEPS
    assert found["training"]["loss"] < found["training"]["loss_first"]
    assert len(found["samples"]) == 2
    assert all(stage["job_ids"] for stage in found["stages"])
    [log] = (finished / "stages" / "train" / "logs").glob("*_r0.log")
    assert f"step {STEPS}/{STEPS}" in log.read_text()


def test_the_export_loads_in_transformers(finished: Path):
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(finished / "export")
    tokenizer = transformers.AutoTokenizer.from_pretrained(finished / "export")
    ids = tokenizer("The import statement", return_tensors="pt").input_ids
    assert model(ids).logits.shape == (1, ids.shape[1], 600)


def test_tensorboard_has_what_is_promised(finished: Path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(finished / "tb" / "restart_000")).Reload()
    names = " ".join(events.Tags()["scalars"])
    for word in ("loss", "learning_rate", "gradient_norm", "tokens_per_s", "mfu", "cpu", "memory"):
        assert word in names.lower(), names


def test_launching_a_finished_run_submits_nothing(cluster: Client, finished: Path, root: Path, pages: Path):
    done = launch(cluster, root, "whole", pages)
    assert done.returncode == 0 and "nothing to submit" in done.stdout
    assert not cluster.queue()


def test_a_changed_plan_is_refused_with_its_difference(
    cluster: Client, finished: Path, root: Path, pages: Path
):
    done = launch(cluster, root, "whole", pages, "optim.lr=0.5", "cluster.array.time=20")
    assert done.returncode == 2
    assert "optim.lr: 0.001 -> 0.5" in done.stderr
    assert "cluster.array.time" not in done.stderr  # where it runs may change
    assert "Traceback" not in done.stderr


def test_preempted_and_out_of_time_it_ends_bit_identical(
    cluster: Client, finished: Path, root: Path, pages: Path
):
    """Same data and seed; preempted once by a job in `urgent`, then stopped once by its time limit."""
    run = root / "interrupted"
    shutil.copytree(finished, run)
    for name in ("checkpoints", "tb", "export", "stages/train", "stages/export"):
        shutil.rmtree(run / name)
    for name in ("metrics.jsonl", "journal.jsonl"):
        (run / name).unlink()
    done = launch(cluster, root, "interrupted", pages, "cluster.restart.signal_lead_s=20")
    assert done.returncode == 0, done.stderr
    [job] = status(run)["stages"][-2]["job_ids"]

    def step() -> int:
        return max(losses(run), default=0) if (run / "metrics.jsonl").exists() else 0

    until(lambda: step() >= 5, "the first steps", 120)
    urgent = run / "urgent.sh"
    urgent.write_text("#!/bin/bash\nsleep 1\n")
    cluster.submit(urgent, options=["-p", "urgent", "-N4", "--exclusive", "--output=/dev/null"])
    until(lambda: cluster.show_job(job)["Restarts"] == "1", "the requeue after preemption", 60)
    # The limit is moved to a minute from the start: Slurm's warning comes by the same way as for a long job.
    limit(cluster, job, "1")
    assert step() < STEPS
    until(lambda: cluster.show_job(job)["Restarts"] == "2", "the requeue at the time limit", 120)
    limit(cluster, job, "20")  # or every further start would end the same way

    found = wait_until_done(run, 240)
    assert found["stages"][-2]["restarts"] == 2
    assert losses(run) == losses(finished)
    assert sorted(losses(run)) == list(range(1, STEPS + 1))
    assert digests(run, "export/*.safetensors") == digests(finished, "export/*.safetensors")


def limit(cluster: Client, job: str, minutes: str) -> None:
    command = ["scontrol", "update", f"JobId={job}", f"TimeLimit={minutes}"]
    subprocess.run(command, check=True, env={**os.environ, "SLURM_CONF": cluster.slurm_conf or ""})


def test_a_killed_task_costs_its_shard_and_nothing_else(
    cluster: Client, root: Path, pages: Path, finished: Path
):
    """kill -9 in mid-shard, no automatic restart, then the same launch again."""
    run = root / "killed"
    arguments = ("stages=data", "cluster.restart.max_failures=0")
    assert launch(cluster, root, "killed", pages, *arguments).returncode == 0

    def at_work() -> list[int]:
        """Workers of `minhash_sign` of this run that hold an unpublished output."""
        pids = []
        for process in Path("/proc").iterdir():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except (OSError, ValueError):
                continue
            asked = {b"hpc_llm.run.worker", str(run).encode(), b"minhash_sign"}
            if asked <= set(words) and b"python" in words[0]:
                pids.append(int(process.name))
        return pids

    until(at_work, "a worker of minhash_sign", 120)
    time.sleep(1)
    os.kill(at_work()[0], signal.SIGKILL)
    until(lambda: not cluster.queue(), "the graph to stop", 120)
    before = status(run)
    signed = next(stage for stage in before["stages"] if stage["name"] == "minhash_sign")
    assert signed["state"] == "failed" and signed["shards"]["done"] < 4
    records = {path: path.read_bytes() for path in run.glob("stages/*/done/*.json")}

    assert launch(cluster, root, "killed", pages, *arguments).returncode == 0
    submissions = [e for e in journal.read(run / "journal.jsonl") if e["event"] == "submitted"]
    again = [e["token"] for e in submissions if e["stage"] == "minhash_sign"][-1]
    redone = json.loads((run / "stages" / "minhash_sign" / "submissions" / f"{again}.json").read_text())
    assert sum(len(element) for element in redone["elements"]) == 4 - signed["shards"]["done"]
    deadline = time.monotonic() + 200
    while not all(
        s["state"] == "done" for s in status(run)["stages"] if s["name"] not in ("train", "export")
    ):
        assert time.monotonic() < deadline, command("hpc_llm.status", str(run)).stdout
        time.sleep(1)
    assert status(run)["balanced"]
    assert {path: path.read_bytes() for path in records} == records  # finished shards were not touched
    data = "stages/[!te]*/out/*"
    assert digests(run, data) == digests(finished, data)
    assert digests(run, "stages/tokenize/out/*") == digests(finished, "stages/tokenize/out/*")


def test_arrays_are_split_at_the_clusters_limit(cluster: Client, root: Path, tmp_path: Path):
    pages = corpus(tmp_path / "many", files=25)  # MaxArraySize is 11
    done = launch(cluster, root, "split", pages, "stages=data", "source.shards=25")
    assert done.returncode == 0, done.stderr
    submitted = [e for e in journal.read(root / "split" / "journal.jsonl") if e["event"] == "submitted"]
    assert len([e for e in submitted if e["stage"] == "read"]) == 3
    cluster.cancel([e["job"] for e in submitted])


def test_launching_again_leaves_queued_jobs_alone(cluster: Client, root: Path, pages: Path):
    first = launch(cluster, root, "twice", pages, "stages=data")
    second = launch(cluster, root, "twice", pages, "stages=data")
    assert (first.returncode, second.returncode) == (0, 0), second.stderr
    assert "already queued" in second.stdout
    jobs = {(row.name.rpartition(".")[0], row.job_id.partition("_")[0]) for row in cluster.queue()}
    assert len(jobs) == len({stage for stage, _ in jobs})  # one job for each stage
    cancelled = command("hpc_llm.cancel", str(root / "twice"))
    assert cancelled.returncode == 0 and cancelled.stdout.startswith("cancelled ")
    until(lambda: not cluster.queue(), "the cancelled jobs to leave", 60)
    assert "nothing of this run" in command("hpc_llm.cancel", str(root / "twice")).stdout
    assert status(root / "twice")["state"] == "cancelled"


def test_a_job_whose_id_was_never_recorded_is_found_by_its_name(cluster: Client, root: Path, pages: Path):
    """The launcher died between sbatch and its journal line."""
    assert launch(cluster, root, "lost", pages, "stages=data").returncode == 0
    path = root / "lost" / "journal.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if '"submitted"' not in line))
    again = launch(cluster, root, "lost", pages, "stages=data")
    assert again.returncode == 0
    assert not any(event["event"] == "submitted" for event in journal.read(path))


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("cluster.array.partition=nope", "cluster.array.partition=nope: the cluster has batch, urgent"),
        ("cluster.train.partition=nope", "cluster.train.partition=nope"),
        ("cluster.slurm_conf=/nowhere/slurm.conf", "/nowhere/slurm.conf"),
        (
            "parallel={nodes: 8, tasks_per_node: 1, tp: 1, pp: 1}",
            "parallel.nodes=8: partition batch has 4 nodes",
        ),
        ("source.paths=[/nowhere/*.jsonl]", "/nowhere/*.jsonl"),
        ("cluster.train.gpus_per_node=8", "Slurm would not take train: Requested node configuration"),
        ("cluster.array.cpus=500", "--cpus-per-task=500"),
        ("cluster.constraint=zzz", "--constraint=zzz"),
        ("run.root=/proc/nowhere", "run.root=/proc/nowhere"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(
    cluster: Client, root: Path, pages: Path, override: str, said: str
):
    done = launch(cluster, root, "refused", pages, override, "train.global_batch=16")
    assert done.returncode == 2, done.stdout
    assert said in done.stderr and "Traceback" not in done.stderr
    assert not cluster.queue() and not (root / "refused").exists()


def test_the_launch_is_quick(cluster: Client, root: Path, pages: Path):
    """CPU time of the launcher and its children, sbatch included; wall time depends on who else is here."""
    before = os.times()
    assert launch(cluster, root, "quick", pages).returncode == 0
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    assert spent < 5


def test_a_site_without_accounting_is_followed_all_the_same(
    slurm_installed: None, root: Path, pages: Path, tmp_path_factory: pytest.TempPathFactory
):
    """The queue and the run folder alone say what became of a run; one that failed is not taken for running."""
    folder = tmp_path_factory.mktemp("noacct") / "slurm"
    assert mini_slurm("up", "--no-accounting", "--nodes", "2", "--dir", str(folder)).returncode == 0
    client = Client(str(folder / "slurm.conf"))
    few = ("stages=data", "dedup=none", "pii=none", "cluster.restart.max_failures=0")
    data = ("read", "tokenizer", "tokenize")
    try:
        assert launch(client, root, "noacct", pages, *few).returncode == 0
        until(
            lambda: all(s["state"] == "done" for s in status(root / "noacct")["stages"] if s["name"] in data),
            "the data stages",
            120,
        )
        shown = command("hpc_llm.status", str(root / "noacct")).stdout
        assert "keeps no accounting" in shown and "balance" in shown

        assert launch(client, root, "noacct_bad", pages, *few, "source.max_bad_fraction=0").returncode == 0
        until(lambda: not client.queue(), "the failure and what waited for it", 60)
        found = {stage["name"]: stage for stage in status(root / "noacct_bad")["stages"]}
        assert found["read"]["state"] == "failed" and found["read"]["shards"]["failed"] == 1
        assert found["tokenizer"]["state"] == "cancelled"  # with what it depended on
    finally:
        assert mini_slurm("down", "--dir", str(folder)).returncode == 0
