"""What strikes few runs: which kinds a run has is drawn from its seed, or one is asked for.

Most runs have none of a kind, so that each can be long, or leave long consequences, without making
all runs long. Small limits are no faults, but what usually needs minutes of traffic happens then.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.session import SessionLimits
from pubweave.sim.kernel.world import World

SHARES = {
    "long_pauses": 0.03,
    "one_way_cuts": 0.1,
    "sites_away": 0.06,
    "clocks": 0.1,
    "small_limits": 0.1,
    "pairs": 0.2,
}
"""By kind: the share of runs with faults that have it."""
RARE = tuple(SHARES)
LOSING = 0.2
"""The share of small limits in which full gates, early logs and topic logs lose publications. Not
all of these are counted yet, so such runs fail (ADR 27)."""


@dataclass(frozen=True)
class RareFaults:
    """Which rare faults one run has: how often per second of virtual time, and for how long."""

    kinds: tuple[str, ...] = ()
    long_pause_per_s: float = 0.0
    long_pauses: int = 0
    """How many a run has at most."""
    long_pause_s: tuple[float, float] = (6.0, 120.0)
    one_way_cut_per_s: float = 0.0
    one_way_cut_s: tuple[float, float] = (0.5, 15.0)
    site_away_per_s: float = 0.0
    site_away_s: tuple[float, float] = (0.5, 20.0)
    clock_jump_per_s: float = 0.0
    clock_jump_s: tuple[tuple[float, float], ...] = ((0.1, 2.0), (2.0, 20.0), (60.0, 300.0))
    """A jump is of one of these sizes."""
    second_fault_per_s: float = 0.0
    second_pause_s: tuple[float, float] = (0.2, 8.0)

    @classmethod
    def draw(cls, world: World, asked: str | None, spared: Collection[str] = ()) -> RareFaults:
        """``asked``: the kind that the run has at any rate, and then it has no other; ``spared``:
        those that it does not have unless they are asked for."""
        drawn = [kind for kind, share in SHARES.items() if world.chance(share)]
        kinds = [kind for kind in drawn if kind not in spared] if asked is None else [asked]
        return cls(
            kinds=tuple(kinds),
            long_pause_per_s=0.2 if "long_pauses" in kinds else 0.0,
            long_pauses=1,
            one_way_cut_per_s=0.2 if "one_way_cuts" in kinds else 0.0,
            site_away_per_s=0.15 if "sites_away" in kinds else 0.0,
            clock_jump_per_s=0.2 if "clocks" in kinds else 0.0,
            second_fault_per_s=0.7 if "pairs" in kinds else 0.0,
        )


NO_RARE_FAULTS = RareFaults()


@dataclass(frozen=True)
class SmallLimits:
    """Limits of a run that are so small that queues, gates and logs get full.

    Not the receive maximum of MQTT, which the clients of the simulator do not heed."""

    limits: SessionLimits
    hold_limit_bytes: int
    keep_bytes: int
    link_queue_bytes: int
    client_queue_bytes: int
    mqtt_queue_messages: int
    mqtt_queue_bytes: int
    mqtt_session_expiry_s: int

    @classmethod
    def draw(cls, world: World) -> SmallLimits:
        def one_of(*sizes: int) -> int:
            return int(world.choice(list(sizes)))

        window_bytes = one_of(300, 1000, 4000, 1 << 20)
        if world.chance(LOSING):
            congested_bytes, keep_bytes = one_of(300, 1000), one_of(3000, 30_000)
        else:
            congested_bytes, keep_bytes = one_of(5000, 1 << 20), 64 << 20
        return cls(
            limits=SessionLimits(window_bytes, congested_bytes, max(1, congested_bytes // 4)),
            hold_limit_bytes=one_of(300, 2000, 4 << 20),
            keep_bytes=keep_bytes,
            # Whoever is cut off for more gets all that is kept again, which must be less.
            link_queue_bytes=one_of(10 * keep_bytes, 64 << 20),
            client_queue_bytes=one_of(3000, 64 << 20),
            # Less than a subscription brings at once would end a session again and again.
            mqtt_queue_messages=one_of(15, 200_000),
            mqtt_queue_bytes=one_of(5000, 64 << 20),
            mqtt_session_expiry_s=one_of(2, 7 * 24 * 3600),
        )

    def of(self, config: BrokerConfig) -> BrokerConfig:
        """A broker's configuration with these limits."""
        topics, entry, mqtt = config.topics, config.entry, config.mqtt
        if mqtt is None:
            topics = replace(
                topics, keep_bytes=self.keep_bytes, queue_limit_bytes=self.link_queue_bytes
            )
        else:
            # What brokers keep is as usual: an MQTT client is not told what was missed.
            mqtt = replace(
                mqtt,
                queue_messages=min(mqtt.queue_messages, self.mqtt_queue_messages),
                queue_bytes=self.mqtt_queue_bytes,
                session_expiry_max_s=self.mqtt_session_expiry_s,
            )
        return replace(
            config,
            limits=self.limits,
            hold_limit_bytes=self.hold_limit_bytes,
            topics=topics,
            entry=replace(entry, queue_bytes_per_client=self.client_queue_bytes),
            mqtt=mqtt,
        )
