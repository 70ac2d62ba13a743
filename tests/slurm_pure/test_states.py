from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc_llm.slurm.states import State, classify


@pytest.mark.parametrize(
    ("raw", "state"),
    [
        ("PENDING", State.PENDING),
        ("REQUEUED", State.PENDING),
        ("SPECIAL_EXIT", State.PENDING),
        ("CONFIGURING", State.RUNNING),
        ("COMPLETING", State.RUNNING),
        ("COMPLETED", State.DONE),
        ("CANCELLED by 1000", State.CANCELLED),
        ("CANCELLED+", State.CANCELLED),
        ("OUT_OF_ME+", State.FAILED),
        ("NODE_FAIL", State.NODE_FAILED),
        ("PREEMPTED", State.PREEMPTED),
        ("TIMEOUT", State.TIMEOUT),
        ("completed\n", State.DONE),
        ("COMPLET+", State.UNKNOWN),  # COMPLETED or COMPLETING
        ("REQUEUE+", State.PENDING),  # several names, one meaning
        ("TELEPORTED", State.UNKNOWN),
        ("+", State.UNKNOWN),
        ("", State.UNKNOWN),
    ],
)
def test_classify(raw: str, state: State) -> None:
    assert classify(raw) is state


@given(st.text())
def test_any_text_gives_a_state(raw: str) -> None:
    assert isinstance(classify(raw), State)


def test_unknown_is_not_an_end() -> None:
    assert not State.UNKNOWN.ended
    assert not State.PENDING.ended
    assert State.CANCELLED.ended
