from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc_llm.watch import tables

TEXT = st.text(max_size=12)


def test_columns_line_up_and_numbers_stand_right():
    text = tables.render(["stage", "documents"], [["read", "12"], ["filter", "1,200"]], "lr")
    assert text.splitlines() == [
        "stage   documents",
        "──────  ─────────",
        "read           12",
        "filter      1,200",
    ]


def test_wide_and_combining_characters_take_their_columns():
    assert tables.display_width("日本") == 4
    assert tables.display_width("e\u0301") == 1
    assert tables.display_width("a\u200bb") == 2
    text = tables.render(["name", "n"], [["日本", 1], ["abcd", 2]])
    assert [line.split()[-1] for line in text.splitlines()[2:]] == ["1", "2"]
    assert [tables.display_width(line) for line in text.splitlines()[2:]] == [7, 7]


def test_control_characters_cannot_reach_the_terminal():
    text = tables.render(["file"], [["a\x1b[31mb\nc\x00\x9b"]])
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    assert len(text.splitlines()) == 3
    assert "\x1b" not in tables.pairs([("file", "\x1b]0;title\x07")])


def test_none_is_an_empty_cell_and_zero_is_not():
    assert tables.render(["a", "b"], [[None, 0]]).splitlines()[2] == "   0"


def test_an_uneven_row_is_refused():
    with pytest.raises(ValueError, match=r"2 cells.*1 columns"):
        tables.render(["a"], [["x", "y"]])
    with pytest.raises(ValueError, match="align='c'"):
        tables.render(["a"], [], "c")
    with pytest.raises(ValueError, match="align='lr'"):
        tables.render(["a"], [], "lr")


@given(
    st.integers(1, 4).flatmap(
        lambda n: st.lists(st.lists(TEXT, min_size=n, max_size=n), min_size=1, max_size=5)
    )
)
def test_every_line_fits_the_rule(rows):
    lines = tables.render(["h"] * len(rows[0]), rows, "r" * len(rows[0])).split("\n")
    assert len(lines) == len(rows) + 2
    assert all(tables.display_width(line) <= len(lines[1]) for line in lines)


def test_pairs_line_up():
    assert tables.pairs([("run", "a"), ("tokens/s", 3)]).splitlines() == ["run       a", "tokens/s  3"]
    assert tables.pairs([]) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (9_994, "9.99 kB"),
        (9_996, "10.0 kB"),
        (99_960, "100 kB"),
        (999_499, "999 kB"),
        (999_600, "1.00 MB"),
        (12_345_678, "12.3 MB"),
        (-1500, "-1.50 kB"),
        (5e21, "5,000 EB"),
    ],
)
def test_size(value, text):
    assert tables.size(value) == text


@given(st.integers(0, 10**20))
def test_short_is_within_half_a_percent(value):
    text = tables.short(value)
    digits, unit = re.fullmatch(r"([\d,.]+)([kMGTPE]?)", text).groups()
    back = float(digits.replace(",", "")) * 1000 ** " kMGTPE".index(unit or " ")
    assert abs(back - value) <= max(0.005 * value, 0.5)
    assert len(digits.replace(".", "")) <= 3


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.00 s"),
        (0.424, "0.42 s"),
        (9.996, "10.0 s"),
        (59.96, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3599.7, "1 h 00 min"),
        (11_220, "3 h 07 min"),
        (86_399, "1 d 00 h"),
        (187_200, "2 d 04 h"),
        (-90, "-1 min 30 s"),
    ],
)
def test_duration(seconds, text):
    assert tables.duration(seconds) == text


def test_count_and_percent():
    assert tables.count(1_234_567) == "1,234,567"
    assert tables.percent(1, 8) == "12.5 %"
    assert tables.percent(1, 0) == "-"


def test_only_the_standard_library_is_imported():
    code = "import sys; import hpc_llm.watch.tables; print({'rich', 'torch', 'numpy'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"
