"""The parts of the Transformer. Shapes: B batch, S sequence, H hidden, N heads, K head dimension.

A parameter may be a DTensor, sharded by a layout; every layer computes on the shard this rank holds.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from hpc_llm.config.schema import ModelConfig
from hpc_llm.model.region import Region
from hpc_llm.model.rope import rotate


def local(weight: Tensor) -> Tensor:
    return weight.to_local() if isinstance(weight, DTensor) else weight


class Linear(nn.Module):
    """y = x W^T without bias; weight (out, in), float32."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, local(self.weight))


class Embedding(nn.Module):
    """Token table; weight (vocabulary, hidden), float32."""

    def __init__(self, vocabulary: int, hidden: int, region: Region) -> None:
        super().__init__()
        self.region = region
        self.weight = nn.Parameter(torch.empty(vocabulary, hidden))

    def forward(self, tokens_BS: Tensor) -> Tensor:
        return self.region.embed(tokens_BS, local(self.weight))


class RMSNorm(nn.Module):
    """Root mean square norm (Zhang and Sennrich 2019, arXiv 1910.07467); weight (hidden,), float32."""

    def __init__(self, hidden: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(hidden))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], local(self.weight), self.eps)


class Attention(nn.Module):
    """Causal grouped-query attention (Ainslie et al. 2023, arXiv 2305.13245)."""

    def __init__(self, config: ModelConfig, region: Region) -> None:
        super().__init__()
        self.region = region
        self.head_dim = config.hidden // config.heads
        self.q_proj = Linear(config.hidden, config.heads * self.head_dim)
        self.k_proj = Linear(config.hidden, config.kv_heads * self.head_dim)
        self.v_proj = Linear(config.hidden, config.kv_heads * self.head_dim)
        self.o_proj = Linear(config.heads * self.head_dim, config.hidden)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x_BSH = self.region.gather(x)
        heads = (*x_BSH.shape[:2], -1, self.head_dim)  # as many heads as this rank's weights have
        q = rotate(self.q_proj(x_BSH).view(heads), cos, sin).transpose(1, 2)
        k = rotate(self.k_proj(x_BSH).view(heads), cos, sin).transpose(1, 2)
        v = self.v_proj(x_BSH).view(heads).transpose(1, 2)
        out_BNSK = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.region.scatter(self.o_proj(out_BNSK.transpose(1, 2).flatten(2)))


class MLP(nn.Module):
    """SwiGLU feed-forward (Shazeer 2020, arXiv 2002.05202)."""

    def __init__(self, config: ModelConfig, region: Region) -> None:
        super().__init__()
        self.region = region
        self.gate_proj = Linear(config.hidden, config.ffn_hidden)
        self.up_proj = Linear(config.hidden, config.ffn_hidden)
        self.down_proj = Linear(config.ffn_hidden, config.hidden)

    def forward(self, x: Tensor) -> Tensor:
        x_BSH = self.region.gather(x)
        return self.region.scatter(self.down_proj(F.silu(self.gate_proj(x_BSH)) * self.up_proj(x_BSH)))


class Block(nn.Module):
    """Pre-norm Transformer block; the residual stream stays float32 (B, S / region size, H)."""

    def __init__(self, config: ModelConfig, region: Region) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden, config.norm_eps)
        self.self_attn = Attention(config, region)
        self.post_attention_layernorm = RMSNorm(config.hidden, config.norm_eps)
        self.mlp = MLP(config, region)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))
