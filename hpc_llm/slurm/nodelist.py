"""Host lists such as ``rack[0-1]-n[008-010,12],login1``. Source: scontrol(1), show hostnames and hostlist."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from itertools import groupby, product

MAX_HOSTS = 1_000_000  # a range such as n[0-999999999] is a typing error, not a cluster

_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\],\s]+)")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_NUMBERED = re.compile(r"(.*?)([0-9]+)")


def expand(text: str) -> list[str]:
    """Host names in the order written, repeats kept. Raises ValueError for what is not a host list.

    ``""``, ``(null)`` and ``None assigned``, which Slurm prints for no nodes, give an empty list.
    """
    stripped = text.strip()
    if stripped in ("", "(null)", "None", "None assigned", "N/A", "n/a"):
        return []
    hosts: list[str] = []
    for item in _split(stripped):
        pieces: list[list[str]] = []
        position = 0
        while position < len(item):
            match = _PIECE.match(item, position)
            if match is None:
                raise ValueError(f"{text!r} is not a Slurm host list: cannot read {item[position:]!r}")
            ranges, literal = match.groups()
            pieces.append([literal] if literal is not None else _numbers(ranges, text))
            position = match.end()
        size = len(hosts) + math.prod(len(piece) for piece in pieces)
        if not pieces or size > MAX_HOSTS:
            problem = f"more than {MAX_HOSTS} hosts" if pieces else "an empty name"
            raise ValueError(f"{text!r} is not a Slurm host list: {problem}")
        hosts += ["".join(parts) for parts in product(*pieces)]
    return hosts


def compress(hosts: Iterable[str]) -> str:
    """The shortest list in one bracket per name form, sorted, without repeats; `expand` reverses it."""
    by_form: dict[tuple[str, int], set[int]] = {}
    plain: set[str] = set()
    for host in hosts:
        if expand(host) != [host]:
            raise ValueError(f"{host!r} is not one host name")
        match = _NUMBERED.fullmatch(host)
        if match is None:
            plain.add(host)
        else:
            prefix, digits = match.groups()
            # A leading zero fixes the width; without one, 9 and 10 belong together.
            width = len(digits) if digits.startswith("0") else 0
            by_form.setdefault((prefix, width), set()).add(int(digits))
    _join_widths(by_form)
    items = [(host, host) for host in plain]
    for (prefix, width), numbers in by_form.items():
        ranges = _ranges(sorted(numbers), width)
        single = len(numbers) == 1
        items.append((prefix, f"{prefix}{ranges}" if single else f"{prefix}[{ranges}]"))
    return ",".join(item for _, item in sorted(items))


def _split(text: str) -> list[str]:
    """At the commas outside brackets."""
    items, depth, start = [], 0, 0
    for position, character in enumerate(text):
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        elif character == "," and depth == 0:
            items.append(text[start:position])
            start = position + 1
    return [*items, text[start:]]


def _numbers(ranges: str, text: str) -> list[str]:
    numbers: list[str] = []
    for part in ranges.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f"{text!r} is not a Slurm host list: cannot read the range {part!r}")
        first, last = match.group(1), match.group(2) or match.group(1)
        count = int(last) - int(first) + 1
        if not 0 < count <= MAX_HOSTS:
            raise ValueError(f"{text!r} is not a Slurm host list: the range {part!r} is empty or too long")
        numbers += [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
    return numbers


def _join_widths(by_form: dict[tuple[str, int], set[int]]) -> None:
    """Move unpadded numbers of the same width into a padded form, so that n008 .. n012 is one range."""
    for prefix, width in sorted(form for form in by_form if form[1]):
        free = by_form.get((prefix, 0), set())
        joined = {number for number in free if len(str(number)) == width}
        by_form[prefix, width] |= joined
        free -= joined
        if not free:
            by_form.pop((prefix, 0), None)


def _ranges(numbers: list[int], width: int) -> str:
    texts = []
    # Numbers that follow on from each other keep a constant distance to their position.
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        first, last = members[0], members[-1]
        texts.append(f"{first:0{width}d}" if first == last else f"{first:0{width}d}-{last:0{width}d}")
    return ",".join(texts)
