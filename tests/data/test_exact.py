from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline import DOCUMENTS, Pipeline

from hpc_llm.data.dedup.exact_sign import digests


def dedup(pipeline: Pipeline, partitions: int, reverse: bool = False) -> None:
    pipeline.config.dedup.exact.partitions = partitions
    shards = pipeline.stages[DOCUMENTS].shards
    step = -1 if reverse else 1
    pipeline.run("dedup.exact_sign", DOCUMENTS, shards=shards, order=range(shards)[::step])
    pipeline.run(
        "dedup.exact_match", DOCUMENTS, "exact_sign", shards=partitions, order=range(partitions)[::step]
    )
    pipeline.run("dedup.exact_filter", DOCUMENTS, "exact_match", shards=shards, order=range(shards)[::step])


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_the_first_of_each_text_survives(tmp_path: Path, partitions: int) -> None:
    words = [f"text {i % 17} {i % 11}" for i in range(300)]
    shards = [words[:100], [], words[100:220], words[220:]]
    pipeline = Pipeline(tmp_path / "a", shards)
    dedup(pipeline, partitions)
    assert pipeline.texts("exact_filter") == list(dict.fromkeys(words))
    dropped = [row for rows in pipeline.documents("exact_filter", ".dropped.parquet") for row in rows]
    assert len(dropped) == len(words) - len(set(words))
    for row in dropped:
        shard, at = map(int, row["kept_id"].split(":"))
        assert shards[shard][at] == row["text"]
        assert row["reason"] == "exact_duplicate"
    again = Pipeline(tmp_path / "b", shards)
    dedup(again, partitions, reverse=True)
    for stage in ("exact_sign", "exact_match", "exact_filter"):
        assert again.bytes_of(stage) == pipeline.bytes_of(stage)


def test_no_documents_at_all(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, [[], []])
    dedup(pipeline, 2)
    assert pipeline.documents("exact_filter") == [[], []]


def test_partitions_that_differ_from_the_plan_are_refused(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, [["a"]])
    pipeline.run("dedup.exact_sign", DOCUMENTS, shards=1)
    with pytest.raises(ValueError, match=r"dedup\.exact\.partitions=2"):
        pipeline.run("dedup.exact_match", DOCUMENTS, "exact_sign", shards=3)


def test_documents_that_changed_after_signing_are_refused(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, [["a", "b", "a"]])
    dedup(pipeline, 2)
    pipeline.write_documents(0, ["a", "b", "c"])
    with pytest.raises(ValueError, match="not the documents"):
        pipeline.run("dedup.exact_filter", DOCUMENTS, "exact_match", shards=1)


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        ("a  b\n", "a b", True),
        ("\u00e9t\u00e9", "e\u0301te\u0301", True),
        ("a\u00a0b", "a b", True),
        ("", " \n", True),
        ("A b", "a b", False),
        ("a b.", "a b", False),
        ("ab", "a b", False),
    ],
)
def test_normal_form(left: str, right: str, equal: bool) -> None:
    a, b = digests([left, right]).tolist()
    assert (a == b) is equal


@settings(deadline=None)
@given(st.lists(st.text(), max_size=8))
def test_hashes_differ_where_words_differ(texts: list[str]) -> None:
    import unicodedata

    forms = {tuple(unicodedata.normalize("NFC", t).split()) for t in texts}
    assert len({tuple(d) for d in digests(texts).tolist()}) == len(forms)
