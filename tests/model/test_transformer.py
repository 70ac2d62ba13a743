"""The model against Hugging Face's Llama, and against itself cut into pipeline stages."""

from __future__ import annotations

import pytest
import torch

from hpc_llm.config.schema import ModelConfig
from hpc_llm.model.init import initialize, normal_rows, standard_deviation
from hpc_llm.model.region import IGNORED
from hpc_llm.model.transformer import Transformer, padded_vocabulary, parameter_count

CONFIG = ModelConfig(
    layers=4, hidden=64, heads=4, kv_heads=2, ffn_hidden=96, sequence_length=32, vocab_multiple=16
)
VOCAB = 250  # padded to 256


def model(layers: range | None = None) -> Transformer:
    built = Transformer(CONFIG, VOCAB, layers)
    initialize(built, CONFIG, seed=3)
    return built


def tokens() -> torch.Tensor:
    return torch.randint(0, VOCAB, (2, 32), generator=torch.Generator().manual_seed(0))


def test_logits_equal_hugging_face_llama() -> None:
    transformers = pytest.importorskip("transformers")
    ours = model()
    llama = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=256,
            hidden_size=64,
            intermediate_size=96,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            rms_norm_eps=CONFIG.norm_eps,
            rope_theta=CONFIG.rope_theta,
            tie_word_embeddings=False,
        )
    )
    state = {k if k.startswith("lm_head") else f"model.{k}": v for k, v in ours.state_dict().items()}
    llama.load_state_dict(state, strict=True)
    with torch.no_grad():
        torch.testing.assert_close(ours(tokens()), llama(tokens()).logits, rtol=1e-5, atol=1e-5)


def test_stages_compose_to_the_whole_with_the_same_names() -> None:
    whole, stages = model(), [model(range(0, 1)), model(range(1, 3)), model(range(3, 4))]
    x = tokens()
    with torch.no_grad():
        expected = whole(x)
        for stage in stages:
            x = stage(x)
    assert torch.equal(x, expected)
    assert sorted(n for s in stages for n in s.state_dict()) == sorted(whole.state_dict())


def test_loss_ignores_padding_of_the_vocabulary_and_ignored_targets() -> None:
    whole, x = model(), tokens()
    targets = x.roll(-1, dims=1)
    targets[:, -5:] = IGNORED
    with torch.no_grad():
        logits = whole(x)
        loss = whole.loss(logits, targets)
        log_p = logits[..., :VOCAB].double().log_softmax(-1)
    expected = -log_p[:, :-5].gather(-1, targets[:, :-5, None]).sum()
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=0)


def test_rows_are_drawn_the_same_alone_and_together() -> None:
    together = normal_rows(1, "layers.0.mlp.up_proj.weight", range(0, 64), 48)
    assert torch.equal(normal_rows(1, "layers.0.mlp.up_proj.weight", range(17, 21), 48), together[17:21])
    assert not torch.equal(normal_rows(2, "layers.0.mlp.up_proj.weight", range(0, 64), 48), together)
    assert not torch.equal(normal_rows(1, "layers.1.mlp.up_proj.weight", range(0, 64), 48), together)
    assert abs(together.mean()) < 0.1 and abs(together.std() - 1) < 0.1


def test_residual_outputs_start_smaller_with_depth() -> None:
    assert standard_deviation(CONFIG, "layers.0.self_attn.q_proj.weight") == CONFIG.init_std
    expected = CONFIG.init_std / (2 * CONFIG.layers) ** 0.5
    assert standard_deviation(CONFIG, "layers.3.mlp.down_proj.weight") == pytest.approx(expected)
    weights = dict(model().named_parameters())
    assert weights["layers.3.mlp.down_proj.weight"].std().item() == pytest.approx(expected, rel=0.05)


def test_padded_vocabulary_and_count() -> None:
    assert [padded_vocabulary(v, 128) for v in (1, 128, 129)] == [128, 128, 256]
    assert parameter_count(CONFIG, VOCAB) == sum(p.numel() for p in model().parameters())
