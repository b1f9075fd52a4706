"""Windows of one interval, cut at its multiples on the common clock: everybody's are the same."""

from __future__ import annotations


class Windows:
    """The window that a broker is in."""

    def __init__(self, interval_s: float, now: float) -> None:
        self._interval_s = interval_s
        self.number = int(now // interval_s)

    @property
    def ends_at(self) -> float:
        return (self.number + 1) * self._interval_s

    def turn(self, now: float) -> int:
        """Go to the window of this instant; how many have ended by that."""
        if now < self.ends_at:
            return 0
        # At the very end of a window the quotient may be rounded down to its number.
        before, self.number = self.number, max(self.number + 1, int(now // self._interval_s))
        return self.number - before
