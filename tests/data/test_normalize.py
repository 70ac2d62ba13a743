from __future__ import annotations

import re
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpc_llm.data.dedup.normalize import tables, word_hashes


def words(text: str) -> list[int]:
    data = np.frombuffer(text.encode(), dtype=np.uint8)
    out = np.empty(len(data) // 2 + 1, dtype=np.uint64)
    return out[: word_hashes(data, 0, len(data), *tables(), out)].tolist()


def reference(text: str) -> list[str]:
    """The same definition over a whole string, with regular expressions."""
    text = unicodedata.normalize("NFD", text.lower()).replace("ς", "σ")
    text = "".join(c for c in text if unicodedata.category(c) not in ("Mn", "Cf"))
    text = "".join("7" if unicodedata.category(c) == "Nd" else c for c in text)
    text = re.sub("7+([.,،٫⎖⎗⎘]7+)?", "0", text)
    blank = ("P", "S", "Z")
    return "".join(
        " " if unicodedata.category(c)[0] in blank or unicodedata.category(c) == "Cc" else c for c in text
    ).split()


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Hello, World!", "hello world"),
        ("Éclair ÀÇÑ", "eclair acn"),
        ("12 and 1,000.5", "0 and 0 0"),
        ("version 1.2", "version 7"),
        ("a\u00a0b\u2003c\nd", "a b c d"),
        ("각", unicodedata.normalize("NFD", "각")),
        ("ΟΔΥΣΣΕΥΣ", "οδυσσευς"),
        ("soft\u00adhyphen", "softhyphen"),
        ("٣٫١٤", "3"),
        ("...", ""),
        ("x1.", "x5"),
    ],
)
def test_equal(left: str, right: str) -> None:
    assert words(left) == words(right)


def test_different() -> None:
    texts = ["a b", "ab", "b a", "a", "", "a0", "a 0", "0.0.0", "été été", "日本", "日 本", "\U0001f600 x y"]
    assert len({tuple(words(t)) for t in texts}) == len(texts)


@settings(deadline=None)  # compiles
@given(
    st.lists(
        st.text(st.sampled_from("aÀé1٣.,،ς Σ\n\u0301\u00ad-😀日İ") | st.characters(codec="utf-8")),
        min_size=2,
        max_size=2,
    )
)
def test_same_words_exactly_when_the_reference_says_so(texts: list[str]) -> None:
    left, right = (reference(t) for t in texts)
    assert (words(texts[0]) == words(texts[1])) == (left == right)
    assert len(words(texts[0])) == len(left)
