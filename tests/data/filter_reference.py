"""The filters' definitions in plain Python: what the compiled kernels are held against."""

from __future__ import annotations

import re
from collections import Counter

from hpc_llm.config.schema import C4Config
from hpc_llm.data.filters import features, unicode

STOP = {"the", "be", "to", "of", "and", "that", "have", "with"}
CITATION = re.compile(r"\[\d*]|\[edit]|\[citation needed]")
POLICY = ("terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies")
CLOSERS = "\"')\\]}”’»"
# What may stand inside a sentence behind its first character, up to the marks that end it.
SENTENCE = re.compile(
    rf"[^\s.?!…。！？{CLOSERS}](?:[.?!…]+[{CLOSERS}.?!…]*(?=[^\s.?!…{CLOSERS}])|[^.?!…。！？])*"
)


def duplicates(units: list[str]) -> list[int]:
    seen: set[str] = set()
    repeated = [u for u in units if u in seen or seen.add(u)]
    return [len(units), len(repeated), sum(map(len, repeated))]


def top(words: list[str], n: int) -> int:
    grams = Counter(" ".join(words[i : i + n]) for i in range(len(words) - n + 1))
    return len(grams.most_common(1)[0][0]) * grams.most_common(1)[0][1] if grams else 0


def greedy(words: list[str], n: int) -> int:
    seen, chars, i = set(), 0, 0
    while i <= len(words) - n:
        gram = "".join(words[i : i + n])
        if gram in seen:
            chars += len(gram)
            i += n
        else:
            seen.add(gram)
            i += 1
    return chars


def counts(text: str) -> list[int]:
    """The columns of `features.features`."""
    words = text.split()
    symbols = set(unicode.PUNCTUATION) | {chr(i) for i in [*range(32), *range(127, 160)]}
    plain = [w for w in words if set(w) - symbols]
    lines = text.splitlines()
    return [
        len(text),
        len(words),
        len(plain),
        sum(map(len, plain)),
        text.count("#"),
        text.count("...") + text.count("…"),
        len(lines),
        sum(line.lstrip().startswith(("•", "-")) for line in lines),
        sum(line.rstrip().endswith(("...", "…")) for line in lines),
        sum(any(map(str.isalpha, w)) for w in words),
        len(STOP & set(words)),
        *duplicates(re.split(r"\n{2,}", text.strip())),
        *duplicates(re.split(r"\n+", text)),
        *(top(words, n) for n in features.TOP_N),
        *(greedy(words, n) for n in features.DUP_N),
    ]


def sentences(line: str) -> list[str]:
    return SENTENCE.findall(line)


def clean(text: str, config: C4Config) -> str | None:
    """The cleaned text, or None where the document is dropped."""
    kept, count = [], 0
    for raw in text.splitlines():
        line = raw.strip()
        words = line.split()
        if any(len(w) > config.max_word_length for w in words):
            continue
        if config.remove_citations:
            line = CITATION.sub("", line)
        if config.require_terminal_punctuation and (
            not line.endswith((".", "?", "!", '"', "'")) or line.endswith("...")
        ):
            continue
        if len(words) < config.min_words_per_line:
            continue
        lower = line.lower()
        if config.drop_lorem_ipsum and "lorem ipsum" in lower:
            return None
        if config.drop_javascript_lines and "javascript" in lower:
            continue
        if config.drop_curly_bracket and "{" in line:
            return None
        if config.drop_policy_lines and any(p in lower for p in POLICY):
            continue
        kept.append(line)
        count += len(sentences(line))
    return ("\n".join(kept).strip() or None) if count >= config.min_sentences else None
