"""The notification cache (CI section 4): which publications this broker's own clients published
or consumed, window by window.

Windows end at multiples of the interval on the common clock, the same for all brokers, so that
windows of several brokers can be intersected. Clock errors and the transit time of publications
blur the edges. Relayed publications are not cached.

`routed` is on the broker's hot path: it checks a route once and appends; keys are made when the
window is over. At most ``capacity`` entries are kept, the newest.
"""

from __future__ import annotations

import numpy as np

from pubweave.core.self_organizing.traffic_sides import NO_KEYS, PublicationKeys, Windows
from pubweave.core.session.session import Session
from pubweave.model.bloom import Keys
from pubweave.model.publications import Publication

WINDOWS_KEPT = 3
"""A broadcast is about the last window; a delayed one about an earlier one."""


class NotificationCache:
    """The entries of the current window and of those before it."""

    def __init__(self, capacity: int, interval_s: float, now: float) -> None:
        self._capacity = capacity
        self._windows = Windows(interval_s, now)
        self._current: list[tuple[str, int]] = []
        self._done: dict[int, Keys] = {}
        self._make_keys = PublicationKeys()
        self._route: tuple[Session, ...] | None = None
        self._is_local = False

    @property
    def turn_at(self) -> float:
        """When the current window is over."""
        return self._windows.ends_at

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
        window = self._windows.number
        if self._windows.turn(now):
            self._done[window] = self._keys_of(self._current[-self._capacity :])
            self._current = []
            self._make_room()

    def _make_room(self) -> None:
        """Keep the last windows that fit completely: an incomplete one cannot be compared."""
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
            return self._windows.number - 1, NO_KEYS
        last = max(self._done)
        return last, self._done[last]

    @property
    def is_idle(self) -> bool:
        """Nothing concerned this broker's clients in the last window and since."""
        return not self._current and not len(self.last_window()[1])

    def _keys_of(self, entries: list[tuple[str, int]]) -> Keys:
        made = self._make_keys.make(
            [entry[0] for entry in entries], [entry[1] for entry in entries]
        )
        # A publication that arrived twice (again after a crash) counts once.
        keys: Keys = np.unique(made)
        return keys
