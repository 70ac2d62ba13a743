"""MinHash signatures, PII and tokenizing against datatrove's, in MB of text a second of one core.

Both sides read the same Parquet file and write what their next stage needs, in one process, turn by turn.
MinHash takes words from ``str.split`` on both sides. PII is datatrove's e-mail and IPv4; ours does phone
numbers and IPv6 besides. Tokenizing is by the same ``tokenizer.json``, shuffled, end-of-text behind each
document.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import xxhash
from benchmarks.data_filters import corpus

from hpc_llm.config.schema import Config
from hpc_llm.data.documents import Writer
from hpc_llm.run.folder import RunFolder
from hpc_llm.run.shard import Shard
from hpc_llm.run.stage import Stage

REPETITIONS = 3
TEXT_MB = 8

STAGES = {
    "read": Stage("read", "array", ""),
    "minhash_sign": Stage("minhash_sign", "array", "hpc_llm.data.dedup.minhash_sign", ("read",)),
    "pii": Stage("pii", "array", "hpc_llm.data.pii.pii", ("read",)),
    "tokenizer": Stage("tokenizer", "array", "hpc_llm.data.tokens.tokenizer", ("read",)),
    "tokenize": Stage("tokenize", "array", "hpc_llm.data.tokens.tokenize", ("read", "tokenizer")),
}


def rows() -> Iterator[dict[str, Any]]:
    """One mapping a row: row, ours and peer (MB/s, medians of interleaved repetitions), ratio, peer_name."""
    with tempfile.TemporaryDirectory() as name:
        folder = RunFolder(Path(name) / "run")
        documents = folder.output("read", 0, ".parquet")
        documents.parent.mkdir(parents=True)
        with Writer(documents) as writer:
            for at, text in enumerate(corpus(TEXT_MB * 1_000_000)):
                writer.append({"id": str(at), "text": text, "source": "corpus"})
        _run(folder, "tokenizer")
        peers = _peers(documents.parent, Path(name) / "peer", folder.output("tokenizer", 0, ".json"))
        for row, stage, peer, peer_name in (
            ("MinHash signatures, 14 x 8", "minhash_sign", peers["minhash"], "datatrove, whitespace words"),
            ("PII", "pii", peers["pii"], "datatrove PIIFormatter"),
            ("tokenizing, 8 k BPE", "tokenize", peers["tokens"], "datatrove DocumentTokenizer"),
        ):
            ours, theirs = [], []
            for turn in range(REPETITIONS + 1):
                seconds = _seconds(lambda stage=stage: _run(folder, stage)), _seconds(peer)
                if turn:  # the first turn compiles kernels and imports
                    ours.append(seconds[0])
                    theirs.append(seconds[1])
            ours_rate, peer_rate = (writer.bytes / 1e6 / statistics.median(s) for s in (ours, theirs))
            yield {
                "row": row,
                "ours": round(ours_rate, 2),
                "peer": round(peer_rate, 3),
                "ratio": round(ours_rate / peer_rate, 1),
                "peer_name": peer_name,
                "unit": "MB/s",
            }


def _run(folder: RunFolder, stage: str) -> None:
    import_module(STAGES[stage].work).run(Shard(folder, Config(), STAGES, STAGES[stage], 0))


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _peers(documents: Path, out: Path, tokenizer: Path) -> dict[str, Callable[[], None]]:
    """datatrove's pipelines for the same work, by name."""
    from datatrove.pipeline.dedup import MinhashDedupSignature
    from datatrove.pipeline.dedup.minhash import MinhashConfig
    from datatrove.pipeline.formatters import PIIFormatter
    from datatrove.pipeline.readers import ParquetReader
    from datatrove.pipeline.tokens import DocumentTokenizer
    from datatrove.pipeline.writers import ParquetWriter
    from datatrove.utils.logging import logger
    from datatrove.utils.word_tokenizers import WhitespaceTokenizer

    logger.remove()

    class Words(WhitespaceTokenizer):
        def word_tokenize(self, text: str) -> list[str]:
            return text.split()

    def run(*steps: Any) -> None:
        data = None
        for step in steps:
            data = step(data) if data is not None else step()
        for _ in data or ():
            pass

    def reader() -> Any:
        return ParquetReader(str(documents), glob_pattern="*.parquet")

    def minhash() -> None:
        config = MinhashConfig(n_grams=5, num_buckets=14, hashes_per_bucket=8)
        sign = MinhashDedupSignature(str(out / "signatures"), config, language=Words())
        # Its own function hands str to xxhash, which xxhash 4 refuses.
        sign._hash_func = lambda shingle: xxhash.xxh64_intdigest(shingle.encode())
        run(reader(), sign)

    def pii() -> None:
        run(reader(), PIIFormatter(), ParquetWriter(str(out / "pii"), compression="zstd"))

    def tokens() -> None:
        end = "<|endoftext|>"
        run(reader(), DocumentTokenizer(str(out / "tokens"), str(tokenizer), eos_token=end, seed=0))

    return {"minhash": minhash, "pii": pii, "tokens": tokens}
