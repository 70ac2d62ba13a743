from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM

from hpc_llm.config.schema import ModelConfig
from hpc_llm.export import names
from hpc_llm.model.transformer import Transformer

PARTS = [
    "model",
    "layers",
    "lm_head",
    "norm",
    "weight",
    "mlp",
    "0",
    "1",
    "01",
    "x",
    "",
    *(l for l in names.BLOCK),
]


@given(st.integers(1, 200))
def test_names_survive_the_round_trip_and_stay_apart(layers):
    ours = names.parameters(layers)
    theirs = [names.to_hf(name) for name in ours]
    assert len(set(theirs)) == len(ours)
    assert [names.from_hf(name) for name in theirs] == ours


@given(st.lists(st.sampled_from(PARTS), max_size=5).map(".".join) | st.text(max_size=20))
def test_a_name_is_translated_or_refused_never_guessed(name):
    for there, back in ((names.to_hf, names.from_hf), (names.from_hf, names.to_hf)):
        try:
            translated = there(name)
        except ValueError:
            continue
        assert back(translated) == name


def test_both_models_have_these_parameters_in_these_shapes():
    config = ModelConfig(layers=3, hidden=48, heads=6, kv_heads=2, ffn_hidden=80, vocab_multiple=1)
    with torch.device("meta"):
        ours = Transformer(config, 100)
        theirs = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=100,
                hidden_size=48,
                intermediate_size=80,
                num_hidden_layers=3,
                num_attention_heads=6,
                num_key_value_heads=2,
                tie_word_embeddings=False,
            )
        )
    shapes = {name: tuple(p.shape) for name, p in ours.named_parameters()}
    assert set(shapes) == set(names.parameters(3))
    assert {names.to_hf(name): shape for name, shape in shapes.items()} == {
        name: tuple(p.shape) for name, p in theirs.named_parameters()
    }


@pytest.mark.parametrize(
    "name", ["layers.0.mlp.bias", "layers.00.mlp.up_proj.weight", "model.lm_head.weight", "norm"]
)
def test_unknown_names_are_refused(name):
    with pytest.raises(ValueError, match="no such parameter"):
        names.to_hf(name)
    with pytest.raises(ValueError, match="not a parameter"):
        names.from_hf(name)
