"""Settings of publishers' relocation; defaults are the paper's (POP 3.1 and 3.2, GRAPE 4.1)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from pubweave.design.relocation.rules import Preference
from pubweave.model.ids import ClientId


class RelocationMode(enum.Enum):
    """How the broker of a publisher decides where that should be."""

    OFF = "off"
    POP = "pop"
    GRAPE = "grape"


@dataclass(frozen=True)
class RelocationConfig:
    """How a broker treats the publishers attached to it. Tracing what other brokers ask for is
    not a setting: every broker does."""

    mode: RelocationMode = RelocationMode.OFF
    """Where publishers move: nowhere, towards the majority of subscribers (pop), or where they cost
    least by load and delay (grape)."""
    preference: Preference = field(default_factory=Preference)
    publishers: Mapping[ClientId, RelocationMode] = field(default_factory=dict)
    """Publishers that are treated otherwise."""
    pop_window_s: float = 60.0
    """W: the time in which at most N publications are traced."""
    pop_most_traced: int = 50
    """N of P = 1 - T/N."""
    pop_threshold: int = 100
    """So many results before POP looks for the closest broker."""
    grape_threshold: int = 100
    """The publications of one trace session."""
    grape_every_s: float = 10.0
    """Sessions of a publisher begin at least so far apart: else a fast one would be traced, and
    asked for pings, all the time."""
    least_gain: float = 0.05
    """A move has to lower what decides it by this share at least."""
    rest_s: float = 60.0
    """So long a client that has moved is not moved again, and not traced."""
    subscribers: bool = False
    """Whether subscribers of traced publishers move, too."""
    most_clients: int = 200
    """Subscribers move to no broker that has so many clients already. Without a limit all of them
    would end where their publishers are."""
    answer_limit_s: float = 10.0
    """Answers that have not come after this time are given up, and so is what waits for them."""

    def __post_init__(self) -> None:
        """ValueError names the field and what it can be."""
        for name in ("pop_most_traced", "pop_threshold", "grape_threshold"):
            if not 1 <= getattr(self, name) <= MOST_TRACED:
                raise ValueError(f"{name} must be between 1 and {MOST_TRACED}")
        for name in ("pop_window_s", "answer_limit_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be more than 0")

        if not 0 <= self.least_gain < 1:
            raise ValueError("least_gain must be a share from 0 to below 1")
        for name in ("rest_s", "grape_every_s"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be 0 or more")
        if self.most_clients < 1:
            raise ValueError("most_clients must be at least 1")

    def mode_of(self, publisher: ClientId) -> RelocationMode:
        return self.publishers.get(publisher, self.mode)


MOST_TRACED = 4_096
"""No session is longer, whatever a neighbor says: a bit vector stays below a kilobyte."""
