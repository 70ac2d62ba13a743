"""Parameter names: ours and those of Hugging Face's LlamaForCausalLM. One to one, no tensor is reshaped:
both keep separate projections and rotate query and key by halves, so ours lack only a prefix."""

from __future__ import annotations

import re

EMBED, NORM, HEAD = "embed_tokens.weight", "norm.weight", "lm_head.weight"
VOCABULARY = (EMBED, HEAD)  # a row for each token id, then padding
BLOCK = (
    "input_layernorm.weight",
    "self_attn.q_proj.weight",
    "self_attn.k_proj.weight",
    "self_attn.v_proj.weight",
    "self_attn.o_proj.weight",
    "post_attention_layernorm.weight",
    "mlp.gate_proj.weight",
    "mlp.up_proj.weight",
    "mlp.down_proj.weight",
)
PREFIX = "model."


def parameters(layers: int) -> list[str]:
    """Our names of all parameters of a model of `layers` blocks, in the order of the forward pass."""
    return [EMBED, *(f"layers.{i}.{leaf}" for i in range(layers) for leaf in BLOCK), NORM, HEAD]


def is_ours(name: str) -> bool:
    block = re.fullmatch(r"layers\.(?:0|[1-9][0-9]*)\.(.+)", name, re.ASCII)
    return name in (EMBED, NORM, HEAD) if block is None else block[1] in BLOCK


def to_hf(name: str) -> str:
    """Hugging Face's name of our parameter `name`. Raises ValueError when we have none of that name."""
    if not is_ours(name):
        raise ValueError(f"no such parameter: {name!r}")
    return name if name == HEAD else PREFIX + name


def from_hf(name: str) -> str:
    """Our name of Hugging Face's parameter `name`. Raises ValueError when it is not a Llama parameter."""
    ours = name.removeprefix(PREFIX)
    if not is_ours(ours) or to_hf(ours) != name:
        raise ValueError(f"not a parameter of LlamaForCausalLM: {name!r}")
    return ours
