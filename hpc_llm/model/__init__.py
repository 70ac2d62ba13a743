"""The decoder-only Transformer and its parts."""
