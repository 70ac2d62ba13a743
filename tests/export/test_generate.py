from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from hpc_llm.config.schema import ModelConfig
from hpc_llm.export.generate import generate, sample
from hpc_llm.model.init import initialize
from hpc_llm.model.transformer import Transformer

MODEL = ModelConfig(layers=2, hidden=32, heads=4, kv_heads=2, ffn_hidden=48, sequence_length=16, init_std=0.2)
VOCABULARY = 100  # padded to 128


@pytest.fixture(scope="module")
def model() -> Transformer:
    made = Transformer(MODEL, VOCABULARY)
    initialize(made, MODEL, seed=1)
    with torch.no_grad():  # padding rows that would win every draw, were they not cut off
        made.lm_head.weight[VOCABULARY:] *= 1e4
    return made


def draw(model: nn.Module, seed: int, tokens: int = 40, **options: float) -> list[int]:
    return generate(model, [5, 6, 7], tokens, VOCABULARY, MODEL.sequence_length, eos=-1, seed=seed, **options)


def test_a_seed_gives_one_text_and_another_seed_another(model):
    torch.manual_seed(0)
    first = draw(model, 7)
    torch.manual_seed(1)  # the global generator plays no part
    assert draw(model, 7) == first
    assert draw(model, 8) != first
    assert len(first) == 40  # longer than the context of 16


def test_no_token_of_the_padding_is_drawn(model):
    assert max(max(draw(model, seed)) for seed in range(5)) < VOCABULARY


def test_top_one_is_greedy_and_sees_the_last_context(model):
    ids = [5, 6, 7]
    for _ in range(30):
        with torch.no_grad():
            logits = model(torch.tensor([ids[-MODEL.sequence_length :]]))[0, -1, :VOCABULARY]
        ids.append(int(logits.argmax()))
    assert draw(model, 0, tokens=30, top_k=1) == ids[3:]


class Fixed(nn.Module):
    """A model of known next-token probabilities, whatever it is given."""

    def __init__(self, logits: list[float]) -> None:
        super().__init__()
        self.logits = torch.tensor(logits)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.logits.expand(*tokens.shape, -1)


def test_frequencies_follow_the_tempered_top_k():
    logits = torch.tensor([0.0, 1.0, 2.0, 1.5])
    generator = torch.Generator().manual_seed(0)
    drawn = torch.tensor([sample(logits, 0.8, 3, generator) for _ in range(8000)])
    expected = torch.softmax(logits[[1, 2, 3]] / 0.8, 0)
    seen = torch.bincount(drawn, minlength=4) / 8000
    assert seen[0] == 0
    assert torch.allclose(seen[1:], expected, atol=0.02)  # 3.5 standard errors


def test_the_end_token_ends_the_text_and_is_left_out():
    assert generate(Fixed([0.0, 50.0]), [0], 10, 2, 8, eos=1, seed=0) == []
    assert generate(Fixed([50.0, 0.0]), [0], 10, 2, 8, eos=1, seed=0) == [0] * 10


def test_what_cannot_work_is_refused(model):
    with pytest.raises(ValueError, match="prompt is empty"):
        generate(model, [], 1, VOCABULARY, 16, eos=0, seed=0)
    with pytest.raises(ValueError, match=r"temperature=0\.0"):
        draw(model, 0, temperature=0.0)
