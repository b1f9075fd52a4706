"""What speaks for a ring, of one publication that a session brings again and again.

A trial lets one copy go, after a wait T that is spread evenly over a range, and looks whether the
next one comes within a window of the width W. Whoever does not listen to us says it next at some
moment that does not depend on T. That this falls into the window has a probability of at most
W / range, whatever the rhythm. The evidence is counted in bits so that, for such a source, it is a
fair game (`_bits`): its chance of ever getting to `PROVEN_BITS`, from 0 on, is at most
2 ** -PROVEN_BITS.
"""

from __future__ import annotations

from math import inf, log2

PROVEN_BITS = 20.0
AGAINST_BITS = -6.0
"""Two rounds against it, and none for it."""
ROUNDS_MAX = 40
"""A trial that takes longer was disturbed all the time."""
CONFIDENCE = 0.9
"""How often the next copy comes in time, where there is a ring."""
T_FROM, T_TO = 0.6, 5.6
"""T, in times of q_s."""
W_LEAST = 0.2
"""W at least, in times of q_s."""


class Trial:
    """One publication, by topic and payload, that a session brings again and again."""

    def __init__(self, digest: bytes, topic: str, payload: bytes, q_s: float, now: float) -> None:
        self.digest = digest
        self.topic = topic
        self.payload = payload
        self.q_s = q_s
        self.held = 1
        """Copies that wait."""
        self.permits = 0
        """So many of them may go."""
        self.score = 0.0
        self.rounds = 0
        self.least_s = self.most_s = 0.0
        """How long it took until a copy came after one was let go; 0: it never did."""
        self.strays = 0
        self.begun_at = self.last_at = self.restless_since = now
        """From when on copies came one after the other."""
        self.said_at = -inf
        """When somebody else last said it in the overlay."""
        self.is_in = False
        """The present round is about it."""

    @property
    def window_s(self) -> tuple[float, float]:
        """From when to when after a copy was let go an answer is expected."""
        if not self.most_s:
            return 0.0, self.q_s
        begin = 0.5 * self.least_s
        return begin, max(begin + W_LEAST * self.q_s, 1.5 * self.most_s)

    @property
    def is_proven(self) -> bool:
        return self.score >= PROVEN_BITS

    @property
    def is_against(self) -> bool:
        return self.score <= AGAINST_BITS or self.rounds > ROUNDS_MAX

    def begin(self, q_s: float, return_s: float) -> None:
        """Begin anew, with other times."""
        self.q_s = q_s
        self.score, self.rounds = 0.0, 0
        self.least_s = self.most_s = return_s

    def answered(self, after_s: float) -> None:
        begin, end = self.window_s
        self.note(is_hit=begin <= after_s <= end)
        self.least_s = min(self.least_s, after_s) if self.most_s else after_s
        self.most_s = max(self.most_s, after_s)

    def note(self, *, is_hit: bool) -> None:
        begin, end = self.window_s
        self.score += _bits((end - begin) / ((T_TO - T_FROM) * self.q_s), is_hit=is_hit)


def _bits(chance: float, *, is_hit: bool) -> float:
    """What one round says for a ring. ``chance`` is that of a source that does not listen:
    ``chance * 2**_bits(hit) + (1 - chance) * 2**_bits(miss) == 1``, so it wins nothing on average.

    >>> [round(_bits(0.05, is_hit=hit), 1) for hit in (True, False)]
    [4.2, -3.2]
    """
    if is_hit:
        return log2(CONFIDENCE / chance)
    return log2((1.0 - CONFIDENCE) / (1.0 - chance))
