from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc_llm.slurm import rows
from hpc_llm.slurm.states import State


@pytest.mark.parametrize(
    ("job_id", "ids"),
    [
        ("12", ["12"]),
        ("12_3", ["12_3"]),
        ("12_[3-5%2]", ["12_3", "12_4", "12_5"]),
        ("12_[0,3-4]", ["12_0", "12_3", "12_4"]),
        ("12_[3-9:2,11%2]", ["12_3", "12_5", "12_7", "12_9", "12_11"]),
        ("21+0", ["21+0"]),
    ],
)
def test_element_ids(job_id: str, ids: list[str]) -> None:
    assert rows.element_ids(job_id) == ids


def test_queue_of_slurm_22_05() -> None:
    text = (
        "1_[2-9%2]|PENDING|JobArrayTaskLimit|N/A|N/A|0||na me|x|\n"
        "1_0|RUNNING|None|2026-12-01T17:32:24|2026-12-02T17:32:24|3|n[1-2]|train|\n"
    )
    waiting, running = rows.parse_queue(text)
    assert (waiting.state, waiting.reason, waiting.nodes) == (State.PENDING, "JobArrayTaskLimit", "")
    assert waiting.name == "na me|x"
    assert len(waiting.ids) == 8
    assert (running.state, running.reason, running.restarts, running.nodes) == (
        State.RUNNING,
        "",
        3,
        "n[1-2]",
    )
    assert running.end == "2026-12-02T17:32:24"


def test_accounting_of_slurm_22_05() -> None:
    text = (
        "1_0|REQUEUED|0:0|2026-12-01T17:32:24|2026-12-01T17:32:24|2026-12-01T17:32:26|2|n1|a|b\n"
        "1_[2-9%2]|CANCELLED by 0|0:15|2026-12-01T17:32:24|Unknown|2026-12-01T17:32:26|0|None assigned|j\n"
    )
    first, rest = rows.parse_accounting(text)
    assert (first.state, first.elapsed_s, first.nodes, first.name) == (State.PENDING, 2, "n1", "a|b")
    assert (rest.state, rest.exit_code, rest.signal, rest.nodes) == (State.CANCELLED, 0, 15, "")
    assert len(rest.ids) == 8


def test_job_with_spaces_in_its_values() -> None:
    text = (
        "JobId=1 ArrayJobId=1 ArrayTaskId=2-9%2 JobName=na me|x UserId=root(0) JobState=PENDING "
        'CPUs/Task=1 ReqB:S:C:T=0:0:*:* NodeList= Comment=a b|c "x" JobState=DONE  StdErr=/dev/null Power= \n'
        "JobId=3 JobState=RUNNING"
    )
    job = rows.parse_job(text)
    assert job["JobName"] == "na me|x"
    assert job["JobState"] == "PENDING"
    assert job["NodeList"] == ""
    assert job["ReqB:S:C:T"] == "0:0:*:*"
    assert job["Comment"] == 'a b|c "x"'


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    rows.parse_queue(text)
    rows.parse_accounting(text)
    rows.parse_job(text)
    assert rows.element_ids(text) or text.endswith("]")
