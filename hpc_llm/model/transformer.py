"""The decoder-only Transformer, whole or one pipeline stage of it.

Parameter names are Hugging Face Llama's without the ``model.`` prefix and are the same in every
stage and layout: ``embed_tokens.weight``, ``layers.<global index>.self_attn.q_proj.weight``, ...,
``norm.weight``, ``lm_head.weight`` (untied).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hpc_llm.config.schema import ModelConfig
from hpc_llm.model.layers import Block, Embedding, Linear, RMSNorm
from hpc_llm.model.region import Region, Whole
from hpc_llm.model.rope import rotations


def padded_vocabulary(vocab_size: int, multiple: int) -> int:
    """Rows of the token tables. Independent of the layout, so that a checkpoint loads into any."""
    return -(-vocab_size // multiple) * multiple


class Transformer(nn.Module):
    """Blocks `layers` (all by default), with the embedding before the first and norm and head after the last.

    forward: token ids (B, S) int64 on the first stage, else the float32 residual stream
    (B, S / region.size, hidden); returns that stream, or on the last stage logits
    (B, S, padded vocabulary / region.size), of which those from `vocab_size` on mean nothing.
    """

    def __init__(
        self, config: ModelConfig, vocab_size: int, layers: range | None = None, region: Region | None = None
    ) -> None:
        super().__init__()
        layers = range(config.layers) if layers is None else layers
        self.config = config
        self.vocab_size = vocab_size
        self.region: Region = region or Whole()
        rows = padded_vocabulary(vocab_size, config.vocab_multiple)
        first, last = layers.start == 0, layers.stop == config.layers
        self.embed_tokens = Embedding(rows, config.hidden, self.region) if first else None
        self.layers = nn.ModuleDict({str(i): Block(config, self.region) for i in layers})
        self.norm = RMSNorm(config.hidden, config.norm_eps) if last else None
        self.lm_head = Linear(config.hidden, rows) if last else None

    def forward(self, x: Tensor) -> Tensor:
        if self.embed_tokens is not None:
            x = self.embed_tokens(x)
        config = self.config
        cos, sin = rotations(
            x.shape[1] * self.region.size, config.hidden // config.heads, config.rope_theta, x.device
        )
        for block in self.layers.values():
            x = block(x, cos, sin)
        if self.norm is None or self.lm_head is None:
            return x
        return self.lm_head(self.region.gather(self.norm(x)))

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Negative log likelihood summed over the tokens of `targets` (B, S) int64; float32 scalar."""
        return self.region.cross_entropy(logits, targets, self.vocab_size)


def parameter_count(config: ModelConfig, vocab_size: int) -> int:
    """Parameters of the whole model, padding rows of the vocabulary included."""
    with torch.device("meta"):
        return sum(p.numel() for p in Transformer(config, vocab_size).parameters())
