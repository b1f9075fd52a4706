"""Settings of user placement at a rendezvous broker (DYNATOPS section 4)."""

from __future__ import annotations

from dataclasses import dataclass

from pubweave.model.ids import BrokerId


@dataclass(frozen=True)
class PlacementConfig:
    """Durations in seconds on the clock the driver passes in."""

    members: tuple[BrokerId, ...] = ()
    """The other brokers of this one's placement cluster; without any nobody is sent anywhere."""
    update_s: float = 10.0
    """T_update: how often they tell each other their topics and load."""
    load_weight: float = 1.0
    """w_l: what the share of its cluster's subscriptions weighs against similarity."""
    least_gain: float = 0.0
    """How much more utility another broker must have for a user to be sent there."""
    rest_s: float = 10.0
    """How long a user that was sent elsewhere is left alone."""
