"""Settings of a broker in a topic-connected overlay; every limit of its repair in one place."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pubweave.core.config.bounds import Count, NotNegative, Seconds
from pubweave.model.ids import BrokerId


@dataclass(frozen=True)
class TopicConfig:
    """Durations in seconds on the clock the driver passes in."""

    ring: tuple[BrokerId, ...] = ()
    """Brokers of a ring that this one has links with: it may be its overlay's gateway there."""
    lost_after_s: Seconds = 0.4
    """A link that stood and has no connection for so long is lost."""
    open_limit_s: Seconds = 0.8
    """A link that is new and does not stand after so long is lost."""
    start_limit_s: Seconds = 10.0
    """The same for the links a broker was started with: others may start later."""
    knock_after_s: Seconds = 0.2
    """The broker that is to be dialed waits so long; then it dials once itself, and again."""
    forget_after_s: Seconds = 240.0
    """A broker of which nothing is heard for so long is forgotten, and a lost link is tried for so
    long; until then what it misses is kept. Every broker tells of itself four times in it."""
    settle_s: NotNegative = 0.05
    """After news of others so long is waited for more of it before links are chosen."""
    look_every_s: Seconds = 0.1
    """How often the links are looked at when nothing happens."""
    subscribe_limit_s: NotNegative = 2.0
    """So long at most a subscription waits for its acknowledgement until its topic is connected."""
    linger_s: NotNegative = 2.0
    """A broker takes part in a topic for so long after its last client wanted it."""
    hand_over_s: NotNegative = 3.0
    """And so long at most until the others are connected without it."""
    keep_s: NotNegative = 30.0
    """Publications are kept for so long, to be sent over new links; for longer if a broker that
    wants them is away."""
    keep_bytes: Count = 64 << 20
    """The most that is kept for that, of all topics."""
    queue_limit_bytes: Count = 64 << 20
    """A neighbor or client that is so far behind is cut off: nobody waits for it."""
    coverage: Count = 3
    """How often backups cover each topic of a broker (lambda of Shadows)."""
    rho: float = 3.0
    """The balance between average and maximum degree (Shadows, Algorithm 2)."""

    def patient(self) -> TopicConfig:
        """For brokers with journals: each step of a handshake waits for a sync on both sides, so a
        link takes longer to stand, and both ends must not begin it anew meanwhile."""
        return replace(
            self,
            knock_after_s=2.5 * self.knock_after_s,
            open_limit_s=2.0 * self.open_limit_s,
        )
