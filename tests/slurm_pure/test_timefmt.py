from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc_llm.slurm import timefmt

DAY, HOUR, MINUTE = 86_400, 3_600, 60


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90 * MINUTE),
        ("90:30", 90 * MINUTE + 30),
        ("1:30:05", HOUR + 30 * MINUTE + 5),
        ("2-3", 2 * DAY + 3 * HOUR),
        ("2-3:04", 2 * DAY + 3 * HOUR + 4 * MINUTE),
        ("2-03:04:05", 2 * DAY + 3 * HOUR + 4 * MINUTE + 5),
        ("1-00:00:00", DAY),
        ("100:00:00", 100 * HOUR),
        (" 00:10:00 ", 600),
        ("0", 0),
    ],
)
def test_each_form(text: str, seconds: int) -> None:
    assert timefmt.parse(text) == seconds


@pytest.mark.parametrize("text", ["UNLIMITED", "INFINITE", "infinite"])
def test_no_limit(text: str) -> None:
    assert timefmt.parse(text) is None


@pytest.mark.parametrize(
    "text", ["", "1h", "-1", "1-", "1:2:3:4", "1-1:1:1:1", "1.5", "١", "1:", ":1", "1\n2", "NONE"]
)
def test_other_text_is_refused_with_the_forms_named(text: str) -> None:
    with pytest.raises(ValueError, match="days-hours"):
        timefmt.parse(text)


@given(st.integers(0, 10**7))
def test_round_trip(seconds: int) -> None:
    assert timefmt.parse(timefmt.render(seconds)) == seconds


@given(st.integers(0, 400), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_the_day_forms_agree(d: int, h: int, m: int, s: int) -> None:
    full = timefmt.parse(f"{d}-{h}:{m}:{s}")
    assert full == timefmt.parse(f"{d * 24 + h}:{m}:{s}") == timefmt.parse(f"{(d * 24 + h) * 60 + m}:{s}")
    assert full is not None
    assert timefmt.parse(f"{d}-{h}:{m}") == full - s
    assert timefmt.render(full) == f"{d}-{h:02d}:{m:02d}:{s:02d}"


def test_render_unlimited_and_negative() -> None:
    assert timefmt.render(None) == "UNLIMITED"
    with pytest.raises(ValueError, match="-1"):
        timefmt.render(-1)
