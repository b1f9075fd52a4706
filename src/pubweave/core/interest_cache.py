"""The notification cache (CI section 4): which publications this broker's own clients published
or consumed, window by window.

Windows are cut at the multiples of the interval on the common clock, not at each broker's own
moments: two brokers that compare a window compare the same stretch of time, and three can be
intersected. What a clock is wrong by, and what a publication takes from one broker to the other,
is missed at the edges. Relayed publications are not cached.

`routed` is on the broker's hot path: it looks at a route once and appends; keys are made of what
was noted when the window is over. At most ``capacity`` entries are kept, the newest.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from pubweave.core.bloom import Keys, mix
from pubweave.core.session import Session
from pubweave.model.publications import Publication

DEFAULT_CAPACITY = 8_192
WINDOWS_KEPT = 3
"""A broadcast is about the last window; one that was under way for long, about an earlier one."""
_REMEMBERED_PUBLISHERS = 65_536
_ALL_BITS = (1 << 64) - 1
_NO_KEYS = np.empty(0, dtype=np.uint64)


class InterestCache:
    """The entries of the current window and of those before it."""

    def __init__(self, capacity: int, interval_s: float, now: float) -> None:
        self._capacity = capacity
        self._interval_s = interval_s
        self._window = self.window_at(now)
        self._current: list[tuple[str, int]] = []
        self._done: dict[int, Keys] = {}
        self._publishers: dict[str, int] = {}
        self._route: tuple[Session, ...] | None = None
        self._is_local = False

    def window_at(self, instant: float) -> int:
        """The number of the window that an instant belongs to."""
        return int(instant // self._interval_s)

    # --- on the hot path -------------------------------------------------------------------

    def routed(self, publication: Publication, origin: Session, route: tuple[Session, ...]) -> None:
        """A publication from ``origin`` was queued for every session of ``route``."""
        if route is not self._route:
            self._route = route
            self._is_local = any([session.is_client for session in route])
        if self._is_local or origin.is_client:
            current = self._current
            current.append((publication.publisher, publication.sequence))
            if len(current) >= 2 * self._capacity:
                del current[: -self._capacity]

    # --- windows ---------------------------------------------------------------------------

    def turn(self, now: float) -> None:
        """Close the current window if its time is over."""
        window = self.window_at(now)
        if window <= self._window:
            return
        self._done[self._window] = self._keys_of(self._current[-self._capacity :])
        self._window = window
        self._current = []
        self._make_room()

    def _make_room(self) -> None:
        """Keep the last windows as far as they fit whole: part of one would be compared in vain."""
        room = self._capacity
        kept: dict[int, Keys] = {}
        for window in sorted(self._done, reverse=True)[:WINDOWS_KEPT]:
            room -= len(self._done[window])
            if room < 0:
                break
            kept[window] = self._done[window]
        self._done = kept

    def keys(self, window: int) -> Keys | None:
        """The entries of a window that is over; None if it is not, or is forgotten."""
        return self._done.get(window)

    def last_window(self) -> tuple[int, Keys]:
        """The last window that is over."""
        if not self._done:
            return self._window - 1, _NO_KEYS
        last = max(self._done)
        return last, self._done[last]

    def _keys_of(self, entries: list[tuple[str, int]]) -> Keys:
        if not entries:
            return _NO_KEYS
        if len(self._publishers) > _REMEMBERED_PUBLISHERS:
            self._publishers.clear()
        names = np.array([self._number(publisher) for publisher, _ in entries], dtype=np.uint64)
        sequences = np.array([s & _ALL_BITS for _, s in entries], dtype=np.uint64)
        # A publication that came twice (again after a crash) is still one.
        keys: Keys = np.unique(mix(names ^ mix(sequences)))
        return keys

    def _number(self, publisher: str) -> int:
        """A number for a name, the same in every process (unlike `hash`)."""
        number = self._publishers.get(publisher)
        if number is None:
            digest = blake2b(publisher.encode(), digest_size=8).digest()
            number = self._publishers[publisher] = int.from_bytes(digest, "little")
        return number
