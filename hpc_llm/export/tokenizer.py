"""The tokenizer as transformers loads it."""

from __future__ import annotations

import json
from typing import Any

from tokenizers import Tokenizer

from hpc_llm.data.tokens import bpe


def document(text: str) -> str:
    """``tokenizer.json`` without what wraps, cuts or fills a text.

    Training encodes documents bare, so a prompt must be encoded bare: a file that a user brought may add a
    begin token that this model has never seen.
    """
    return json.dumps(
        {**json.loads(text), "post_processor": None, "truncation": None, "padding": None}, indent=1
    )


def roles(tokenizer: Tokenizer) -> dict[str, str]:
    """Role to token, as ``special_tokens_map.json`` has it. None begins a text."""
    tokens = {"eos_token": bpe.END_OF_TEXT, "pad_token": bpe.PADDING}
    return {role: token for role, token in tokens.items() if tokenizer.token_to_id(token) is not None}


def config(tokenizer: Tokenizer, sequence_length: int) -> dict[str, Any]:
    """Contents of ``tokenizer_config.json``.

    The class is the one that runs ``tokenizer.json`` as it stands; the class of the architecture would
    bring a pre-tokenizer of its own. Text is decoded as it was encoded, without tidying spaces.
    """
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": sequence_length,
        "clean_up_tokenization_spaces": False,
        **roles(tokenizer),
    }
