from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real captures and documents, kept beside the checkout."""
    if not SHARED.is_dir():
        pytest.skip(f"no {SHARED}")
    return SHARED
