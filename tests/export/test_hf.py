from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, processors
from transformers import AutoModelForCausalLM, AutoTokenizer

from hpc_llm.config.schema import ModelConfig
from hpc_llm.data.tokens import bpe
from hpc_llm.export import hf, names
from hpc_llm.model.init import initialize
from hpc_llm.model.transformer import Transformer

TEXT = (
    "The reader returns every record of the file, and an empty list when there is none.\n\n  Ça coûte 12 €."
)
MODEL = ModelConfig(
    layers=3,
    hidden=48,
    heads=6,
    kv_heads=2,
    ffn_hidden=80,
    sequence_length=64,
    rope_theta=500_000.0,
    norm_eps=1e-6,
    init_std=0.15,  # logits with a standard deviation near 1: the tolerance below is absolute
)


@pytest.fixture(scope="module")
def bpe_json(tmp_path_factory) -> Path:
    made = bpe.train([TEXT] * 3, vocab_size=300, min_frequency=2)
    # as in a file that a user brings: training encodes without it
    made.post_processor = processors.TemplateProcessing(
        single=f"{bpe.END_OF_TEXT} $A", special_tokens=[(bpe.END_OF_TEXT, 0)]
    )
    made.enable_truncation(4)
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    made.save(str(path))
    return path


@pytest.fixture(scope="module")
def vocab_size(bpe_json) -> int:
    return Tokenizer.from_file(str(bpe_json)).get_vocab_size()


@pytest.fixture(scope="module")
def ours(vocab_size) -> Transformer:
    model = Transformer(MODEL, vocab_size)
    initialize(model, MODEL, seed=3)
    with torch.no_grad():  # a norm that is 1 everywhere would hide a swap of two norms
        for i, (name, parameter) in enumerate(model.named_parameters()):
            if "norm" in name:
                parameter.copy_(1 + 0.3 * torch.randn(48, generator=torch.Generator().manual_seed(i)))
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory, bpe_json, ours, vocab_size) -> Path:
    path = tmp_path_factory.mktemp("run") / "export"
    hf.write(path, ours.state_dict(), MODEL, bpe_json)
    return path


def test_transformers_computes_our_logits(folder, ours, vocab_size):
    theirs = AutoModelForCausalLM.from_pretrained(folder)
    assert type(theirs).__name__ == "LlamaForCausalLM"
    assert theirs.config.rope_parameters["rope_theta"] == MODEL.rope_theta
    ids = torch.randint(vocab_size, (4, MODEL.sequence_length), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        a, b = ours(ids)[..., :vocab_size].double(), theirs(ids).logits.double()
    assert a.shape == b.shape
    assert a.std() > 0.5  # logits that say something
    assert (a - b).abs().max() < 1e-5
    p, q = a.log_softmax(-1), b.log_softmax(-1)
    assert (p.exp() * (p - q)).sum(-1).abs().max() < 1e-11


def test_nothing_is_pickled_and_padding_is_gone(folder, ours, vocab_size):
    assert {path.name for path in folder.iterdir()} == {
        "config.json", "generation_config.json", "model.safetensors",
        "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json",
    }  # fmt: skip
    assert ours.lm_head.weight.shape[0] > vocab_size
    theirs = AutoModelForCausalLM.from_pretrained(folder)
    assert theirs.lm_head.weight.shape == theirs.model.embed_tokens.weight.shape == (vocab_size, MODEL.hidden)


def test_the_tokenizer_gives_the_ids_that_training_saw(folder, bpe_json):
    theirs, plain = AutoTokenizer.from_pretrained(folder), bpe.load(bpe_json)
    for text in (TEXT, "  two  spaces , kept .", "日本 \u0301", ""):
        ids = plain.encode(text, add_special_tokens=False).ids
        assert theirs(text)["input_ids"] == ids
        assert theirs.decode(ids) == text


def test_special_tokens_and_lengths_agree_everywhere(folder):
    theirs, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    assert (theirs.eos_token, theirs.pad_token, theirs.bos_token) == (bpe.END_OF_TEXT, bpe.PADDING, None)
    for config in (model.config, model.generation_config):
        assert config.eos_token_id == theirs.eos_token_id == 0
        assert config.pad_token_id == theirs.pad_token_id == 1
        assert config.bos_token_id is None  # not transformers' default of 1
    assert theirs.model_max_length == model.config.max_position_embeddings == MODEL.sequence_length


def test_shards_hold_the_same_model(tmp_path, folder, bpe_json, ours, vocab_size):
    hf.write(tmp_path / "export", ours.state_dict(), MODEL, bpe_json, limit=60_000)
    index = json.loads((tmp_path / "export" / hf.INDEX).read_text())
    files = sorted(path.name for path in (tmp_path / "export").glob("*.safetensors"))
    assert len(files) > 2
    assert sorted(set(index["weight_map"].values())) == files
    whole = AutoModelForCausalLM.from_pretrained(folder).state_dict()
    sharded = AutoModelForCausalLM.from_pretrained(tmp_path / "export").state_dict()
    assert whole.keys() == sharded.keys()
    assert all(torch.equal(whole[name], sharded[name]) for name in whole)


@pytest.mark.parametrize("limit", [60_000, hf.SHARD_BYTES])
def test_what_is_read_back_is_what_was_written(tmp_path, bpe_json, ours, vocab_size, limit):
    hf.write(tmp_path / "export", ours.state_dict(), MODEL, bpe_json, limit)
    rows = ours.lm_head.weight.shape[0]
    state = hf.read(tmp_path / "export", MODEL, rows)
    again = Transformer(MODEL, vocab_size)
    again.load_state_dict(state)
    for name, tensor in ours.state_dict().items():
        kept = vocab_size if name in names.VOCABULARY else len(tensor)
        assert torch.equal(state[name][:kept], tensor[:kept])
        assert not state[name][kept:].any()


def test_an_older_export_is_replaced_and_nothing_else_is_left(tmp_path, bpe_json, ours, vocab_size):
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "stale.safetensors").write_bytes(b"old")
    size = hf.write(tmp_path / "export", ours.state_dict(), MODEL, bpe_json)
    assert [path.name for path in tmp_path.iterdir()] == ["export"]
    assert not (tmp_path / "export" / "stale.safetensors").exists()
    assert size == sum(path.stat().st_size for path in (tmp_path / "export").iterdir())


def test_a_failed_export_leaves_the_older_one(tmp_path, bpe_json, ours, vocab_size):
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "config.json").write_text("{}")
    state = ours.state_dict()
    del state["norm.weight"]
    with pytest.raises(ValueError, match=r"norm\.weight"):
        hf.write(tmp_path / "export", state, MODEL, bpe_json)
    assert [path.name for path in tmp_path.iterdir()] == ["export"]
    assert (tmp_path / "export" / "config.json").read_text() == "{}"


def test_a_vocabulary_that_does_not_fit_is_refused(tmp_path, bpe_json, ours, vocab_size):
    state = {
        name: tensor[:280] if name in names.VOCABULARY else tensor
        for name, tensor in ours.state_dict().items()
    }
    with pytest.raises(
        ValueError, match=f"embed_tokens.weight has 280 rows, the tokenizer needs {vocab_size}"
    ):
        hf.write(tmp_path / "export", state, MODEL, bpe_json)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(1, 100))
def test_a_part_keeps_the_limit_unless_one_tensor_is_larger(sizes, limit):
    by_name = {str(i): size for i, size in enumerate(sizes)}
    parts = hf.split(by_name, limit)
    assert [name for part in parts for name in part] == list(by_name)
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        total = sum(by_name[name] for name in part)
        assert total <= limit or len(part) == 1
        assert following is None or total + by_name[following[0]] > limit  # no part is cut short
