import json

import pytest

from hpc_llm.config.compose import compose
from hpc_llm.run import atomic, journal, plan
from hpc_llm.run.folder import RunFolder
from hpc_llm.watch import render
from hpc_llm.watch.summary import Jobs, summary


@pytest.fixture
def folder(tmp_path):
    config = compose(["dedup=none", "pii=none"])
    folder = RunFolder(tmp_path / "r")
    atomic.write_json(folder.plan, plan.document(plan.stages(config, [("a",), ("b",)]), config, []))
    return folder


def record(folder, stage, shard, documents_in, dropped=None, quarantined=(), extra=None):
    lost = sum((dropped or {}).values()) + len(quarantined)
    account = {
        "documents_in": documents_in,
        "documents_out": documents_in - lost,
        "bytes_in": 10 * documents_in,
        "bytes_out": 10 * (documents_in - lost),
        "dropped": dropped or {},
        "quarantined": list(quarantined),
        "extra": extra or {},
    }
    atomic.write_json(
        folder.record(stage, shard), {"shard": shard, "account": account, "outputs": {}, "seconds": 1.5}
    )


def stage(found, name):
    return next(row for row in found["stages"] if row["name"] == name)


def test_a_run_without_records_waits(folder):
    found = summary(folder, {})
    assert found["state"] == "waiting" and found["balanced"]
    assert stage(found, "read")["shards"] == {"done": 0, "total": 2}
    assert found["training"] is None


def test_documents_are_summed_by_reason_and_balance(folder):
    bad = {"file": "a.gz", "offset": 7, "reason": "truncated"}
    record(folder, "read", 0, 10, {"empty": 1}, [bad])
    record(folder, "read", 1, 5)
    record(folder, "filter", 0, 8, {"short": 2})
    record(folder, "filter", 1, 5, {"short": 1})
    found = summary(folder, {})
    assert found["documents"]["in"] == 15
    assert found["documents"]["dropped"] == {"empty": 1, "short": 3}
    assert found["documents"]["quarantined"] == 1
    assert found["balanced"]
    text = render.report(found)
    assert "a.gz" in text and "truncated" in text and "dropped: short" in text


def test_a_document_lost_between_stages_is_seen(folder):
    record(folder, "read", 0, 10)
    record(folder, "read", 1, 10)
    record(folder, "filter", 0, 10)
    record(folder, "filter", 1, 9)
    assert not summary(folder, {})["balanced"]
    assert "DO NOT BALANCE" in render.report(summary(folder, {}))


def test_a_shard_whose_own_sum_is_wrong_is_seen(folder):
    record(folder, "read", 0, 10)
    path = folder.record("read", 0)
    value = json.loads(path.read_text())
    value["account"]["documents_out"] = 9
    path.write_text(json.dumps(value))
    assert not summary(folder, {})["balanced"]


@pytest.mark.parametrize(
    ("jobs", "state"),
    [
        ({"read": Jobs(live={"7_0": "RUNNING"})}, "running"),
        ({"read": Jobs(live={"7_0": "PENDING (Dependency)"})}, "pending"),
        ({"read": Jobs(ended={"7_0": "FAILED", "7_1": "CANCELLED by 0"})}, "failed"),
        ({"read": Jobs(ended={"7_0": "CANCELLED by 0", "7_1": "CANCELLED"})}, "cancelled"),
        (None, "unknown"),
    ],
)
def test_state_of_a_submitted_stage(folder, jobs, state):
    journal.append(folder.journal, {"event": "submitted", "stage": "read", "token": "t", "job": "7"})
    atomic.write_json(folder.submissions("read") / "t.json", {"elements": [[0], [1]]})
    found = summary(folder, jobs)
    assert stage(found, "read")["state"] == state
    assert found["state"] == state
    assert stage(found, "read")["job_ids"] == ["7"]


def test_shards_are_told_apart_by_what_their_jobs_do(folder):
    event = {"event": "submitted", "stage": "read", "token": "t", "job": "7"}
    journal.append(folder.journal, event)
    atomic.write_json(folder.submissions("read") / "t.json", {"elements": [[0], [1]]})
    both = summary(folder, {"read": Jobs(live={"7_0": "RUNNING", "7_[1]": "PENDING (Resources)"})})
    assert stage(both, "read")["shards"] == {"done": 0, "total": 2, "running": 1, "failed": 0}
    record(folder, "read", 0, 3)
    one = summary(folder, {"read": Jobs(ended={"7_0": "COMPLETED", "7_1": "FAILED"})})
    assert stage(one, "read")["shards"] == {"done": 1, "total": 2, "running": 0, "failed": 1}


def test_training_takes_the_last_line_of_a_repeated_step(folder):
    for step, loss, restart in [(1, 9.0, 0), (2, 8.0, 0), (3, 7.0, 0), (3, 7.5, 1)]:
        journal.append(
            folder.metrics,
            {
                "step": step,
                "loss": loss,
                "tokens": step * 10,
                "tokens_per_s": 100.0 * step,
                "restart": restart,
            },
        )
    training = summary(folder, {})["training"]
    assert (training["step"], training["loss"], training["loss_first"], training["restarts"]) == (
        3,
        7.5,
        9.0,
        1,
    )


def test_a_failure_is_shown_with_its_telling_line(folder):
    journal.append(folder.journal, {"event": "submitted", "stage": "read", "token": "t", "job": "7"})
    atomic.write_json(folder.submissions("read") / "t.json", {"elements": [[0], [1]]})
    atomic.write_text(folder.logs("read") / "7_0.log", "start\n12:00 error: disk full\nhpc_llm: ended\n")
    found = summary(folder, {"read": Jobs(ended={"7_0": "FAILED"})})
    assert found["failures"] == [
        {"stage": "read", "log": str(folder.logs("read") / "7_0.log"), "line": "12:00 error: disk full"}
    ]
    assert "read failed: 12:00 error: disk full" in render.failures(found)


def test_a_local_stage_runs_while_its_launcher_holds_the_run(folder):
    from hpc_llm.run import lock

    journal.append(folder.journal, {"event": "started", "stage": "read", "token": "local-1"})
    assert stage(summary(folder, {}), "read")["state"] == "incomplete"
    with lock.hold(folder.lock):
        assert stage(summary(folder, {}), "read")["state"] == "running"
        with pytest.raises(lock.Held, match="works on this run"), lock.hold(folder.lock):
            pass
    journal.append(folder.journal, {"event": "ended", "stage": "read", "token": "local-1", "unfinished": 2})
    assert stage(summary(folder, {}), "read")["state"] == "failed"
