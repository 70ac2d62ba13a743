"""The compiled counts against plain Python, for any Unicode text."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
from filter_reference import clean, counts, sentences
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hpc_llm.config.schema import C4Config
from hpc_llm.data import documents
from hpc_llm.data.filters import c4, features, unicode

# Words, marks and spaces that meet the rules, in between any characters at all.
PIECES = [
    "the",
    "of",
    "and",
    "a",
    "ab",
    "b",
    "bc",
    "#",
    "...",
    "..",
    ".",
    "…",
    "•",
    "-",
    "é",
    "漢字",
    "𝒳",
    "１",
    "«",
]
SPACES = [" ", "\n", "\n\n", "\n\n\n", "\r\n", "\r", "\t", "\u2028", "\x85", "\x1c", "\u3000", "\xa0", ""]
token = st.sampled_from(PIECES) | st.text(max_size=3)
texts = st.lists(st.tuples(token, st.sampled_from(SPACES)), max_size=60).map(
    lambda pairs: "".join(a + b for a, b in pairs)
)


def rows(found: features.Features, document: int) -> list[int]:
    columns = [column[document] for column in vars(found).values()]
    return [*map(int, columns[:-2]), *map(int, columns[-2]), *map(int, columns[-1])]


@settings(max_examples=400, deadline=None)
@given(st.lists(texts, min_size=1, max_size=4))
@example(["", " ", "\n", "\n\n", "a\n", "\na\n", "a\n\n", "\n\na", "a\r\nb\r", "…", "....\n", "......"])
@example(["\x01\n", "\x00\x02\n"])  # their hashes were that of the empty line
@example(["a bc d e f g ab c d e f g", "a b c d e fg a b c d ef g"])  # equal only when joined without spaces
def test_counts_equal_plain_python(batch: list[str]) -> None:
    column = pa.array(["padding", *batch], type=pa.large_string()).slice(1)
    found = features.features(*documents.utf8(column))
    for i, text in enumerate(batch):
        assert rows(found, i) == counts(text)


def test_flags_are_those_of_str() -> None:
    table = unicode.flags()
    for point in [*range(0x3100), *range(0x1D400, 0x1D800), 0xFF11, 0x10FFFF]:
        char = chr(point)
        assert bool(table[point] & unicode.SPACE) == char.isspace()
        assert bool(table[point] & unicode.ALPHA) == char.isalpha()
        assert bool(table[point] & unicode.DIGIT) == bool(re.fullmatch(r"\d", char))
        assert bool(table[point] & unicode.BREAK) == (len(f"a{char}b".splitlines()) == 2)


# C4 ---------------------------------------------------------------------------------------------------

C4_PIECES = [
    *(
        "Lorem Ipsum",
        "lorem",
        "JavaScript",
        "java",
        "[1]script",
        "{",
        "privacy policy",
        "cooKie policy",
        "uses",
    ),
    *(
        "cookies",
        "[edit]",
        "[citation needed]",
        "[",
        "[12",
        "]",
        "[１]",
        "use of",
        "terms of use",
        "İ",
        "Word",
    ),
    *('end."', "end.)", "end...", "one. two", "mid.dle", "?!", "。", "漢。字", "x" * 12, "\u212a"),
]
c4_texts = st.lists(
    st.tuples(st.sampled_from(C4_PIECES) | st.text(max_size=3), st.sampled_from([*SPACES, " ", " ", " "])),
    max_size=40,
).map(lambda pairs: "".join(a + b for a, b in pairs))
configs = st.builds(
    C4Config,
    require_terminal_punctuation=st.booleans(),
    min_words_per_line=st.integers(0, 3),
    max_word_length=st.integers(8, 15),
    min_sentences=st.integers(0, 3),
    drop_javascript_lines=st.booleans(),
    drop_policy_lines=st.booleans(),
    drop_curly_bracket=st.booleans(),
    drop_lorem_ipsum=st.booleans(),
    remove_citations=st.booleans(),
)


@settings(max_examples=600, deadline=None)
@given(st.lists(c4_texts, min_size=1, max_size=4), configs, st.data())
def test_c4_equals_plain_python(batch: list[str], config: C4Config, data: st.DataObject) -> None:
    column = pa.array(["padding", *batch], type=pa.large_string()).slice(1)
    skip = pa.array(data.draw(st.lists(st.booleans(), min_size=len(batch), max_size=len(batch))))
    out = c4.clean(*documents.utf8(column), skip.to_numpy(zero_copy_only=False), config)
    strings = documents.strings(out.buffer, out.offsets)
    strings.validate(full=True)
    for i, text in enumerate(batch):
        wanted = None if skip[i].as_py() else clean(text, config)
        assert strings[i].as_py() == (wanted or "")
        assert (out.verdicts[i] == 0) == (wanted is not None or skip[i].as_py())


def test_lower_case_is_that_of_str() -> None:
    """U+212A, the Kelvin sign, lowers to "k"; U+0130, İ, to an i and a dot above, which matches nothing."""
    lines = ["We use coo\u212aies here.", "No javascr\u0130pt here today.", "JAVASCRIPT IS HERE TODAY."]
    column = pa.array(lines, type=pa.large_string())
    out = c4.clean(*documents.utf8(column), np.zeros(3, dtype=bool), C4Config(min_sentences=1))
    assert [text or None for text in documents.strings(out.buffer, out.offsets).to_pylist()] == [
        clean(line, C4Config(min_sentences=1)) for line in lines
    ]
    assert out.verdicts.tolist() == [3, 0, 3]


def test_sentences_by_example() -> None:
    examples = {
        "One. Two! Three? Four": 4,
        'He said "no." Then he left.': 2,
        "v1.2.3 is out (at last.) See p. 4": 3,  # an abbreviation before a space counts as an end
        "Wait... what": 2,
        "...": 0,
        "第一。第二！第三": 3,
        "": 0,
    }
    config = C4Config(min_words_per_line=0)
    for text, count in examples.items():
        assert len(sentences(text)) == count
        for bound, passes in ((count, True), (count + 1, False)):
            config.min_sentences = bound
            column = pa.array([text], type=pa.large_string())
            out = c4.clean(*documents.utf8(column), pa.array([False]).to_numpy(zero_copy_only=False), config)
            assert c4.REASONS[out.verdicts[0]] == (
                "c4/too_few_sentences" if not passes else "c4/empty" if not text else None
            )
