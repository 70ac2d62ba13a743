from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hpc_llm.config.schema import C4Config, Config, FiltersConfig
from hpc_llm.data import documents
from hpc_llm.data.filters import rules, stage
from hpc_llm.data.filters.features import Features
from hpc_llm.run.folder import RunFolder
from hpc_llm.run.shard import Shard
from hpc_llm.run.stage import Stage

GOOD = """The harbour wakes before the sun, and boats that have waited all night begin to move.
A man with a red lantern walks along the quay, counting barrels of salted fish for the market.
Nobody speaks; only gulls quarrel over scraps near the old customs house.
By seven the first buyers arrive with carts, eager to haggle about price and weight.
When bells ring from the chapel on the hill, every stall has already sold half its catch.
Children run between crates, hoping someone will give them an orange."""


def run(tmp_path: Path, texts: list[str], filters: FiltersConfig) -> tuple[Shard, list[dict], list[dict]]:
    read = Stage("read", "array", "")
    plan = Stage("filter", "array", "hpc_llm.data.filters.stage:run", inputs=("read",))
    folder = RunFolder(tmp_path)
    source = folder.output("read", 0, ".parquet")
    source.parent.mkdir(parents=True)
    with documents.Writer(source) as writer:
        for i, text in enumerate(texts):
            writer.append(
                {"id": str(i), "text": text, "source": "s", "url": None, "meta": json.dumps({"i": i})}
            )
    shard = Shard(folder, Config(filters=filters), {"read": read, "filter": plan}, plan, 0)
    stage.run(shard)
    shard.finish()
    kept, dropped = (
        [row for batch in documents.batches(folder.output("filter", 0, suffix)) for row in batch.to_pylist()]
        for suffix in (".parquet", ".dropped.parquet")
    )
    return shard, kept, dropped


def test_documents_are_kept_cleaned_or_dropped_whole_and_the_account_balances(tmp_path: Path) -> None:
    texts = [
        GOOD,
        "",
        "\n".join(GOOD.splitlines()[:3]),
        GOOD + "\nWe use cookies on this site.",
        GOOD + "\nA set {x} of these.",
    ]
    shard, kept, dropped = run(tmp_path, texts, FiltersConfig())
    assert [(row["id"], row["text"]) for row in kept] == [("0", GOOD), ("3", GOOD)]
    assert kept[1]["meta"] == '{"i": 3}'
    assert [(row["id"], row["reason"], row["text"]) for row in dropped] == [
        ("1", "gopher_repetition/empty", ""),
        ("2", "gopher_quality/short", texts[2]),
        ("4", "c4/curly_bracket", texts[4]),
    ]
    account = shard.account
    assert (account.documents_in, account.documents_out) == (5, 2)
    assert account.bytes_in == sum(map(len, texts)) and account.bytes_out == 2 * len(GOOD)
    assert account.extra == {"c4_lines_removed": 1}


def test_everything_dropped_or_nothing_read_leaves_valid_files(tmp_path: Path) -> None:
    shard, kept, dropped = run(tmp_path / "a", ["x"] * 10, FiltersConfig())
    assert not kept and len(dropped) == 10 and shard.account.dropped == {"gopher_quality/short": 10}
    shard, kept, dropped = run(tmp_path / "b", [], FiltersConfig())
    assert not kept and not dropped and shard.account.documents_in == 0


def test_filters_that_are_off_change_nothing(tmp_path: Path) -> None:
    filters = FiltersConfig()
    filters.gopher_quality.enabled = filters.gopher_repetition.enabled = filters.c4.enabled = False
    _, kept, dropped = run(tmp_path, ["", "x {", " a\n\n"], filters)
    assert [row["text"] for row in kept] == ["", "x {", " a\n\n"] and not dropped


def test_a_document_left_without_text_is_dropped(tmp_path: Path) -> None:
    filters = FiltersConfig(c4=C4Config(min_sentences=0))
    filters.gopher_quality.enabled = filters.gopher_repetition.enabled = False
    _, kept, dropped = run(tmp_path, ["ab", "one two three"], filters)
    assert [row["text"] for row in kept] == ["one two three"]
    assert [row["reason"] for row in dropped] == ["c4/empty"]


@pytest.mark.parametrize(
    ("field", "at_bound", "beyond", "reason"),
    [
        ("plain_words", 50, 49, "gopher_quality/short"),
        ("plain_words", 100_000, 100_001, "gopher_quality/long"),
        ("plain_word_chars", 300, 299, "gopher_quality/short_words"),
        ("plain_word_chars", 1000, 1001, "gopher_quality/long_words"),
        ("hashes", 10, 11, "gopher_quality/hash_symbols"),
        ("ellipses", 10, 11, "gopher_quality/ellipsis_symbols"),
        ("bullet_lines", 9, 10, "gopher_quality/bullet_lines"),
        ("ellipsis_lines", 3, 4, "gopher_quality/ellipsis_lines"),
        ("alpha_words", 80, 79, "gopher_quality/non_alphabetic"),
        ("stop_words", 2, 1, "gopher_quality/stop_words"),
        ("dup_paragraphs", 3, 4, "gopher_repetition/dup_paragraph_fraction"),
        ("dup_paragraph_chars", 200, 201, "gopher_repetition/dup_paragraph_char_fraction"),
        ("dup_pieces", 3, 4, "gopher_repetition/dup_line_fraction"),
        ("dup_piece_chars", 200, 201, "gopher_repetition/dup_line_char_fraction"),
        ("top_ngram_chars", [200, 180, 160], [200, 180, 161], "gopher_repetition/top_4_gram"),
        (
            "dup_ngram_chars",
            [150, 140, 130, 120, 110, 100],
            [150, 141, 130, 120, 110, 101],
            "gopher_repetition/dup_6_gram",
        ),
    ],
)
def test_the_published_bounds_pass_and_what_is_beyond_does_not(
    field: str, at_bound: object, beyond: object, reason: str
) -> None:
    """Thresholds of Rae et al. 2021, Table A1 and section A.1.1, as the defaults have them."""
    usual = {
        "chars": 1000, "words": 100, "plain_words": 100, "plain_word_chars": 500, "hashes": 0, "ellipses": 0,
        "lines": 10, "bullet_lines": 0, "ellipsis_lines": 0, "alpha_words": 100, "stop_words": 8,
        "paragraphs": 10, "dup_paragraphs": 0, "dup_paragraph_chars": 0, "pieces": 10, "dup_pieces": 0,
        "dup_piece_chars": 0, "top_ngram_chars": [0] * 3, "dup_ngram_chars": [0] * 6,
    }  # fmt: skip
    if field == "plain_words":
        usual["plain_word_chars"] = at_bound * 5
    columns = {name: np.array([value] * 3) for name, value in usual.items()}
    columns[field] = np.array([usual[field], at_bound, beyond])
    found = rules.first_reason(rules.gopher(Features(**columns), FiltersConfig()), 3)
    assert found[1:] == [None, reason]
