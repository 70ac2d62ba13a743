"""Rotary position embedding (Su et al. 2021, arXiv 2104.09864), in the half-split order.

Dimension i of a head is paired with dimension i + head_dim / 2, as Hugging Face's Llama does, so
query and key weights are exported without a permutation.
"""

from __future__ import annotations

import torch
from torch import Tensor


def rotations(length: int, head_dim: int, theta: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosine and sine of every position's angles, each float32 of shape (length, head_dim / 2)."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32, device=device) / head_dim
    # 1 / theta^e and not theta^-e: rounded as transformers rounds it, so that exported logits are equal.
    frequencies = 1.0 / theta**exponents
    angles = torch.outer(torch.arange(length, dtype=torch.float32, device=device), frequencies)
    return angles.cos(), angles.sin()


def rotate(x_BSNK: Tensor, cos_SF: Tensor, sin_SF: Tensor) -> Tensor:
    """Rotate queries or keys of shape (batch, sequence, heads, head_dim); computed in float32, dtype kept."""
    first, second = x_BSNK.float().chunk(2, dim=-1)
    cos, sin = cos_SF[:, None, :], sin_SF[:, None, :]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x_BSNK.dtype)
