"""The matching index as it would be without any index: ask every filter."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from pubweave.model.filters.filter import Filter
from pubweave.model.publications import Publication


class NaiveMatchIndex:
    """The slow, obvious twin of `pubweave.core.matching.index.MatchIndex`."""

    def __init__(self) -> None:
        self.entries: dict[Hashable, tuple[Filter, Any]] = {}

    def add(self, key: Hashable, filter: Filter, destination: Any) -> None:
        self.entries[key] = (filter, destination)

    def remove(self, key: Hashable) -> None:
        del self.entries[key]

    def match(self, publication: Publication) -> set[Any]:
        return {d for filter, d in self.entries.values() if filter.matches(publication)}

    def keys_matching(self, publication: Publication) -> list[Hashable]:
        return [k for k, (filter, _) in self.entries.items() if filter.matches(publication)]
