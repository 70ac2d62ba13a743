"""What a reader yields for each record it meets: a document, a drop with its reason, or a bad record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from hpc_llm.data.read.streams import Bad


class Document(NamedTuple):
    """A row of `documents.SCHEMA`."""

    id: str
    text: str
    source: str
    url: str | None = None
    meta: str | None = None  # a JSON object


@dataclass(frozen=True, slots=True)
class Dropped:
    """A readable record that is no document: a WARC request, an image, an empty text."""

    reason: str
    offset: int = -1  # of the record in its file: bytes as for `Bad`, rows in Parquet; -1 where it has none


Outcome = Document | Dropped | Bad
Outcomes = Iterator[Outcome]
