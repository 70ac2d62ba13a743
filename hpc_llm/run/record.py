"""Completion records: what one shard of one stage read, wrote, dropped and quarantined.

The sums balance for every shard: ``documents_in == documents_out + sum(dropped) + quarantined``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Quarantined:
    """One unreadable record: where it is and why it was set aside."""

    file: str
    offset: int  # bytes into the file (decompressed where it is compressed), -1 when unknown
    reason: str


@dataclass
class Account:
    """Documents and UTF-8 text bytes through one shard. Filled by the stage while it works."""

    documents_in: int = 0
    documents_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    dropped: Counter[str] = field(default_factory=Counter)  # documents by reason
    quarantined: list[Quarantined] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what a person should know: a file without any record
    # Numbers that are summed over shards: tokens, PII spans ...
    extra: dict[str, Any] = field(default_factory=dict)

    def drop(self, reason: str, documents: int = 1) -> None:
        self.dropped[reason] += documents

    def quarantine(self, file: str, offset: int, reason: str) -> None:
        self.quarantined.append(Quarantined(file, offset, reason))

    @property
    def balanced(self) -> bool:
        return self.documents_in == self.documents_out + sum(self.dropped.values()) + len(self.quarantined)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "dropped": dict(sorted(self.dropped.items()))}
