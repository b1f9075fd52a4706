"""Settings of a broker in a rendezvous overlay. Links, logs and queues are bounded as in every
overlay that routes by topic (`config/topic_connected`)."""

from __future__ import annotations

from dataclasses import dataclass

from pubweave.core.config.bounds import Count, Seconds


@dataclass(frozen=True)
class RendezvousConfig:
    """Durations in seconds on the clock the driver passes in."""

    position: int | None = None
    """Where on the ring the broker is; None: where its name hashes to."""
    successors: Count = 4
    """How many brokers behind it on the ring a broker is linked with: so many less one may crash
    at once."""
    stabilize_every_s: Seconds = 1.0
    """How often a broker compares notes with those around it on the ring."""
    fingers_every_s: Seconds = 4.0
    """How often it looks its fingers up."""
    refresh_s: Seconds = 4.0
    """How often it joins its trees and offers its topics again."""
    retry_s: Seconds = 0.3
    """The same while nobody has answered."""
    expire_after_s: Seconds = 13.0
    """What is not refreshed for so long is over."""
    release_after_s: Seconds = 20.0
    """A link that neither end has needed for so long is closed."""
