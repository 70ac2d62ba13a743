from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpc_llm.data.dedup import sections
from hpc_llm.data.dedup.sections import KEYS, REMOVALS, Sections


def records(count: int, seed: int = 0) -> sections.Records:
    out = np.empty(count, dtype=KEYS)
    out["key"] = np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64)
    out["row"] = np.arange(count)
    return out


def written(path: Path) -> bytes:
    sections.write(
        path, KEYS, {"x": [1, "y"]}, [("a", records(100)), ("empty", records(0)), ("b", records(7, 1))]
    )
    return path.read_bytes()


def test_round_trip(tmp_path: Path) -> None:
    data = written(tmp_path / "f")
    file = Sections(tmp_path / "f", KEYS)
    assert file.meta == {"x": [1, "y"]}
    assert [file.count(n) for n in ("a", "empty", "b")] == [100, 0, 7]
    np.testing.assert_array_equal(file.read("a"), records(100))
    np.testing.assert_array_equal(file.read("a", "empty", "b"), np.concatenate([records(100), records(7, 1)]))
    assert len(file.read("empty")) == len(file.read()) == 0
    assert written(tmp_path / "again") == data


def test_another_record_type_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "f")
    with pytest.raises(ValueError, match="holds records"):
        Sections(tmp_path / "f", REMOVALS)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_any_damage_is_seen(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "f"
    good = written(path)
    at = data.draw(st.integers(0, len(good) - 1))
    if data.draw(st.booleans()):
        bad = good[:at]
    else:
        bad = good[:at] + bytes([good[at] ^ data.draw(st.integers(1, 255))]) + good[at + 1 :]
    path.write_bytes(bad)
    with pytest.raises(ValueError, match=str(path)):
        Sections(path, KEYS).read("a", "empty", "b")
