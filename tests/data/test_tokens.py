from __future__ import annotations

import random
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from pipeline import DOCUMENTS, Pipeline
from tokenizers import Tokenizer

from hpc_llm.data.tokens import bpe
from hpc_llm.data.tokens import tokenize as stage
from hpc_llm.data.tokens.indexed import Reader
from hpc_llm.data.tokens.packed import PackedDataset

VOCABULARY = 400


def corpus(documents: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    words = [
        "the",
        "quick",
        "brown",
        "fox",
        "naïve",
        "über",
        "日本語",
        "jumps",
        "over",
        "1234",
        "\n\n",
        "  x",
        "🎉",
        "<|endoftext|>",
    ]
    return [" ".join(rng.choices(words, k=rng.randint(0, 60))) for _ in range(documents)]


def prepared(path: Path, shards: list[list[str]], *, vocab_size: int = VOCABULARY) -> Pipeline:
    pipeline = Pipeline(path, shards)
    pipeline.config.tokenizer.vocab_size = vocab_size
    pipeline.config.pack.validation_fraction = 0.2
    pipeline.run("tokens.tokenizer", DOCUMENTS, shards=1)
    return pipeline


def tokenize(pipeline: Pipeline, order: list[int] | None = None) -> dict[str, int]:
    shards = pipeline.stages[DOCUMENTS].shards
    accounts = pipeline.run("tokens.tokenize", DOCUMENTS, "tokenizer", shards=shards, order=order)
    return {key: sum(a.extra[key] for a in accounts) for key in ("tokens_train", "tokens_valid")}


def readers(pipeline: Pipeline, split: str) -> list[Reader]:
    shards = range(pipeline.stages["tokenize"].shards)
    return [Reader(pipeline.folder.output("tokenize", i, f".{split}.bin")) for i in shards]


def decoded(pipeline: Pipeline, split: str) -> list[list[str]]:
    tokenizer = Tokenizer.from_file(str(pipeline.folder.output("tokenizer", 0, ".json")))
    out = []
    for reader in readers(pipeline, split):
        documents = [reader[i].tolist() for i in range(len(reader))]
        assert all(ids[-1] == 0 and 0 not in ids[:-1] for ids in documents)
        out.append([tokenizer.decode(ids[:-1], skip_special_tokens=False) for ids in documents])
    return out


def test_every_document_once_and_whole(tmp_path: Path) -> None:
    shards = [corpus(80, 1), [], corpus(30, 2)]
    pipeline = prepared(tmp_path, shards)
    counts = tokenize(pipeline)
    train, valid = decoded(pipeline, "train"), decoded(pipeline, "valid")
    for shard, kept, held_out in zip(shards, train, valid, strict=True):
        assert sorted(kept + held_out) == sorted(shard)
    assert 5 < sum(map(len, valid)) < 45  # about a fifth of 110
    for split in ("train", "valid"):
        assert counts[f"tokens_{split}"] == sum(len(r.tokens) for r in readers(pipeline, split))
        assert {r.dtype for r in readers(pipeline, split)} == {np.dtype(np.uint16)}
    assert PackedDataset([r for r in pipeline.folder.stage("tokenize").glob("out/*.train.bin")], 16)[
        0
    ].shape == (17,)


def test_bytes_do_not_depend_on_order_or_chunk_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = [corpus(50, 1), corpus(30, 2)]
    a, b = (prepared(tmp_path / name, shards) for name in "ab")
    tokenize(a)
    monkeypatch.setattr(stage, "ENCODE_BYTES", 300)
    monkeypatch.setattr(stage, "GATHER_TOKENS", 50)
    tokenize(b, order=[1, 0])
    assert a.bytes_of("tokenize") == b.bytes_of("tokenize")


def test_documents_are_shuffled_by_seed_and_shard(tmp_path: Path) -> None:
    texts = [f"document {i}" for i in range(300)]
    pipeline = prepared(tmp_path, [texts, texts])
    pipeline.config.pack.validation_fraction = 0.0
    tokenize(pipeline)
    first, second = decoded(pipeline, "train")
    assert decoded(pipeline, "valid") == [[], []]
    places = np.array([int(t.split()[1]) for t in first])
    # Rank correlation with the original order has sd 1/sqrt(n-1) under a uniform shuffle.
    assert abs(np.corrcoef(places, np.arange(300))[0, 1]) < 4 / np.sqrt(299)
    assert first != second
    pipeline.config.pack.seed = 1
    tokenize(pipeline)
    assert decoded(pipeline, "train")[0] != first


def test_validation_depends_on_the_id_alone(tmp_path: Path) -> None:
    rows = [{"id": f"id {i}", "text": t} for i, t in enumerate(corpus(60))]
    one = prepared(tmp_path / "one", [rows])
    many = prepared(tmp_path / "many", [rows[40:], rows[:10], rows[10:40]])
    for pipeline in (one, many):
        tokenize(pipeline)
    assert sorted(chain(*decoded(one, "valid"))) == sorted(chain(*decoded(many, "valid")))


def test_tokenizer_is_the_same_file_whatever_the_shards(tmp_path: Path) -> None:
    rows = [{"id": f"id {i}", "text": t} for i, t in enumerate(corpus(200))]
    one = prepared(tmp_path / "one", [rows])
    many = prepared(tmp_path / "many", [rows[150:], rows[:70], [], rows[70:150]])
    assert one.bytes_of("tokenizer") == many.bytes_of("tokenizer")


def test_trained_tokenizer(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pipeline = prepared(tmp_path, [corpus(100)])
    path = pipeline.folder.output("tokenizer", 0, ".json")
    tokenizer = Tokenizer.from_file(str(path))
    assert [tokenizer.token_to_id(t) for t in bpe.SPECIAL_TOKENS] == [0, 1]
    assert 258 < bpe.vocab_size(tokenizer) == tokenizer.get_vocab_size() <= VOCABULARY
    fast = transformers.PreTrainedTokenizerFast(tokenizer_file=str(path))
    text = "never seen: \x00 ½ 한국어 \t\r\n  the quick"
    assert fast.encode(text) == tokenizer.encode(text).ids
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_no_document_to_train_on_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no document is left to train a tokenizer on"):
        prepared(tmp_path, [[], []])


def test_a_vocabulary_without_room_for_bytes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"tokenizer\.vocab_size=257: must be at least 258"):
        prepared(tmp_path, [["x"]], vocab_size=257)


def test_an_existing_tokenizer_is_copied(tmp_path: Path) -> None:
    source = tmp_path / "tokenizer.json"
    source.write_bytes(prepared(tmp_path / "a", [corpus(100)]).bytes_of("tokenizer")["00000.json"])
    pipeline = Pipeline(tmp_path / "b", [corpus(3)])
    pipeline.config.tokenizer.path = str(source)
    pipeline.run("tokens.tokenizer", DOCUMENTS, shards=1)
    assert pipeline.bytes_of("tokenizer") == {"00000.json": source.read_bytes()}


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "no such file"), ("{}", "not a tokenizer.json"), ("nameless", "has no '<|endoftext|>'")],
)
def test_an_unusable_tokenizer_is_refused(tmp_path: Path, content: str | None, message: str) -> None:
    source = tmp_path / "tokenizer.json"
    if content == "nameless":
        content = bpe.train(["text"], 300, 2).to_str().replace("endoftext", "other")
    if content is not None:
        source.write_text(content)
    pipeline = Pipeline(tmp_path / "b", [["x"]])
    pipeline.config.tokenizer.path = str(source)
    with pytest.raises(ValueError, match=message.replace("|", r"\|")):
        pipeline.run("tokens.tokenizer", DOCUMENTS, shards=1)
