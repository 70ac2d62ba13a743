"""Filters against datatrove's: MB of text a second of one core, in one process on the same documents.

The first rows are like for like: both take words from ``str.split``. Where spaCy is installed, datatrove
as it ships follows; its words are others, so that ratio mixes a definition with a speed.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from hpc_llm.config.schema import FiltersConfig, SourceConfig
from hpc_llm.data.filters import stage
from hpc_llm.data.read import python_env
from hpc_llm.data.read.outcome import Document
from hpc_llm.run import inputs

REPETITIONS = 3
TEXT_MB = 3  # of this Python environment's prose; datatrove needs seconds for a megabyte
BATCH = 1000  # documents, about what a row group holds

CHAINS = {
    "Gopher repetition": ("gopher_repetition",),
    "Gopher quality": ("gopher_quality",),
    "C4": ("c4",),
    "Gopher + C4": ("gopher_repetition", "gopher_quality", "c4"),
}


def rows() -> Iterator[dict[str, Any]]:
    """One mapping a row: row, ours and peer (MB/s, medians of interleaved repetitions), ratio, peer_name."""
    texts = list(corpus(TEXT_MB * 1_000_000))
    yield from _compare(texts, "whitespace words", whitespace=True)
    if importlib.util.find_spec("spacy"):
        yield from _compare(texts, "as shipped, other words", whitespace=False)


def corpus(size: int) -> Iterator[str]:
    """Documents of the largest installed distributions, the first `size` bytes of text."""
    items = inputs.python_env()
    for item in sorted(items, key=lambda name: (-items[name], name)):
        for found in python_env.read(item, SourceConfig()):
            if isinstance(found, Document):
                size -= len(found.text.encode())
                yield found.text
                if size <= 0:
                    return


def _compare(texts: list[str], words: str, whitespace: bool) -> Iterator[dict[str, Any]]:
    columns = [pa.array(texts[i : i + BATCH], type=pa.large_string()) for i in range(0, len(texts), BATCH)]
    megabytes = sum(map(len, map(str.encode, texts))) / 1e6
    with _peers(whitespace) as peers:
        for name, enabled in CHAINS.items():
            config = FiltersConfig()
            for part in CHAINS["Gopher + C4"]:
                getattr(config, part).enabled = part in enabled
            chain = [peers[part] for part in enabled]
            stage.decide(columns[0].slice(0, 10), config)  # loads the kernels
            _peer(chain, texts[:10])
            ours, theirs = [], []
            for _ in range(REPETITIONS):
                ours.append(_seconds(_ours, config, columns))
                theirs.append(_seconds(_peer, chain, texts))
            ours_rate, peer_rate = (megabytes / statistics.median(runs) for runs in (ours, theirs))
            yield {
                "row": f"filters: {name}",
                "ours": round(ours_rate, 2),
                "peer": round(peer_rate, 3),
                "ratio": round(ours_rate / peer_rate, 1),
                "peer_name": f"datatrove, {words}",
            }


def _seconds(work: Callable[..., object], *args: object) -> float:
    started = time.process_time()
    work(*args)
    return time.process_time() - started


def _ours(config: FiltersConfig, columns: list[pa.Array]) -> int:
    return sum(stage.decide(column, config).reasons.count(None) for column in columns)


def _peer(chain: list[Any], texts: list[str]) -> int:
    from datatrove.data import Document as PeerDocument

    kept = 0
    for text in texts:
        document = PeerDocument(text=text, id="")
        kept += all(peer.filter(document) is True for peer in chain)
    return kept


@contextmanager
def _peers(whitespace: bool) -> Iterator[dict[str, Any]]:
    """datatrove's filters by our names; with `whitespace` their word and sentence tokenizers are ours."""
    from datatrove.pipeline.filters import c4_filters, gopher_quality_filter, gopher_repetition_filter

    replaced = []
    if whitespace:
        for module, name, function in (
            (gopher_repetition_filter, "split_into_words", _words),
            (gopher_quality_filter, "split_into_words", _words),
            (c4_filters, "split_into_sentences", _sentences),
        ):
            replaced.append((module, name, getattr(module, name)))
            setattr(module, name, function)
    try:
        yield {
            "gopher_repetition": gopher_repetition_filter.GopherRepetitionFilter(),
            "gopher_quality": gopher_quality_filter.GopherQualityFilter(),
            "c4": c4_filters.C4QualityFilter(filter_no_terminal_punct=False),
        }
    finally:
        for module, name, function in replaced:
            setattr(module, name, function)


def _words(text: str, _: str) -> list[str]:
    return text.split()


def _sentences(text: str, _: str) -> list[str]:
    """As cheap a split as there is: the peer is not charged for sentences."""
    return text.split(". ")
