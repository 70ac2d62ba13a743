from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc_llm.node import codes
from hpc_llm.run import retry
from hpc_llm.run.retry import Action, Attempt, Budget

BUDGET = Budget(max_failures=3, max_node_failures=10)
FAILED = Attempt("0", "n1", code=1)
PREEMPTED = Attempt("0", "n1", code=codes.STOPPED, signalled=True)
KILLED_AT_LIMIT = Attempt("0", "n1", code=137, signalled=True, at_limit=True)
NODE_DIED = Attempt("0", "n1")


def action(history: list[Attempt], marker: str = "0") -> Action:
    return retry.decide(history, marker, BUDGET).action


def test_done_is_done() -> None:
    assert action([FAILED, Attempt("0", "n1", code=0)]) is Action.DONE


def test_failures_without_progress_are_bounded_and_the_reason_is_said() -> None:
    assert action([FAILED] * 3) is Action.RESTART
    decision = retry.decide([FAILED] * 4, "0", BUDGET)
    assert decision.action is Action.GIVE_UP
    assert "exit code 1 on n1: 4 in a row without a new checkpoint or shard" in decision.reason


def test_progress_empties_the_budget() -> None:
    history = [Attempt(str(step // 3), "n1", code=1) for step in range(60)]
    assert action(history, "21") is Action.RESTART
    assert action(history + [Attempt("21", "n1", code=1)] * 4, "21") is Action.GIVE_UP


@pytest.mark.parametrize(
    "free",
    [
        PREEMPTED,
        Attempt("0", "n1", code=None, signalled=True),  # killed by Slurm after the warning
        Attempt("0", "n1", code=143, signalled=True),
    ],
)
def test_preemption_is_free(free: Attempt) -> None:
    assert action([free] * 1000) is Action.RESTART
    assert action([FAILED] * 3 + [free] * 100) is Action.RESTART
    assert action([FAILED] * 3 + [free] * 100 + [FAILED]) is Action.GIVE_UP


def test_a_time_limit_is_free_when_the_work_stopped_or_moved() -> None:
    stopped = Attempt("0", "n1", code=codes.STOPPED, signalled=True, at_limit=True)
    assert action([stopped] * 1000) is Action.RESTART
    moving = [Attempt(str(i), "n1", code=137, signalled=True, at_limit=True) for i in range(100)]
    assert action(moving, "100") is Action.RESTART


def test_a_time_limit_too_short_for_one_shard_does_not_go_round_for_ever() -> None:
    decision = retry.decide([KILLED_AT_LIMIT] * 4, "0", BUDGET)
    assert decision.action is Action.GIVE_UP
    assert "too short" in decision.reason


def test_lost_nodes_have_a_budget_of_their_own() -> None:
    assert action([FAILED] * 3 + [NODE_DIED] * 10) is Action.RESTART
    decision = retry.decide([NODE_DIED] * 11, "0", BUDGET)
    assert decision.action is Action.GIVE_UP
    assert "lost its node (n1)" in decision.reason


def test_a_stop_that_nobody_asked_for_is_a_failure() -> None:
    assert action([Attempt("0", "n1", code=codes.STOPPED)] * 4) is Action.GIVE_UP


def test_refused_work_is_not_tried_again() -> None:
    assert action([Attempt("0", "n1", code=codes.REFUSED)]) is Action.GIVE_UP


def test_who_starts_a_job_that_gave_up_gets_fresh_budgets() -> None:
    spent = [FAILED] * 3 + [Attempt("0", "n1", code=1, gave_up=True)]
    assert action([*spent, FAILED]) is Action.RESTART
    assert action([*spent, *[FAILED] * 4]) is Action.GIVE_UP


def start(job: str = "7", marker: str = "0") -> dict[str, Any]:
    return {"event": "start", "time": 0, "job": job, "nodes": "n1", "marker": marker}


def test_events_become_attempts() -> None:
    full = "RUNNING|2026-01-01T00:00:00|2026-01-01T01:00:00|1:00:00"
    moved = "RUNNING|2026-01-01T00:00:00|2026-01-01T00:20:00|1:00:00"
    events = [
        start(),
        {"event": "end", "job": "7", "code": 1, "action": "restart"},
        {"event": "signal", "job": "7", "window": full},
        start(),
        start(job="8"),
        {"event": "signal", "job": "7", "window": moved},
        {"event": "signal", "job": "7", "window": full},
        {"event": "end", "job": "7", "code": 85, "action": "restart"},
        start(marker="1"),
        {"event": "signal", "job": "7", "window": full},
        start(marker="2"),
    ]
    assert retry.attempts(events, "7") == [
        Attempt("0", "n1", code=1),
        Attempt("0", "n1", code=85, signalled=True),
        Attempt("1", "n1", signalled=True, at_limit=True),
        Attempt("2", "n1"),
    ]
    assert retry.attempts(events, "8") == [Attempt("0", "n1")]


@pytest.mark.parametrize(("end", "expected"), [("00:20:00", Action.RESTART), ("01:00:00", Action.GIVE_UP)])
def test_a_preemption_that_only_the_step_was_told_of_is_free(end: str, expected: Action) -> None:
    window = f"RUNNING|2026-01-01T00:00:00|2026-01-01T{end}|1:00:00"
    attempt = [
        start(),
        {"event": "stopped", "job": "7", "window": window},
        {"event": "end", "job": "7", "code": 85, "action": "restart"},
    ]
    assert action(retry.attempts(attempt * 4, "7")) is expected


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("RUNNING|2026-01-01T00:00:00|2026-01-01T01:00:00|1:00:00", True),
        ("RUNNING|2026-01-01T00:00:00|2026-01-01T00:00:40|1:00:00", False),
        ("RUNNING|2026-01-01T00:00:00|2026-01-02T00:00:00|UNLIMITED", False),
        ("", True),
        ("RUNNING|N/A|N/A|1:00:00", True),
        ("PENDING|2026-01-01T00:00:06|2026-01-01T01:00:06|1:00:00", False),
        ("PENDING|N/A|N/A|1:00:00", False),
        ("COMPLETING|2026-01-01T00:00:00|2026-01-01T01:00:00|1:00:00", False),
    ],
)
def test_at_limit(window: str, expected: bool) -> None:
    assert retry.at_limit(window) is expected


_attempts = st.builds(
    Attempt,
    marker=st.just("0"),
    nodes=st.just("n1"),
    code=st.sampled_from([None, 1, 85, 137, 143]),
    signalled=st.booleans(),
    at_limit=st.booleans(),
)


@given(st.lists(_attempts, min_size=1, max_size=40))
def test_a_job_that_never_moves_and_is_never_signalled_ends(history: list[Attempt]) -> None:
    unsignalled = [attempt for attempt in history if not attempt.signalled]
    bound = BUDGET.max_failures + BUDGET.max_node_failures
    if len(unsignalled) > bound:
        verdicts = {action(history[: i + 1]) for i in range(len(history))}
        assert Action.GIVE_UP in verdicts
