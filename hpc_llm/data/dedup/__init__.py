"""Near-duplicate (MinHash) and exact deduplication across shards."""
