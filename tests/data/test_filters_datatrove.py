"""Verdicts and cleaned texts against datatrove's own filters, document by document, on real text.

datatrove's word tokenizer is replaced by ``str.split``, our dialect's definition of a word, and its
sentence tokenizer by the rule that `c4` documents; nothing else of it is touched. There is no document
on which the two differ.
"""

from __future__ import annotations

import importlib
from collections import Counter
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
from datatrove.data import Document
from filter_reference import sentences

from hpc_llm.config.schema import C4Config, FiltersConfig, SourceConfig
from hpc_llm.data.filters import stage
from hpc_llm.data.read import jsonl, outcome, python_env, warc
from hpc_llm.run import inputs

REASONS = {
    "empty": "gopher_repetition/empty",
    "dup_para_frac": "gopher_repetition/dup_paragraph_fraction",
    "dup_para_char_frac": "gopher_repetition/dup_paragraph_char_fraction",
    "dup_line_frac": "gopher_repetition/dup_line_fraction",
    "dup_line_char_frac": "gopher_repetition/dup_line_char_fraction",
    **{f"top_{n}_gram": f"gopher_repetition/top_{n}_gram" for n in (2, 3, 4)},
    **{f"duplicated_{n}_n_grams": f"gopher_repetition/dup_{n}_gram" for n in range(5, 11)},
    "gopher_short_doc": "gopher_quality/short",
    "gopher_long_doc": "gopher_quality/long",
    "gopher_below_avg_threshold": "gopher_quality/short_words",
    "gopher_above_avg_threshold": "gopher_quality/long_words",
    "gopher_too_many_hashes": "gopher_quality/hash_symbols",
    "gopher_too_many_ellipsis": "gopher_quality/ellipsis_symbols",
    "gopher_too_many_bullets": "gopher_quality/bullet_lines",
    "gopher_too_many_end_ellipsis": "gopher_quality/ellipsis_lines",
    "gopher_below_alpha_threshold": "gopher_quality/non_alphabetic",
    "gopher_enough_stop_words": "gopher_quality/stop_words",
    "lorem_ipsum": "c4/lorem_ipsum",
    "curly_bracket": "c4/curly_bracket",
    "too_few_sentences": "c4/too_few_sentences",
}
FILTERS = {
    "GopherRepetitionFilter": "gopher_repetition_filter",
    "GopherQualityFilter": "gopher_quality_filter",
    "C4QualityFilter": "c4_filters",
}


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> dict[str, type]:
    found = {}
    for name, module in FILTERS.items():
        loaded = importlib.import_module(f"datatrove.pipeline.filters.{module}")
        monkeypatch.setattr(loaded, "split_into_words", lambda text, _: text.split(), raising=False)
        monkeypatch.setattr(loaded, "split_into_sentences", lambda text, _: sentences(text), raising=False)
        found[name] = getattr(loaded, name)
    return found


def peer_decision(chain: list, text: str) -> tuple[str | None, str]:
    document = Document(text=text, id="")
    for peer in chain:
        verdict = peer.filter(document)
        if verdict is not True:
            return REASONS[verdict[1]], ""
    return None, document.text


@cache
def web(shared_data: Path) -> list[str]:
    found = []
    for name in ("dclm-majority_data.jsonl", "dolma-cc_en_head-0091.jsonl.gz", "dj-demo-dedup.jsonl"):
        found += jsonl.read(str(shared_data / name), SourceConfig(kind="jsonl"))
    for path in sorted(shared_data.glob("*.w*.gz")):
        found += warc.read(str(path), SourceConfig(kind="warc"))
    return [o.text for o in found if isinstance(o, outcome.Document)]


@cache
def environment(_: Path) -> list[str]:
    found = []
    for item in inputs.python_env():
        if item.startswith(("dist:numpy==", "dist:hypothesis==", "stdlib:asyncio==")):
            found += python_env.read(item, SourceConfig())
    return [o.text for o in found if isinstance(o, outcome.Document)]


@pytest.mark.parametrize("corpus", [web, environment])
@pytest.mark.parametrize("only", [*FILTERS, "all"])
def test_no_document_differs(shared_data: Path, peers: dict[str, type], corpus, only: str) -> None:
    texts = corpus(shared_data)[:1500]
    config = FiltersConfig(c4=C4Config(require_terminal_punctuation=only == "C4QualityFilter"))
    config.gopher_repetition.enabled = only in ("GopherRepetitionFilter", "all")
    config.gopher_quality.enabled = only in ("GopherQualityFilter", "all")
    config.c4.enabled = only in ("C4QualityFilter", "all")
    chain = [
        peer(filter_no_terminal_punct=config.c4.require_terminal_punctuation)
        if name.startswith("C4")
        else peer()
        for name, peer in peers.items()
        if only in (name, "all")
    ]
    ours = stage.decide(pa.array(texts, type=pa.large_string()), config)
    reasons = Counter()
    for text, reason, cleaned in zip(texts, ours.reasons, ours.texts, strict=True):
        wanted, wanted_text = peer_decision(chain, text)
        assert (reason, cleaned.as_py() if reason is None else "") == (wanted, wanted_text)
        reasons[reason] += 1
    assert len(texts) > 500
    assert reasons[None] > 0.1 * len(texts) and len(reasons) > 2
