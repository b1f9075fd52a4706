"""Where tests find the shared data, and how they skip without it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).resolve().parents[1]


def shared_data(relative: str) -> Path:
    """A file of the shared data folder; skips the calling test where it is absent."""
    folder = Path(os.environ.get("PUBWEAVE_DATA") or _REPOSITORY.parent / "shared" / "data")
    path = folder / relative
    if not path.exists():
        pytest.skip(f"needs {relative} of the shared data folder (set PUBWEAVE_DATA)")
    return path
