"""Stage: documents to token files. Inputs: documents, tokenizer.

Every document ends with end-of-text. A hash of its id sends it to ``.train`` or ``.valid``, each a ``.bin``
and ``.idx`` (`indexed`), where the documents of the shard stand in an order drawn from (pack.seed, shard).
The shuffle is within the shard; the trainer permutes samples over all of them. Two passes: ids go to a
temporary file as they are encoded, and are gathered from there, so memory does not grow with the shard.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO

import numba
import numpy as np
import numpy.typing as npt

from hpc_llm.data.documents import batches, text_bytes, utf8
from hpc_llm.data.tokens import bpe
from hpc_llm.data.tokens.encoder import Encoder
from hpc_llm.data.tokens.indexed import Tokens, Writer, token_dtype
from hpc_llm.data.tokens.sample import id_hashes
from hpc_llm.run.shard import Shard

ENCODE_BYTES = 4_000_000  # text encoded at once: the library needs about 100 bytes a token
GATHER_TOKENS = 4_000_000  # tokens written at once


def run(shard: Shard) -> None:
    documents, tokenizers = shard.stage.inputs[:2]
    tokenizer = bpe.load(shard.input(tokenizers, ".json", index=0))
    dtype = token_dtype(bpe.vocab_size(tokenizer))
    encoder = Encoder(tokenizer, dtype)
    pack = shard.config.pack
    lengths, held_out = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.bool_)]
    with tempfile.TemporaryFile() as spool:
        for batch in batches(shard.input(documents, ".parquet"), ["id", "text"]):
            held_out.append(
                is_validation(batch.column("id").to_pylist(), pack.validation_fraction, pack.seed)
            )
            buffer, offsets = utf8(batch.column("text"))
            for chunk in _chunks(offsets):
                tokens, part = encoder.encode(buffer, chunk)
                spool.write(tokens.data)
                lengths.append(part)
            shard.account.documents_in += batch.num_rows
            shard.account.bytes_in += text_bytes(batch)
        ids = _spooled(spool, dtype)
        all_lengths, valid = np.concatenate(lengths), np.concatenate(held_out)
        order = np.random.default_rng([pack.seed, shard.index]).permutation(len(all_lengths))
        for split, chosen in (("train", ~valid), ("valid", valid)):
            with (
                shard.output(f".{split}.bin") as bin_path,
                shard.output(f".{split}.idx") as idx_path,
                Writer(bin_path, idx_path, dtype) as writer,
            ):
                _write(writer, ids, all_lengths, order[chosen[order]])
            shard.account.extra[f"tokens_{split}"] = writer.tokens
    shard.account.documents_out, shard.account.bytes_out = shard.account.documents_in, shard.account.bytes_in


def is_validation(ids: list[str], fraction: float, seed: int) -> npt.NDArray[np.bool_]:
    """Whether each document belongs to validation: a function of its id and the seed, of nothing else."""
    return id_hashes(ids, seed) / 2.0**64 < fraction


def _chunks(offsets: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    """Cut the offsets of a column into parts of at most `ENCODE_BYTES`, but at least one document."""
    start = 0
    while start < len(offsets) - 1:
        stop = int(np.searchsorted(offsets, offsets[start] + ENCODE_BYTES, side="right")) - 1
        stop = min(max(stop, start + 1), len(offsets) - 1)
        yield offsets[start : stop + 1]
        start = stop


def _spooled(spool: IO[bytes], dtype: np.dtype[np.integer]) -> Tokens:
    spool.flush()
    if not spool.tell():
        return np.zeros(0, dtype=dtype)
    return np.memmap(spool, dtype=dtype, mode="r")


def _write(writer: Writer, ids: Tokens, lengths: npt.NDArray[np.int64], order: npt.NDArray[np.int64]) -> None:
    """Append documents `order` of the spooled `ids`, some millions of tokens at once."""
    starts = np.cumsum(lengths) - lengths
    ends = np.cumsum(lengths[order])
    first = 0
    while first < len(order):
        written = ends[first] - lengths[order[first]]
        last = max(int(np.searchsorted(ends, written + GATHER_TOKENS, side="right")), first + 1)
        part = order[first:last]
        out = np.empty(ends[last - 1] - written, dtype=ids.dtype)
        _gather(ids, starts[part], lengths[part], out)
        writer.extend(out, lengths[part])
        first = last


@numba.njit(nogil=True, cache=True)
def _gather(ids, starts, lengths, out):  # type: ignore[no-untyped-def]
    at = 0
    for k in range(len(starts)):
        out[at : at + lengths[k]] = ids[starts[k] : starts[k] + lengths[k]]
        at += lengths[k]
