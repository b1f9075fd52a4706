"""Whether two profiles say the same."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from pubweave.model.files.profile import WorkloadProfile
from pubweave.model.profile import PROFILE_TABLES


def assert_same_tables(
    one: WorkloadProfile, other: WorkloadProfile, *, but: Collection[str] = ()
) -> None:
    """All tables are equal but those named; floats to nine digits, for sums have no order."""
    for name in PROFILE_TABLES:
        if name in but:
            continue
        left, right = _sorted(one, name), _sorted(other, name)
        assert len(left) == len(right), name
        for row, wanted in zip(left, right, strict=True):
            for column, value in wanted.items():
                if isinstance(value, float):
                    assert row[column] == pytest.approx(value, rel=1e-9, abs=1e-9), (name, column)
                else:
                    assert row[column] == value, (name, column)


def _sorted(profile: WorkloadProfile, name: str) -> list[dict[str, Any]]:
    return sorted(profile.table(name).to_pylist(), key=lambda row: repr(_named(name, row)))


def _named(name: str, row: dict[str, Any]) -> list[Any]:
    key = PROFILE_TABLES[name].key or tuple(row)
    return [row[column] for column in key]
