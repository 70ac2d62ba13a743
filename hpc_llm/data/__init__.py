"""Readers, filters, deduplication, PII, tokenizer and packing."""
