"""Where the matching index changes the form in which it keeps filters."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Limits:
    """Thresholds; the defaults were measured, smaller ones let tests cross them with few filters.

    ``small``: rows of a leaf that are checked one by one; ``cells``: cells per attribute of a
    bitmap; ``axes``: attributes per bitmap; ``few``: destinations for which Python integers beat
    numpy; ``topics``: topics whose route is remembered.
    """

    small: int = 16
    cells: int = 2048
    axes: int = 16
    few: int = 16
    topics: int = 65536

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise ValueError(
                    f"the limit {field.name!r} of a matching index must be at least 1, "
                    f"got {getattr(self, field.name)}"
                )
