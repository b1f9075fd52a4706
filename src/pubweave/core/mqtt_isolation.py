"""Bridges get nothing else while the door waits whether one of them brings back what was let go.

Who answers what it hears looks like a ring: a request follows each answer, and brings the next. So
for as long as a copy is waited for (`mqtt_trials`), publications with other payloads wait, in
order, before they go out over bridges of this door. A ring keeps payloads.
"""

from __future__ import annotations

from pubweave.core.mqtt_circles import Circles
from pubweave.model.publications import Publication

KEPT_MAX = 10_000
"""So many publications for one bridge wait; when there are more, they all go."""


class Isolation:
    """What waits for the bridges of this door."""

    def __init__(self, circles: Circles) -> None:
        self._circles = circles
        self._kept: dict[str, list[Publication]] = {}
        """By session; none of them is empty."""

    def keeps(self, name: str, publication: Publication) -> bool:
        """Whether a publication for a session has to wait; it does then."""
        kept = self._kept.get(name)
        if kept is None:
            if not self._circles.is_waiting or self._circles.is_out(publication.payload):
                return False
            kept = self._kept[name] = []
        kept.append(publication)
        return True

    def over(self) -> list[str]:
        """Sessions for which something has waited long enough. O(sessions that wait)."""
        if not self._kept:
            return []
        if not self._circles.is_waiting:
            return list(self._kept)
        return [name for name, kept in self._kept.items() if len(kept) >= KEPT_MAX]

    def taken(self, name: str) -> list[Publication]:
        """What waited for a session, in order."""
        return self._kept.pop(name, [])
