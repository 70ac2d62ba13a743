"""From text to what the trainer reads: tokenizer, token files, packed samples and their order."""
