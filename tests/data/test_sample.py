from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hpc_llm.data.tokens.sample import Sample, id_hashes


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2**64 - 1), st.text(max_size=5)), unique_by=lambda d: d[0], max_size=30
    ),
    st.integers(1, 60),
    st.randoms(),
)
def test_takes_the_smallest_hashes_up_to_the_size(documents, size, random) -> None:  # type: ignore[no-untyped-def]
    expected, total = [], 0
    for _, text in sorted(documents):
        if total >= size:
            break
        expected.append(text)
        total += len(text.encode())
    random.shuffle(documents)
    sample = Sample(size)
    for key, text in documents:
        if sample.wants(key):
            sample.offer(key, text.encode())
    taken = sample.texts()
    assert taken == expected


def test_hashes_are_uniform_and_seeded() -> None:
    ids = [f"doc-{i}" for i in range(20_000)]
    share = (id_hashes(ids, 0) / 2.0**64 < 0.1).mean()
    assert abs(share - 0.1) < 5 * np.sqrt(0.1 * 0.9 / len(ids))
    assert not np.array_equal(id_hashes(ids, 0), id_hashes(ids, 1))
