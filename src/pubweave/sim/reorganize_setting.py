"""What one run of the scenario `reorganize` is like, drawn from its seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pubweave.core.organize_config import LinkPrice, OrganizeConfig
from pubweave.design.ci_rules import Estimate, Heuristic
from pubweave.sim.world import World


@dataclass(frozen=True)
class ReorganizeSetting:
    """What makes a run one of self-organization, beside what the other settings say."""

    organize: OrganizeConfig
    rounds: int
    round_s: float
    has_operator: bool
    """Somebody applies plans meanwhile."""

    @classmethod
    def draw(cls, world: World) -> ReorganizeSetting:
        heuristic = world.choice([Heuristic.CI, Heuristic.CI, Heuristic.MST, Heuristic.MIT])
        has_prices = world.chance(0.5)
        organize = OrganizeConfig(
            heuristic=heuristic,
            eta=world.integer(2, 5),
            interval_s=world.uniform(0.5, 1.3),
            estimate=world.choice([Estimate.SIDES] * 3 + [Estimate.OVERLAP, Estimate.CONJUNCTION]),
            cache_entries=world.choice([64, None, None]),
            bloom_bits=int(world.choice([1_024, 8_192, 100_000])),
            bloom_hashes=world.integer(1, 6),
            adapt_bloom=world.chance(0.5),
            damping=world.chance(0.3),
            least_gain=float(world.choice([0.0, 0.02, 0.05])),
            lock_s=world.uniform(1.0, 8.0),
            link_price=LinkPrice.RTT if has_prices else LinkPrice.HOPS,
            broker_price=world.uniform(0.0, 20.0) if world.chance(0.7) else None,
        )
        return cls(
            organize=organize,
            rounds=2 if world.chance(0.3) else 1,
            round_s=world.uniform(4.5, 7.5),
            has_operator=world.chance(0.25),
        )

    def describe(self) -> dict[str, Any]:
        organize = self.organize
        return {
            "heuristic": organize.heuristic.value,
            "eta": organize.eta,
            "interval_s": round(organize.interval_s, 3),
            "link_price": organize.link_price.value,
            "estimate": organize.estimate.value,
            "damping": organize.damping,
            "operator": self.has_operator,
        }
