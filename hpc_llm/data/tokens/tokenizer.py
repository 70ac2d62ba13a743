"""Stage: the tokenizer, one for the run. Input: documents.

Trains byte-level BPE on ``tokenizer.sample_mb`` megabytes of documents chosen by a seeded hash of their ids,
or checks and copies the file at ``tokenizer.path``. Writes ``.json``, a Hugging Face ``tokenizer.json``.
"""

from __future__ import annotations

from pathlib import Path

from hpc_llm.data.documents import batches, text_bytes, utf8
from hpc_llm.data.tokens import bpe
from hpc_llm.data.tokens.sample import Sample, id_hashes
from hpc_llm.run.shard import Shard


def run(shard: Shard) -> None:
    config = shard.config.tokenizer
    if config.path is not None:
        source = Path(config.path)
        if not source.is_file():
            raise ValueError(f"tokenizer.path={config.path}: no such file")
        tokenizer = bpe.load(source)
        data = source.read_text()
    else:
        sample = _sample(shard)
        shard.account.extra["tokenizer_documents"] = len(sample)
        if not sample:
            raise ValueError(
                "no document is left to train a tokenizer on: see the drops by reason, and loosen filters.* "
                "or name more in source.paths"
            )
        tokenizer = bpe.train(sample.texts(), config.vocab_size, config.min_frequency)
        data = tokenizer.to_str(pretty=True)
    shard.account.extra["tokenizer_vocab"] = bpe.vocab_size(tokenizer)
    with shard.output(".json") as path:
        path.write_text(data)


def _sample(shard: Shard) -> Sample:
    if shard.config.tokenizer.sample_mb < 1:
        raise ValueError(f"tokenizer.sample_mb={shard.config.tokenizer.sample_mb}: must be at least 1")
    sample = Sample(shard.config.tokenizer.sample_mb * 10**6)
    for path in shard.inputs(shard.stage.inputs[0], ".parquet"):
        for batch in batches(path, ["id", "text"]):
            buffer, offsets = utf8(batch.column("text"))
            keys = id_hashes(batch.column("id").to_pylist(), shard.config.tokenizer.seed)
            for at, key in enumerate(keys.tolist()):
                if sample.wants(key):
                    sample.offer(key, buffer[offsets[at] : offsets[at + 1]].tobytes())
            shard.account.documents_in += batch.num_rows
            shard.account.bytes_in += text_bytes(batch)
    shard.account.documents_out, shard.account.bytes_out = shard.account.documents_in, shard.account.bytes_in
    return sample
