"""Settings of user placement at a rendezvous broker (DYNATOPS section 4)."""

from __future__ import annotations

from dataclasses import dataclass

from pubweave.core.config.bounds import NotNegative, Seconds
from pubweave.model.ids import BrokerId

LASTING = "lasting"
"""Users go where their topics last (`design.dynatops.placement_rule`)."""
SIMILARITY = "similarity"
"""The paper's rule: users go where most of their topics are wanted already."""
RULES = (LASTING, SIMILARITY)
COLLECTORS = 3
"""So many of a cluster may collect what its brokers tell: if all are gone, nobody is sent."""


@dataclass(frozen=True)
class PlacementConfig:
    """Durations in seconds on the clock the driver passes in."""

    members: tuple[BrokerId, ...] = ()
    """The other brokers of this one's placement cluster; without any nobody is sent anywhere."""
    update_s: Seconds = 10.0
    """T_update: how often they tell each other their topics and load."""
    load_weight: float = 3.0
    """What a broker's load weighs: with `LASTING` the load over the mean of its cluster, with
    `SIMILARITY` its share of the cluster's subscriptions (w_l)."""
    least_gain: float = 0.1
    """How much more utility another broker must have for a user to be sent there."""
    rest_s: NotNegative = 10.0
    """How long a user that was sent elsewhere is left alone."""
    rule: str = LASTING
    """'lasting': clients go where fewest topics begin and end, now and later; 'similarity': where
    most of theirs are wanted already."""

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ValueError(f"rule {self.rule!r} is none of {', '.join(RULES)}")

    def collectors(self, own: BrokerId) -> tuple[BrokerId, ...]:
        """Who may collect what the cluster tells, the first of them first.

        >>> PlacementConfig(("b3", "b1", "b4")).collectors("b2")
        ('b1', 'b2', 'b3')
        """
        return tuple(sorted((*self.members, own))[:COLLECTORS]) if self.members else ()

    def contacts(self, own: BrokerId) -> tuple[BrokerId, ...]:
        """Whom a broker needs links with: collectors with everybody, others with collectors.

        >>> PlacementConfig(("b1", "b2", "b3", "b5")).contacts("b4")
        ('b1', 'b2', 'b3')
        """
        collectors = self.collectors(own)
        return self.members if own in collectors else collectors
