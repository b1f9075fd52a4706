"""Whether a topic-connected overlay is connected again in time, while it is under churn.

Of each topic in pieces the time counts from when it broke, or from the last thing that happened
to the overlay (a fault, a broker that came or went) or to the topic (a broker that is new to it).
"""

from __future__ import annotations

from pubweave.model.ids import BrokerId
from pubweave.sim.kernel.faults import Faults
from pubweave.sim.kernel.nodes import SimBroker
from pubweave.sim.overlays.topic_connected import TopicOverlay

REPAIR_BOUND_S = 4.0
"""A topic is connected again after this time without further events."""
WATCH_EVERY_S = 0.1


class RepairWatch:
    """Looks at the truth ten times per second of virtual time."""

    def __init__(self, overlay: TopicOverlay, faults: Faults, living: list[SimBroker]) -> None:
        self._overlay = overlay
        self._faults = faults
        self._living = living
        self._happened_at = 0.0
        self._broke_at = 0.0
        """When something happened last that may have cut somebody off."""
        self._fault_count = 0
        self._cut_until = 0.0
        """When the last partition ends, or would have: what was sent in it comes only then."""
        self._wanted: dict[str, set[BrokerId]] = {}
        self._split_at: dict[str, float] = {}
        self.repair_s: list[float] = []
        self.violations: list[str] = []

    def start(self) -> None:
        self._overlay.world.after(WATCH_EVERY_S, self._look)

    def happened(self) -> None:
        """Something happened to the overlay as a whole."""
        self._happened_at = self._broke_at = self._overlay.calm_since = self._overlay.world.now

    def joined(self) -> None:
        """A broker is new: others are connected as before."""
        self._happened_at = self._overlay.world.now

    def _look(self) -> None:
        now = self._overlay.world.now
        self._overlay.world.after(WATCH_EVERY_S, self._look)
        if self._is_disturbed(now):
            self._happened_at = self._broke_at = now
        wanted = self._overlay.wanted_topics()
        self._tell_overlay(wanted, now)
        split = self._overlay.split_topics(wanted)
        for topic in [topic for topic in self._split_at if topic not in split]:
            self.repair_s.append(now - max(self._split_at.pop(topic), self._happened_at))
        for topic in split:
            # A ring also connects a topic of clients that are away and not given up yet.
            if wanted.get(topic) != self._wanted.get(topic):
                self._split_at[topic] = now
            since = max(self._split_at.setdefault(topic, now), self._happened_at)
            if now - since > REPAIR_BOUND_S:
                self.violations.append(
                    f"{now:.3f} topic {topic} has been in pieces since {since:.3f}"
                )
                self._split_at[topic] = now
        self._wanted = wanted

    def _tell_overlay(self, wanted: dict[str, set[BrokerId]], now: float) -> None:
        """Since when it has been calm, and since when brokers want what they do."""
        overlay = self._overlay
        overlay.calm_since = self._broke_at
        known = overlay.wanted_since
        overlay.wanted_since = {
            (topic, broker): known.get((topic, broker), now)
            for topic, brokers in wanted.items()
            for broker in brokers
        }

    def _is_disturbed(self, now: float) -> bool:
        """Whether a fault struck, or one lasts."""
        count = sum(self._faults.counts.values())
        has_struck, self._fault_count = count != self._fault_count, count
        paths = self._overlay.paths
        self._cut_until = max([self._cut_until, *(path.cut_until for path in paths)])
        return (
            has_struck
            or now < self._cut_until
            or now < self._faults.lasts_until
            or any(path.extra_s for path in paths)
            or any(broker.busy_until > now + WATCH_EVERY_S for broker in self._living)
            or any(not broker.is_up() or _has_bad_disk(broker) for broker in self._living)
        )


def _has_bad_disk(broker: SimBroker) -> bool:
    return broker.journal is not None and broker.journal.disk.is_troubled
