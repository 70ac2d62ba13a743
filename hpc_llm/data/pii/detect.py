"""Personal data in one document, and the text without it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from hpc_llm.config.schema import PiiConfig
from hpc_llm.data.pii import anchors, email, ip, phone


class Span(NamedTuple):
    """``text[start:end]`` (bytes) is one piece of personal data; equal `value` is the same one."""

    start: int
    end: int
    kind: str  # email | ip | phone
    value: bytes


def spans(text: bytes, found: Iterable[tuple[int, int]], config: PiiConfig) -> list[Span]:
    """What stands at the anchors (position in `text`, kind) of the kinds that `config` asks for.

    In order and without overlap: the one that starts first wins, then the longest.
    """
    candidates = []
    address_end = -1
    for at, kind in found:
        if kind == anchors.AT:
            name, hit = "email", email.find(text, at) if config.emails else None
        elif kind in (anchors.QUAD, anchors.GROUP6):
            if not config.ips:
                continue
            name = "ip"
            hit = ip.find_v4(text, at, address_end) if kind == anchors.QUAD else ip.find_v6(text, at)
            address_end = hit[1] if hit else address_end
        else:
            find = phone.find_international if kind == anchors.PLUS else phone.find_nanp
            name, hit = "phone", find(text, at) if config.phones else None
        if hit:
            candidates.append(Span(hit[0], hit[1], name, hit[2]))
    out: list[Span] = []
    for span in sorted(candidates, key=lambda s: (s.start, -s.end)):
        if not out or span.start >= out[-1].end:
            out.append(span)
    return out


def replace(text: bytes, config: PiiConfig) -> tuple[bytes, Counter[str]]:
    """The text with placeholders, and how many spans of each kind were replaced.

    No span is left in the result, so a second pass changes nothing: a replacement can change what its
    neighbour stands behind, hence the loop. Placeholders are no spans, so it ends.
    """
    counts: Counter[str] = Counter()
    while True:
        found = anchors.find(np.frombuffer(text, dtype=np.uint8), np.array([0, len(text)]))
        hits = spans(text, found[:, 1:].tolist(), config)
        if not hits:
            return text, counts
        text = rewrite(text, hits)
        counts.update(hit.kind for hit in hits)


def rewrite(text: bytes, hits: Iterable[Span]) -> bytes:
    """The text with the placeholder of each span in its place."""
    parts, end = [], 0
    for hit in hits:
        parts += [text[end : hit.start], placeholder(hit)]
        end = hit.end
    return b"".join([*parts, text[end:]])


def placeholder(span: Span) -> bytes:
    """A value of the same form that cannot be anyone's: the same for the same `value`, in every document.

    ``user-<6 hex>@example.com`` (RFC 2606), ``192.0.2.<n>`` (RFC 5737) or ``2001:db8::<n>`` (RFC 3849),
    ``+1-<area>-555-01<nn>`` (set aside for fiction). It is a pseudonym drawn by BLAKE2b, not encryption: who
    has a value can compute its placeholder, many values share one, and none can be computed back.
    """
    digest = int.from_bytes(hashlib.blake2b(span.value, digest_size=8, person=span.kind.encode()).digest())
    if span.kind == "email":
        return b"user-%06x@example.com" % (digest & 0xFFFFFF)
    if span.kind == "phone":
        return b"+1-%d-555-01%02d" % (200 + digest % 600, digest // 600 % 100)
    if b":" in span.value:
        return b"2001:db8::%x" % (1 + digest % 0xFFFE)
    return b"192.0.2.%d" % (1 + digest % 254)
