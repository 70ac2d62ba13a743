from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from pipeline import DOCUMENTS, Pipeline

from hpc_llm.data.dedup.minhash import MinHash
from hpc_llm.data.documents import strings, utf8

SIGN, MATCH, CLUSTER, FILTER = (f"dedup.minhash_{s}" for s in ("sign", "match", "cluster", "filter"))


def dedup(pipeline: Pipeline, partitions: int = 2, reverse: bool = False) -> None:
    shards = pipeline.stages[DOCUMENTS].shards
    step = -1 if reverse else 1
    pipeline.run(SIGN, DOCUMENTS, shards=shards, order=range(shards)[::step])
    pipeline.run(MATCH, DOCUMENTS, "minhash_sign", shards=partitions, order=range(partitions)[::step])
    pipeline.run(CLUSTER, DOCUMENTS, "minhash_match", shards=1)
    pipeline.run(FILTER, DOCUMENTS, "minhash_cluster", shards=shards, order=range(shards)[::step])


def sentence(rng: random.Random, words: int) -> list[str]:
    return ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 8))) for _ in range(words)]


def altered(rng: random.Random, words: list[str]) -> list[str]:
    """A copy with scattered words replaced and a new tail: any Jaccard similarity from about 0.3 to 1."""
    copy = list(words)
    for at in rng.sample(range(len(copy)), rng.choice([0, 0, 1, 2, 3])):
        copy[at] = sentence(rng, 1)[0]
    tail = rng.randint(0, len(copy) * 2 // 5)
    return copy[: len(copy) - tail] + sentence(rng, tail)


def dressed(rng: random.Random, words: list[str]) -> str:
    """The words in other clothes: case, punctuation, white space."""
    return "".join(
        rng.choice([w, w.capitalize(), w.upper()]) + rng.choice([" ", "  ", ", ", ".\n", "\t", " - "])
        for w in words
    )


def jaccard(left: list[str], right: list[str]) -> float:
    a, b = ({tuple(words[i : i + 5]) for i in range(len(words) - 4)} for words in (left, right))
    return len(a & b) / len(a | b)


def test_recall_follows_the_banding_curve_across_shards(tmp_path: Path) -> None:
    rng = random.Random(20)
    shards: list[list[str]] = [[], [], [], []]
    pairs = []
    for at in range(3000):
        base = sentence(rng, rng.randint(60, 140))
        copy = altered(rng, base)
        place = (at % 4, rng.randrange(4))
        positions = []
        for shard, words in zip(place, (base, copy), strict=True):
            positions.append((shard, len(shards[shard])))
            shards[shard].append(dressed(rng, words))
        pairs.append((jaccard(base, copy), min(positions), max(positions)))
    pipeline = Pipeline(tmp_path, shards)
    dedup(pipeline, partitions=3)

    dropped = pipeline.documents("minhash_filter", ".dropped.parquet")
    survivor = {row["id"]: row["kept_id"] for rows in dropped for row in rows}
    found = np.array([survivor.pop(f"doc-{b[0]}-{b[1]}", None) == f"{a[0]:05d}:{a[1]}" for _, a, b in pairs])
    assert not survivor  # unrelated documents were never taken for duplicates

    similarity = np.array([p[0] for p in pairs])
    across = np.array([a[0] != b[0] for _, a, b in pairs])
    expected = MinHash().recall(similarity)

    def agree(inside: npt.NDArray[np.bool_], sigmas: float) -> None:
        """The number found is binomial around the curve, pair by pair."""
        mean, sd = expected[inside].sum(), np.sqrt((expected[inside] * (1 - expected[inside])).sum())
        assert abs(found[inside].sum() - mean) <= sigmas * sd + 0.5, (inside.sum(), found[inside].sum(), mean)

    for chosen in (across, ~across):
        for low in np.arange(0.3, 1.0, 0.1):
            inside = chosen & (similarity >= low) & (similarity < low + 0.1)
            assert inside.sum() >= 40
            agree(inside, 4)
    agree((similarity >= 0.5) & (similarity < 0.9), 2.5)
    assert found[similarity == 1].all()


def test_bytes_do_not_depend_on_order_or_repetition_nor_survivors_on_partitions(tmp_path: Path) -> None:
    rng = random.Random(1)
    base = [sentence(rng, 30) for _ in range(20)]
    shards = [[dressed(rng, rng.choice(base)) for _ in range(30)] for _ in range(3)]
    stages = ("minhash_sign", "minhash_match", "minhash_cluster", "minhash_filter")
    outputs = []
    for name, partitions, reverse in (
        ("a", 2, False),
        ("b", 2, True),
        ("c", 1, False),
        ("d", 14 * 8 + 3, False),
    ):
        pipeline = Pipeline(tmp_path / name, shards)
        dedup(pipeline, partitions, reverse)
        outputs.append({stage: pipeline.bytes_of(stage) for stage in stages})
    assert outputs[0] == outputs[1]
    assert all(o["minhash_filter"] == outputs[0]["minhash_filter"] for o in outputs)
    kept = pipeline.texts("minhash_filter")
    assert len(
        {tuple(t.lower().replace(",", "").replace(".", "").replace("-", "").split()) for t in kept}
    ) == len(kept)


def test_the_first_of_a_chain_survives(tmp_path: Path) -> None:
    words = sentence(random.Random(3), 200)
    chain = [
        " ".join(words[10 * i : 10 * i + 150]) for i in range(5)
    ]  # neighbours are alike, the ends are not
    pipeline = Pipeline(tmp_path, [["something else entirely"], chain[::-1][:3], [], chain[:2]])
    dedup(pipeline)
    assert pipeline.texts("minhash_filter") == ["something else entirely", chain[4]]
    dropped = pipeline.documents("minhash_filter", ".dropped.parquet")
    assert {row["kept_id"] for rows in dropped for row in rows} == {"00001:0"}
    assert {row["reason"] for rows in dropped for row in rows} == {"minhash_duplicate"}


def test_short_and_empty_documents(tmp_path: Path) -> None:
    shards = [["", "Two words", "...", "one"], ["two  WORDS!", "", "words two", "one two words"]]
    pipeline = Pipeline(tmp_path, shards)
    dedup(pipeline)
    assert pipeline.texts("minhash_filter") == [
        "",
        "Two words",
        "...",
        "one",
        "",
        "words two",
        "one two words",
    ]


def test_no_documents_at_all(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, [[], []])
    dedup(pipeline)
    assert pipeline.documents("minhash_filter") == [[], []]


@pytest.mark.parametrize("change", ["added", "reordered", "edited"])
def test_documents_that_changed_after_signing_are_refused(tmp_path: Path, change: str) -> None:
    texts = ["a b c d e f", "g h i j k l", "a b c d e f"]
    pipeline = Pipeline(tmp_path, [texts, texts])
    dedup(pipeline)
    before = pipeline.bytes_of("minhash_filter")
    pipeline.write_documents(
        1,
        {"added": ["new", *texts], "reordered": [*texts[1:], texts[0]], "edited": [*texts[:2], "z"]}[change],
    )
    with pytest.raises(ValueError, match="not the documents that the removal lists were made from"):
        pipeline.run(FILTER, DOCUMENTS, "minhash_cluster", shards=2)
    assert pipeline.bytes_of("minhash_filter") == before


def test_another_shard_count_is_refused(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, [["a b"], ["c d"]])
    dedup(pipeline)
    more = Pipeline(tmp_path, [["a b"], ["c d"], ["e f"]])
    more.stages |= {n: s for n, s in pipeline.stages.items() if n != DOCUMENTS}
    with pytest.raises(ValueError, match="made from 2 document shards, there are 3"):
        more.run(FILTER, DOCUMENTS, "minhash_cluster", shards=3)


def test_signatures_of_other_parameters_are_refused(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, [["a b"], ["c d"]])
    pipeline.run(SIGN, DOCUMENTS, shards=2)
    pipeline.config.dedup.minhash.seed = 2
    with pytest.raises(ValueError, match="signed with"):
        pipeline.run(MATCH, DOCUMENTS, "minhash_sign", shards=1)


def test_a_swapped_signature_file_is_refused(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, [["a b"], ["c d"]])
    pipeline.run(SIGN, DOCUMENTS, shards=2)
    first, second = (pipeline.folder.output("minhash_sign", i, ".sig") for i in range(2))
    second.write_bytes(first.read_bytes())
    with pytest.raises(ValueError, match="signatures of shard 0, expected 1"):
        pipeline.run(MATCH, DOCUMENTS, "minhash_sign", shards=1)


def test_a_slice_of_a_column_is_signed_as_it_stands_alone() -> None:
    import pyarrow as pa

    texts = ["first document here", "second one", "", "and the third document of them all"]
    column = pa.array(texts, type=pa.large_string())
    keys, signed = MinHash(ngram=2).keys(*utf8(column.slice(1, 3)))
    alone, alone_signed = MinHash(ngram=2).keys(*utf8(pa.array(texts[1:], type=pa.large_string())))
    np.testing.assert_array_equal(keys, alone)
    assert signed.tolist() == alone_signed.tolist() == [True, False, True]
    assert strings(*utf8(column)).to_pylist() == texts


@pytest.mark.parametrize("name", ["ngram", "bands", "rows"])
def test_parameters_below_one_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"dedup.minhash.{name}=0"):
        MinHash(**{name: 0})
