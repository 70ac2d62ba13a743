from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hpc_llm.data.dedup.groups import flatten, stars, union


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=40))
def test_stars_link_each_repetition_to_the_first(pairs: list[tuple[int, int]]) -> None:
    keys = np.array(pairs, dtype=np.uint64).reshape(-1, 2)
    others, firsts = stars(keys[:, 0].copy(), keys[:, 1].copy())
    expected = {i: pairs.index(p) for i, p in enumerate(pairs) if pairs.index(p) != i}
    assert dict(zip(others.tolist(), firsts.tolist(), strict=True)) == expected
    others, firsts = stars(keys[:, 0].copy())
    first = [p[0] for p in pairs]
    assert dict(zip(others.tolist(), firsts.tolist(), strict=True)) == {
        i: first.index(p) for i, p in enumerate(first) if first.index(p) != i
    }


@settings(deadline=None)  # compiles
@given(st.integers(1, 30), st.data())
def test_components_are_named_for_their_smallest_member(nodes: int, data: st.DataObject) -> None:
    node = st.integers(0, nodes - 1)
    edges = data.draw(st.lists(st.tuples(node, node), max_size=60))
    parent = np.arange(nodes)
    array = np.array(edges, dtype=np.int64).reshape(-1, 2)
    union(parent, array[:, 0], array[:, 1])
    flatten(parent)
    label = list(range(nodes))
    for _ in range(nodes):
        for a, b in edges:
            label[a] = label[b] = min(label[a], label[b])
    assert parent.tolist() == label
