"""Learning rate by step, and which parameters decay."""

from __future__ import annotations

import pytest

from hpc_llm.config.schema import ModelConfig, OptimConfig
from hpc_llm.model.transformer import Transformer
from hpc_llm.train.optimizer import build_optimizer, learning_rate

CONFIG = OptimConfig(lr=1.0, min_lr_ratio=0.1, warmup_steps=10)


@pytest.mark.parametrize(
    ("step", "expected"), [(1, 0.1), (5, 0.5), (10, 1.0), (60, 0.55), (110, 0.1), (500, 0.1)]
)
def test_warm_up_then_cosine(step: int, expected: float) -> None:
    assert learning_rate(step, 110, CONFIG) == pytest.approx(expected)


def test_never_rises_after_warm_up() -> None:
    rates = [learning_rate(step, 110, CONFIG) for step in range(10, 111)]
    assert rates == sorted(rates, reverse=True)


def test_all_warm_up_and_no_warm_up() -> None:
    assert learning_rate(3, 3, OptimConfig(lr=1.0, warmup_steps=3)) == 1.0
    assert learning_rate(1, 1, OptimConfig(lr=1.0, warmup_steps=0, min_lr_ratio=0.1)) == pytest.approx(0.1)


def test_norms_and_embedding_do_not_decay() -> None:
    model = Transformer(ModelConfig(layers=1, hidden=8, heads=2, kv_heads=1, ffn_hidden=8), 10)
    optimizer = build_optimizer(model, OptimConfig(weight_decay=0.3))
    names = {id(p): n for n, p in model.named_parameters()}
    kept = {names[id(p)] for g in optimizer.param_groups if g["weight_decay"] == 0 for p in g["params"]}
    assert kept == {
        "embed_tokens.weight",
        "layers.0.input_layernorm.weight",
        "layers.0.post_attention_layernorm.weight",
        "norm.weight",
    }
    decayed = [p for g in optimizer.param_groups if g["weight_decay"] == 0.3 for p in g["params"]]
    assert len(decayed) + len(kept) == len(names)
