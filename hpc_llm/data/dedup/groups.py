"""Equal keys to stars, stars to components."""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


def stars(*keys: npt.NDArray[np.uint64]) -> tuple[Indices, Indices]:
    """Link every element to the first with an equal key.

    `keys` are one or more parallel columns of one composite key. Returns ``(others, firsts)``: positions
    of the elements that repeat an earlier one, and of that earlier one. Survivors are the smallest
    position, so give the elements in the order in which they should survive.
    """
    if not len(keys[0]):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    # Stable, so equal keys stay in order; on sorted runs end to end, as they are read here, it is a merge.
    order = np.argsort(keys[0], kind="stable") if len(keys) == 1 else np.lexsort(keys[::-1])
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = False
    for key in keys:
        ordered = key[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    firsts = order[np.flatnonzero(new)[np.cumsum(new) - 1]]
    return order[~new], firsts[~new]


@numba.njit(nogil=True, cache=True)
def _root(parent, node):  # type: ignore[no-untyped-def]
    while parent[node] != node:
        parent[node] = parent[parent[node]]  # path halving
        node = parent[node]
    return node


@numba.njit(nogil=True, cache=True)
def union(parent, left, right):  # type: ignore[no-untyped-def]
    """Merge the sets of ``left[i]`` and ``right[i]`` in the forest `parent` (int64, starts as arange).

    The root of a set is its smallest member, whatever the order of the edges.
    """
    for k in range(len(left)):
        a, b = _root(parent, left[k]), _root(parent, right[k])
        if a < b:
            parent[b] = a
        else:
            parent[a] = b


@numba.njit(nogil=True, cache=True)
def flatten(parent):  # type: ignore[no-untyped-def]
    """Point every node at its root, in place; a root is never above its members, so one pass does."""
    for node in range(len(parent)):
        parent[node] = parent[parent[node]]
