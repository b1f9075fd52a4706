"""Who is let in at the door, worked out from the whole history each time."""

from __future__ import annotations

from pubweave.core.config.entry_limits import EntryLimits


class NaiveAdmission:
    """Keeps every knock and every leaving; O(history) for each answer."""

    def __init__(self, limits: EntryLimits) -> None:
        self._limits = limits
        self._history: list[tuple[str, float, bool]] = []
        self._left: list[str] = []

    def knocked(self, host: str, now: float) -> bool:
        """Whether somebody from ``host`` is let in."""
        limits = self._limits
        admitted = [h for h, _, is_in in self._history if is_in]
        standing = len(admitted) - len(self._left)
        of_host = admitted.count(host) - self._left.count(host)
        is_in = (
            standing < limits.connections
            and of_host < limits.connections_per_address
            and self._tokens(host, now) >= 1.0
        )
        self._history.append((host, now, is_in))
        return is_in

    def left(self, host: str) -> None:
        self._left.append(host)

    def _tokens(self, host: str, now: float) -> float:
        tokens, then = float(self._limits.connection_burst), 0.0
        for known, at, is_in in self._history:
            if known == host and is_in:
                tokens = min(
                    self._limits.connection_burst,
                    tokens + (at - then) * self._limits.connections_per_s,
                )
                tokens, then = tokens - 1.0, at
        return min(
            self._limits.connection_burst, tokens + (now - then) * self._limits.connections_per_s
        )
