"""A trained model as a folder that Hugging Face transformers loads: LlamaForCausalLM and its tokenizer.

Weights are safetensors, everything else is JSON; nothing is pickled.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

from hpc_llm.config.schema import ModelConfig
from hpc_llm.data.tokens import bpe
from hpc_llm.export import names, tokenizer
from hpc_llm.run import atomic

SHARD_BYTES = 5_000_000_000  # one safetensors file; transformers' own limit for many years
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


def config(model: ModelConfig, vocab_size: int, dtype: str) -> dict[str, Any]:
    """Contents of ``config.json``, but for the ids of special tokens, for transformers 4 and 5.

    Version 5 reads ``rope_parameters`` and ``dtype``; version 4 reads ``rope_theta`` and ``torch_dtype``, and
    each ignores the other's.
    """
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": model.hidden,
        "intermediate_size": model.ffn_hidden,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.hidden // model.heads,
        "hidden_act": "silu",
        "max_position_embeddings": model.sequence_length,
        "rms_norm_eps": model.norm_eps,
        "initializer_range": model.init_std,
        "rope_theta": model.rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": model.rope_theta},
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "vocab_size": vocab_size,
        "dtype": dtype,
        "torch_dtype": dtype,
        "use_cache": True,
    }


def split(sizes: Mapping[str, int], limit: int) -> list[list[str]]:
    """Names in their order, cut so that no part is larger than `limit` bytes unless one tensor alone is."""
    parts: list[list[str]] = []
    room = 0
    for name, size in sizes.items():
        if not parts or size > room:
            parts.append([])
            room = limit
        parts[-1].append(name)
        room -= size
    return parts


def convert(state: Mapping[str, Tensor], model: ModelConfig, vocab_size: int) -> dict[str, Tensor]:
    """Our full state under Hugging Face's names, rows that only pad the vocabulary removed.

    Raises ValueError when a parameter is missing, unknown, or smaller than the vocabulary.
    """
    expected = names.parameters(model.layers)
    if wrong := sorted(set(expected) ^ set(state)):
        raise ValueError(f"parameters missing from the state or unknown: {wrong}")
    out = {}
    for name in expected:
        tensor = state[name]
        if name in names.VOCABULARY:
            if tensor.shape[0] < vocab_size:
                raise ValueError(f"{name} has {tensor.shape[0]} rows, the tokenizer needs {vocab_size}")
            tensor = tensor[:vocab_size]
        out[names.to_hf(name)] = tensor.detach().contiguous()
    return out


def _umask() -> int:
    """The process's file mode mask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_weights(folder: Path, weights: Mapping[str, Tensor], limit: int = SHARD_BYTES) -> int:
    """Write `weights` as one safetensors file, or as several with an index. Returns the bytes of tensors."""
    sizes = {name: tensor.nbytes for name, tensor in weights.items()}
    parts = split(sizes, limit)
    files = (
        [WEIGHTS]
        if len(parts) == 1
        else [f"model-{i:05d}-of-{len(parts):05d}.safetensors" for i in range(1, len(parts) + 1)]
    )
    for file, part in zip(files, parts, strict=True):
        # without this metadata transformers refuses the file
        save_file({name: weights[name] for name in part}, folder / file, metadata={"format": "pt"})
        (folder / file).chmod(0o666 & ~_umask())  # the library makes it readable by its owner alone
    if len(parts) > 1:
        where = {name: file for file, part in zip(files, parts, strict=True) for name in part}
        index = {"metadata": {"total_size": sum(sizes.values())}, "weight_map": where}
        atomic.write_json(folder / INDEX, index)
    return sum(sizes.values())


def write(
    folder: Path,
    state: Mapping[str, Tensor],
    model: ModelConfig,
    tokenizer_json: Path,
    limit: int = SHARD_BYTES,
) -> int:
    """Write the Hugging Face folder and return its size in bytes.

    `state` holds the full tensor of every parameter under our names, all of one dtype. `folder` appears
    whole; one that stands already is replaced. Raises ValueError when `state` does not fit `model` or has
    fewer rows than the tokenizer has ids.
    """
    tokens = bpe.load(tokenizer_json)
    weights = convert(state, model, bpe.vocab_size(tokens))
    [dtype] = {str(tensor.dtype).removeprefix("torch.") for tensor in weights.values()}
    roles = tokenizer.roles(tokens)
    # A role that the tokenizer lacks is null: left out, it would be transformers' default, id 1 or 2.
    ids = {
        f"{role}_id": tokens.token_to_id(roles[role]) if role in roles else None
        for role in ("bos_token", "eos_token", "pad_token")
    }
    tmp = atomic.temporary(folder)
    tmp.mkdir(parents=True)
    try:
        write_weights(tmp, weights, limit)
        atomic.write_json(tmp / "config.json", config(model, bpe.vocab_size(tokens), dtype) | ids)
        atomic.write_json(tmp / "generation_config.json", ids)
        atomic.write_text(
            tmp / "tokenizer.json", tokenizer.document(tokenizer_json.read_text(encoding="utf-8"))
        )
        atomic.write_json(tmp / "tokenizer_config.json", tokenizer.config(tokens, model.sequence_length))
        atomic.write_json(tmp / "special_tokens_map.json", roles)
        size = sum(file.stat().st_size for file in tmp.iterdir())
        replace(tmp, folder)
    finally:
        shutil.rmtree(tmp, ignore_errors=True)
    return size


def replace(tmp: Path, folder: Path) -> None:
    """Flush the files of `tmp`, then rename it to `folder`. An older `folder` is moved aside first, since
    rename(2) does not replace a folder that has files; for that moment neither stands under the name."""
    for path in (*tmp.iterdir(), tmp):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    old = atomic.temporary(folder)
    if folder.exists():
        folder.rename(old)
    tmp.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def read(folder: Path, model: ModelConfig, rows: int) -> dict[str, Tensor]:
    """The weights of a folder that `write` made, under our names, vocabulary padded with zeros to `rows`.

    Raises ValueError when the folder does not hold exactly the parameters of `model`.
    """
    index = folder / INDEX
    files = sorted(set(atomic.read_json(index)["weight_map"].values())) if index.exists() else [WEIGHTS]
    state: dict[str, Tensor] = {}
    for file in files:
        state |= {names.from_hf(name): tensor for name, tensor in load_file(folder / file).items()}
    if wrong := sorted(set(names.parameters(model.layers)) ^ set(state)):
        raise ValueError(f"{folder}: parameters missing or unknown: {wrong}")
    for name in names.VOCABULARY:
        state[name] = F.pad(state[name], (0, 0, 0, rows - state[name].shape[0]))
    return state
