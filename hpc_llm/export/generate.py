"""Sampled continuation of a prompt by our own model, for a look at what training has learnt."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def sample(logits: Tensor, temperature: float, top_k: int, generator: torch.Generator) -> int:
    """One token id drawn from ``softmax(logits / temperature)`` over the `top_k` largest of `logits`, (V,).

    Top-k sampling is Fan et al. 2018 (arXiv 1805.04833). On a tie at the limit, exactly `top_k` are kept.
    """
    values, ids = logits.float().topk(min(top_k, logits.shape[-1]))
    drawn = torch.multinomial(torch.softmax(values / temperature, dim=-1), 1, generator=generator)
    return int(ids[drawn])


@torch.no_grad()
def generate(
    model: nn.Module,
    prompt: list[int],
    tokens: int,
    vocab_size: int,
    context: int,
    eos: int,
    seed: int,
    temperature: float = 0.8,
    top_k: int = 50,
) -> list[int]:
    """Up to `tokens` ids that continue `prompt`, without it; ends before `eos`. The same for the same `seed`.

    `model` maps ids (1, S) int64 to logits (1, S, V), of which those from `vocab_size` on are
    padding. It sees the last `context` ids and is run anew for each token: right for a few samples after
    training, not a serving path. Raises ValueError for an empty prompt or a temperature that is not positive.
    """
    if not prompt:
        raise ValueError("prompt is empty: the model needs at least one token to continue")
    if not temperature > 0:
        raise ValueError(f"temperature={temperature}: must be above 0")
    generator = torch.Generator().manual_seed(seed)
    ids = list(prompt)
    for _ in range(tokens):
        logits = model(torch.tensor([ids[-context:]]))[0, -1, :vocab_size]
        token = sample(logits, temperature, top_k, generator)
        if token == eos:
            break
        ids.append(token)
    return ids[len(prompt) :]
