"""What transformers wants beside ``tokenizer.json``: which special token plays which role."""

from __future__ import annotations

from typing import Any

# The common spellings, by role; the first that the tokenizer has as a special token is taken.
SPELLINGS = {
    "bos_token": ("<|begin_of_text|>", "<s>", "<bos>", "<|bos|>"),
    "eos_token": ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eos|>"),
    "unk_token": ("<unk>", "<|unk|>"),
    "pad_token": ("<|pad|>", "<pad>", "<|padding|>", "<|finetune_right_pad_id|>"),
}


def special_tokens(tokenizer: dict[str, Any]) -> dict[str, tuple[str, int]]:
    """Role (a key of SPELLINGS) to spelling and id, for the roles that the parsed ``tokenizer.json`` fills.

    Raises ValueError when no special token ends a document: generation would never stop.
    """
    ids = {t["content"]: t["id"] for t in tokenizer.get("added_tokens", []) if t.get("special")}
    roles = {
        role: next(((text, ids[text]) for text in spellings if text in ids), None)
        for role, spellings in SPELLINGS.items()
    }
    if roles["eos_token"] is None:
        raise ValueError(
            f"the tokenizer has no end-of-document token: special tokens are {sorted(ids)}, "
            f"one of {list(SPELLINGS['eos_token'])} is needed"
        )
    return {role: found for role, found in roles.items() if found}


def vocabulary_size(tokenizer: dict[str, Any]) -> int:
    """One more than the largest id of the parsed ``tokenizer.json``: the rows that an embedding needs."""
    vocabulary = tokenizer["model"]["vocab"]
    ids: list[int] = [token["id"] for token in tokenizer.get("added_tokens", [])]
    ids += (
        vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
    )  # Unigram has a list
    return 1 + max(ids)


def config(tokenizer: dict[str, Any], sequence_length: int) -> dict[str, Any]:
    """Contents of ``tokenizer_config.json``.

    The class is the one that runs ``tokenizer.json`` as it stands; the class of the architecture would
    bring a pre-tokenizer of its own. Text is decoded as it was encoded, without tidying spaces.
    """
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": sequence_length,
        "clean_up_tokenization_spaces": False,
        **{role: text for role, (text, _) in special_tokens(tokenizer).items()},
    }
