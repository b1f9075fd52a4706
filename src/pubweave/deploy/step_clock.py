"""How long a step has been under way, and how long its missing brokers have been missing.

The clock of one executor: another one that takes over begins anew. No decision rests on its
precision; it only keeps a plan from waiting for ever.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from pubweave.model.ids import BrokerId


class StepClock:
    """Times of the current step; none runs between steps."""

    def __init__(self, step_timeout_s: float, missing_grace_s: float) -> None:
        self._step_timeout_s = step_timeout_s
        self._missing_grace_s = missing_grace_s
        self._step: tuple[str, int] | None = None
        self._began_at = math.inf
        self._missing_since: dict[BrokerId, float] = {}

    @property
    def missing(self) -> tuple[BrokerId, ...]:
        """Brokers that the step needs and that are not there, in order."""
        return tuple(sorted(self._missing_since))

    def stop(self) -> None:
        """No step is under way."""
        self._step = None
        self._began_at = math.inf
        self._missing_since = {}

    def run(self, deployment: str, step: int, now: float) -> None:
        """This step is under way; the clock begins when it is first said."""
        if (deployment, step) != self._step:
            self._step = (deployment, step)
            self._began_at = now
            self._missing_since = {}

    def look(self, needed: Collection[BrokerId], living: Collection[BrokerId], now: float) -> None:
        """Who is needed, and who of all brokers is there."""
        self._missing_since = {
            broker: self._missing_since.get(broker, now)
            for broker in needed
            if broker not in living
        }

    def gone(self, now: float) -> list[BrokerId]:
        """Brokers that have been missing for too long."""
        return [
            broker
            for broker, since in self._missing_since.items()
            if now >= since + self._missing_grace_s
        ]

    def is_late(self, now: float) -> bool:
        return now >= self._began_at + self._step_timeout_s

    def deadlines(self) -> Iterator[float]:
        """The instants at which there is something to look at."""
        yield self._began_at + self._step_timeout_s
        for since in self._missing_since.values():
            yield since + self._missing_grace_s
