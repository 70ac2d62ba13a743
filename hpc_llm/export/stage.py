"""Stage: the Hugging Face folder. Inputs: train, tokenizer.

Writes ``export/`` from the newest good checkpoint, then reads that folder back with our own model and
continues ``train.sample_prompts`` from it: what is shown is what was shipped. The texts are ``samples.json``,
a list of ``{"prompt", "text"}``. Runs in one process, on the CPU, whatever the layout of training was.
"""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer

from hpc_llm.config.schema import Config, ModelConfig
from hpc_llm.data.tokens import bpe
from hpc_llm.export import hf
from hpc_llm.export.generate import generate
from hpc_llm.model.transformer import Transformer, padded_vocabulary
from hpc_llm.run import atomic
from hpc_llm.run.shard import Shard
from hpc_llm.train import checkpoint, manifest

SAMPLES = "samples.json"


def run(shard: Shard) -> None:
    """Raises ValueError when no checkpoint of the run can be trusted, or the newest good one is not the last."""
    _, tokenizers = shard.stage.inputs
    config = shard.config
    tokenizer_json = shard.input(tokenizers, ".json", index=0)
    tokenizer = bpe.load(tokenizer_json)
    model = _empty(config.model, bpe.vocab_size(tokenizer))
    step = load_newest(shard.folder.checkpoints, model)
    if step < config.train.steps:
        raise ValueError(
            f"the newest good checkpoint is of step {step} of {config.train.steps}. To train the rest again, remove "
            f"{shard.folder.record('train', 0)} and launch again"
        )
    size = hf.write(shard.folder.export, model.state_dict(), config.model, tokenizer_json)
    print(f"export: step {step}, {size} bytes in {shard.folder.export}", flush=True)
    rows = padded_vocabulary(model.vocab_size, config.model.vocab_multiple)
    model.load_state_dict(hf.read(shard.folder.export, config.model, rows))
    atomic.write_json(shard.folder.export / SAMPLES, samples(model, tokenizer, config))
    shard.account.extra.update(export_bytes=size, export_step=step)


def load_newest(folder: Path, model: Transformer) -> int:
    """Load the weights of the newest checkpoint that is what was written, and return its step.

    A newer one that is not is named on standard output. Raises ValueError when there is no good one.
    """
    refused = []
    for path in reversed(manifest.published(folder)):
        try:
            return checkpoint.load_weights(path, model).step
        except manifest.Corrupt as error:
            refused.append(str(error))
            print(f"export: checkpoint refused: {error}", flush=True)
    raise ValueError(
        f"{folder} has no checkpoint that can be exported: {'; '.join(refused) or 'none is published'}"
    )


def samples(model: Transformer, tokenizer: Tokenizer, config: Config) -> list[dict[str, str]]:
    """A continuation of each prompt, as if it began a document; prompt i has the seed train.seed + i."""
    end = tokenizer.token_to_id(bpe.END_OF_TEXT)
    assert end is not None, "bpe.load refuses a tokenizer without it"
    found = []
    for i, prompt in enumerate(config.train.sample_prompts):
        ids = [end, *tokenizer.encode(prompt, add_special_tokens=False).ids]
        drawn = generate(
            model,
            ids,
            config.train.sample_tokens,
            model.vocab_size,
            config.model.sequence_length,
            end,
            config.train.seed + i,
        )
        found.append({"prompt": prompt, "text": tokenizer.decode(drawn)})
    return found


def _empty(config: ModelConfig, vocab_size: int) -> Transformer:
    with torch.device("meta"):
        model = Transformer(config, vocab_size)
    return model.to_empty(device="cpu").eval()
