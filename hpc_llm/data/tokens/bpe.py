"""Byte-level BPE (Sennrich et al. 2016; bytes: Radford et al. 2019) through the `tokenizers` library."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

END_OF_TEXT = "<|endoftext|>"  # ends every document
PADDING = "<|padding|>"
SPECIAL_TOKENS = (END_OF_TEXT, PADDING)  # ids 0 and 1 of a tokenizer trained here

_BYTES = 256


def train(texts: Iterable[str], vocab_size: int, min_frequency: int) -> Tokenizer:
    """Train on `texts`; the same texts give the same tokenizer, in whatever order.

    The vocabulary holds the special tokens, all 256 bytes and the most frequent merges: `vocab_size` in all,
    or fewer when the texts have no more pairs that occur `min_frequency` times. Raises ValueError when
    `vocab_size` has no room for special tokens and bytes.
    """
    if vocab_size < _BYTES + len(SPECIAL_TOKENS):
        raise ValueError(
            f"tokenizer.vocab_size={vocab_size}: must be at least {_BYTES + len(SPECIAL_TOKENS)}, "
            f"for {_BYTES} bytes and {len(SPECIAL_TOKENS)} special tokens"
        )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        show_progress=False,
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def load(path: Path) -> Tokenizer:
    """A ``tokenizer.json`` that can encode documents here.

    Text that spells a special token is encoded as its characters: no document can end another.
    Raises ValueError when the file is none, or has no `END_OF_TEXT`.
    """
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise ValueError(f"{path}: not a tokenizer.json: {error}") from error
    if tokenizer.token_to_id(END_OF_TEXT) is None:
        raise ValueError(f"{path}: its vocabulary has no {END_OF_TEXT!r}, which ends every document")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer


def vocab_size(tokenizer: Tokenizer) -> int:
    """One more than the largest id, added tokens included: what an embedding must hold."""
    return max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1
