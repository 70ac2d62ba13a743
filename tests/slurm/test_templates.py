"""The shipped templates on a real cluster: signals, requeue, budgets, dependencies."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from conftest import ROOT, dead_node, mini_slurm, scontrol, until
from jobs import Work

from hpc_llm.slurm.client import Client
from hpc_llm.slurm.states import State


def test_one_element_is_requeued_alone_even_if_its_id_is_the_arrays(cluster: Client, tmp_path: Path) -> None:
    """The last element to start keeps the array's own id; a requeue of that id would restart them all."""
    work = Work(cluster, tmp_path, {"0": [0], "1": [0], "2": [1, 0]})
    job = work.submit()
    until(lambda: set(work.states(job).values()) == {"COMPLETED"}, "three elements")
    assert cluster.show_job(f"{job}_2")["JobId"] == job
    assert [work.tries(element) for element in range(3)] == [["0"], ["0"], ["0", "1"]]
    kinds = [(event["event"], event.get("action")) for event in work.events(2)]
    assert kinds == [("start", None), ("end", "restart"), ("start", None), ("end", "done")]


def test_failures_without_progress_end_with_the_reason(cluster: Client, tmp_path: Path) -> None:
    work = Work(cluster, tmp_path, {"0": [7]})
    job = work.submit(max_failures=1)
    until(lambda: work.states(job)[f"{job}_0"] == "FAILED", "the job to give up")
    assert len(work.tries()) == 2
    last = work.events()[-1]
    assert (last["action"], last["code"]) == ("give up", 7)
    assert "2 in a row without a new checkpoint or shard" in last["reason"]
    assert last["reason"] in work.logs()
    assert cluster.show_job(f"{job}_0")["ExitCode"] == "7:0"


def test_progress_keeps_a_failing_element_going(cluster: Client, tmp_path: Path) -> None:
    work = Work(cluster, tmp_path, {"0": ["progress 1", "progress 1", 0]})
    job = cluster.submit(work.script(shards=2, max_failures=1))
    until(lambda: work.states(job)[f"{job}_0"] == "COMPLETED", "the element")
    assert len(work.tries()) == 3


def test_dependants_run_after_a_predecessor_that_requeued_itself(cluster: Client, tmp_path: Path) -> None:
    first = Work(cluster, tmp_path / "first", {"0": [1, 0], "1": [0]})
    second = Work(cluster, tmp_path / "second", {"0": [0]}, gang=True)
    job = first.submit()
    after = second.submit({"dependency": f"afterok:{job}"})
    until(lambda: second.states(after) == {after: "COMPLETED"}, "the dependant")
    assert first.tries(0) == ["0", "1"]


def test_dependants_of_a_stage_that_gave_up_are_cancelled(cluster: Client, tmp_path: Path) -> None:
    first = Work(cluster, tmp_path / "first", {"0": [1]})
    second = Work(cluster, tmp_path / "second", {"0": [0]}, gang=True)
    job = first.submit(max_failures=0)
    after = second.submit({"dependency": f"afterok:{job}"})
    until(lambda: second.states(after) == {after: "CANCELLED"}, "the dependant to be cancelled")
    assert second.tries() == []


def test_a_gang_that_is_preempted_stops_and_comes_back_free(cluster: Client, tmp_path: Path) -> None:
    work = Work(cluster, tmp_path, {"0": ["stop", "stop", 0]}, gang=True)
    job = work.submit(max_failures=0, max_node_failures=0)
    for attempt in (1, 2):
        until(lambda n=attempt: len(work.tries(rank=3)) == n, f"attempt {attempt}")
        urgent = cluster.submit(_hold_all_nodes(tmp_path), options=["--partition=urgent"])
        until(lambda n=attempt: len(_actions(work)) == n, "the preempted job to stop")
        cluster.cancel([urgent])
    until(lambda: work.states(job) == {job: "COMPLETED"}, "the gang")
    assert work.tries(rank=0) == work.tries(rank=3) == ["0", "1", "2"]
    assert [event["code"] for event in work.events() if event["event"] == "end"] == [85, 85, 0]
    assert _actions(work) == ["restart", "restart", "done"]
    log = work.logs()
    assert "0: try 0 does stop n1" in log
    assert "3: try 2 does 0 n1" in log


def test_preemption_is_free_where_slurm_does_not_pass_on_the_warning(
    slurm_installed: None, tmp_path: Path
) -> None:
    """Without preempt_send_user_signal the step gets TERM at once, the script when the grace is over."""
    with tempfile.TemporaryDirectory(prefix="hpc_llm_slurm_", dir="/tmp") as parent:
        folder = Path(parent) / "slurm"
        started = mini_slurm("up", "--no-accounting", "--dir", str(folder))
        assert started.returncode == 0, started.stderr
        try:
            client = Client(str(folder / "slurm.conf"))
            conf = folder / "slurm.conf"
            conf.write_text(conf.read_text().replace("SlurmctldParameters=preempt_send_user_signal\n", ""))
            scontrol(client, "reconfigure")
            until(lambda: not client.config().preempt_send_user_signal, "the new setting")
            works = [Work(client, tmp_path / step, {"0": [step, 0]}) for step in ("stop", "deaf")]
            jobs = [work.submit(max_failures=0, max_node_failures=0) for work in works]
            until(lambda: all(work.tries() for work in works), "both workers")
            urgent = client.submit(_hold_all_nodes(tmp_path), options=["--partition=urgent"])
            until(lambda: client.queue([urgent])[0].state is State.RUNNING, "the preemption")
            client.cancel([urgent])
            for work, job in zip(works, jobs, strict=True):
                until(lambda w=work, j=job: w.states(j) == {f"{j}_0": "COMPLETED"}, "the element")
                assert work.tries() == ["0", "1"]
        finally:
            assert mini_slurm("down", "--dir", str(folder)).returncode == 0


def test_a_time_limit_is_free_when_obeyed_and_charged_when_not(cluster: Client, tmp_path: Path) -> None:
    """Slurm warns up to a minute early: with a minute's limit and a minute's lead, at once."""
    obeys = Work(cluster, tmp_path / "obeys", {"0": ["stop", 0]})
    deaf = Work(cluster, tmp_path / "deaf", {"0": ["deaf"]})
    first, second = (work.submit({"time": "00:01:00"}, max_failures=0) for work in (obeys, deaf))
    until(lambda: obeys.states(first)[f"{first}_0"] == "COMPLETED", "the one that obeys", timeout_s=120)
    until(lambda: deaf.states(second)[f"{second}_0"] in ("FAILED", "TIMEOUT"), "the deaf one", timeout_s=120)
    reasons = [event["reason"] for event in obeys.events() if event["event"] == "end"]
    assert reasons == ["warned of its time limit", "done"]
    # Killed by its own script ahead of the limit, which is what keeps the jobs that wait for it alive.
    assert deaf.states(second)[f"{second}_0"] == "FAILED"
    assert "too short for one shard or checkpoint" in deaf.events()[-1]["reason"]


def test_a_cancelled_job_stays_cancelled(cluster: Client, tmp_path: Path) -> None:
    work = Work(cluster, tmp_path, {"0": ["stop"]})
    job = work.submit()
    until(lambda: work.tries(), "the worker")
    cluster.cancel([job])
    until(lambda: work.states(job)[f"{job}_0"] == "CANCELLED", "the cancellation")
    until(lambda: _actions(work), "the script's verdict", timeout_s=10)
    assert "so somebody else has ended it" in work.logs()
    assert work.states(job)[f"{job}_0"] == "CANCELLED"


def test_a_node_that_dies_is_charged_to_its_own_budget(cluster: Client, tmp_path: Path) -> None:
    work = Work(cluster, tmp_path, {"0": ["stop", 0]})
    job = work.submit(max_failures=0, max_node_failures=1)
    until(lambda: work.tries(), "the worker")
    with dead_node(cluster, cluster.queue([job])[0].nodes):
        until(lambda: work.states(job)[f"{job}_0"] == "COMPLETED", "the element on another node")
    assert work.tries() == ["0", "1"]
    assert [event["event"] for event in work.events()] == ["start", "start", "end"]


def test_nodes_that_die_again_and_again_end_it(cluster: Client, tmp_path: Path) -> None:
    work = Work(cluster, tmp_path, {"0": ["stop"]})
    job = work.submit(max_node_failures=0)
    until(lambda: work.tries(), "the worker")
    with dead_node(cluster, cluster.queue([job])[0].nodes):
        until(lambda: work.states(job)[f"{job}_0"] == "FAILED", "the script to give up")
    assert len(work.tries()) == 1
    assert "lost its node" in work.events()[-1]["reason"]


def test_a_node_set_down_by_an_admin_is_free(cluster: Client, tmp_path: Path) -> None:
    work = Work(cluster, tmp_path, {"0": ["stop", 0]})
    job = work.submit(max_failures=0, max_node_failures=0)
    until(lambda: work.tries(), "the worker")
    node = cluster.queue([job])[0].nodes
    scontrol(cluster, "update", f"nodename={node}", "state=down", "reason=test")
    try:
        until(lambda: work.states(job)[f"{job}_0"] == "COMPLETED", "the element on another node")
    finally:
        scontrol(cluster, "update", f"nodename={node}", "state=idle")
    assert work.tries() == ["0", "1"]


def test_the_filled_script_can_be_submitted_again_by_hand(cluster: Client, tmp_path: Path) -> None:
    work = Work(cluster, tmp_path, {"0": [0], "1": [0]})
    script = work.script()
    for _ in range(2):
        job = cluster.submit(script)
        until(lambda j=job: set(work.states(j).values()) == {"COMPLETED"}, "both elements")
    assert len(work.tries(0)) == len(work.tries(1)) == 2


def test_the_unfilled_template_by_hand(cluster: Client, tmp_path: Path) -> None:
    """Accepted by sbatch; says its usage without arguments, works with them."""
    work = Work(cluster, tmp_path, {"0": [0]}, gang=False)
    work.script()
    submission = str(work.folder.submissions(work.stage) / "abc.json")
    shipped = ROOT / "sbatch_templates"
    log = tmp_path / "log"
    job = cluster.submit(shipped / "train.sbatch", options=[f"--output={log}"])
    until(lambda: work.states(job) == {job: "FAILED"}, "the usage message")
    assert "usage: sbatch --nodes=N" in log.read_text()
    job = cluster.submit(
        shipped / "array.sbatch",
        [str(work.folder.path), work.stage, submission, str(work.code)],
        [f"--output={log}", "--array=0-0", f"--export=ALL,PYTHON={sys.executable}"],
    )
    until(lambda: work.states(job)[f"{job}_0"] == "COMPLETED", "the element")
    assert work.tries(0) == ["0"]


def test_a_line_of_ops_takes_effect_and_values_arrive_as_they_were(cluster: Client, tmp_path: Path) -> None:
    work = Work(cluster, tmp_path, {"0": [0]})
    script = work.script({"job-name": 'it\'s "a" #1 $HOME'})
    text = script.read_text().replace("##SBATCH --account=physics", "#SBATCH --nice=7 --exclude='n[1-2]'")
    script.write_text(text)
    job = cluster.submit(script)
    until(lambda: set(work.states(job).values()) == {"COMPLETED"}, "the element")
    shown = cluster.show_job(f"{job}_0")
    assert (shown["Nice"], shown["ExcNodeList"]) == ("7", "n[1-2]")
    assert shown["JobName"] == 'it\'s "a" #1 $HOME'
    assert shown["Requeue"] == "1"


def _actions(work: Work) -> list[str]:
    return [event["action"] for event in work.events() if event["event"] == "end"]


def _hold_all_nodes(tmp: Path) -> Path:
    script = tmp / "urgent.sh"
    script.write_text("#!/bin/bash\n#SBATCH --nodes=4 --exclusive --time=5 --output=/dev/null\nsleep 300\n")
    return script
