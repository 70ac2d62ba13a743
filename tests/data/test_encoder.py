from __future__ import annotations

import random
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, normalizers, pre_tokenizers

from hpc_llm.data.documents import utf8
from hpc_llm.data.tokens import bpe, encoder, pretokens
from hpc_llm.data.tokens.encoder import Encoder

PIECES = [
    "the ",
    " quick",
    "don't",
    "we'll",
    "'s",
    " 'd",
    "I'VE",
    "12",
    " 3½",
    "٣",
    "\n",
    "\n\n  ",
    " ",
    "   ",
    "\t",
    "!?",
    " --",
    "é",
    "日本",
    "🎉",
    "\u00a0",
    "\u2028",
    "<|endoftext|>",
    "\x00",
    "'",
    "''re",
    "\u0301",
]


def corpus(pieces: int, seed: int = 0) -> str:
    return "".join(random.Random(seed).choices(PIECES, k=pieces))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("bpe") / "tokenizer.json"
    bpe.train([corpus(5000)], 500, 2).save(str(path))
    return bpe.load(path)


def column(texts: list[str]) -> pa.Array:
    return pa.array(texts, type=pa.large_string())


def expected(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    return [[*tokenizer.encode(text, add_special_tokens=False).ids, 0] for text in texts]


def encoded(encoder: Encoder, texts: list[str]) -> list[list[int]]:
    tokens, lengths = encoder.encode(*utf8(column(texts)))
    assert tokens.dtype == np.uint16
    return [part.tolist() for part in np.split(tokens, np.cumsum(lengths)[:-1])] if texts else []


TEXTS = st.lists(
    st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12).map("".join), max_size=6
)


@settings(deadline=None, max_examples=150)
@given(TEXTS, TEXTS)
def test_ids_are_those_of_the_library(tokenizer: Tokenizer, first: list[str], second: list[str]) -> None:
    fast = Encoder(tokenizer, np.dtype(np.uint16))
    assert encoded(fast, first) == expected(tokenizer, first)
    assert encoded(fast, second) == expected(tokenizer, second)  # with what the first taught


def test_every_code_point_has_the_library_s_class() -> None:
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False)
    kinds = pretokens.classes()
    rng = random.Random(0)
    for code in [*range(0x3000), *rng.sample(range(0x3000, sys.maxunicode + 1), 5000)]:
        if 0xD800 <= code < 0xE000:
            continue
        joined = [len(cut.pre_tokenize_str(f"{beside}{chr(code)}")) == 1 for beside in "!a1"]
        assert joined == [kinds[code] == k for k in (pretokens.SYMBOL, pretokens.LETTER, pretokens.NUMBER)], (
            code
        )


def test_the_table_grows_and_forgets(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    texts = [
        " ".join(str(rng.randrange(10**9)) + "x" * rng.randrange(40) for _ in range(2000)) for _ in range(40)
    ]
    fast = Encoder(tokenizer, np.dtype(np.uint16))
    assert encoded(fast, texts) == expected(tokenizer, texts)
    grown = fast._table.count
    assert grown > 50_000
    monkeypatch.setattr(encoder, "_MAX_ENTRIES", 1000)
    assert encoded(fast, texts[:2]) == expected(tokenizer, texts[:2])
    assert fast._table.count < grown / 10


def test_a_slice_and_nothing(tokenizer: Tokenizer) -> None:
    texts = [corpus(50, seed) for seed in range(6)]
    fast = Encoder(tokenizer, np.dtype(np.uint16))
    tokens, lengths = fast.encode(*utf8(column(texts).slice(2, 3)))
    assert tokens.tolist() == [i for ids in expected(tokenizer, texts[2:5]) for i in ids]
    assert len(lengths) == 3
    assert encoded(fast, []) == []
    assert encoded(fast, ["", ""]) == [[0], [0]]


@pytest.mark.parametrize("change", ["normalizer", "prefix space", "other cut", "added token"])
def test_other_schemes_go_through_the_library(change: str) -> None:
    other = bpe.train([corpus(2000)], 400, 2)
    if change == "normalizer":
        other.normalizer = normalizers.Lowercase()
    elif change == "prefix space":
        other.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    elif change == "other cut":
        digits = pre_tokenizers.Digits(individual_digits=True)
        other.pre_tokenizer = pre_tokenizers.Sequence(
            [digits, pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    else:
        other.add_tokens(["quick"])
    other.encode_special_tokens = True
    assert not encoder.is_gpt2_scheme(other)
    texts = [corpus(60, 5), "", "The Quick 12345"]
    assert encoded(Encoder(other, np.dtype(np.uint16)), texts) == expected(other, texts)
