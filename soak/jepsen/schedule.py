"""What strikes whom and when, drawn from a seed: the same settings and seed, the same schedule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

LONG_S = 120.0
CALM_BEFORE_S = 5.0
CALM_AFTER_S = 20.0
"""Nothing strikes in the first and the last seconds of a trial."""

COMMON = {
    "stop": 4,
    "stop several": 2,
    "kill": 4,
    "kill several": 2,
    "kill all": 1,
    "stop and kill": 2,
    "cut": 3,
    "one-way cut": 3,
    "isolate": 2,
    "deafen": 2,
    "mute": 2,
    "loss": 2,
    "slow link": 2,
    "clock": 3,
}
"""Every fault that any overlay can have, and how often it strikes beside the others."""
ON_DISKS = {"full disk": 3, "slow disk": 3}
ON_NETWORK = ("cut", "one-way cut", "isolate", "deafen", "mute", "loss", "slow link")
PAIRED = 0.35
"""The share of faults that strike while the one before lasts."""


@dataclass(frozen=True)
class Fault:
    """One strike."""

    number: int
    at_s: float
    kind: str
    targets: tuple[str, ...]
    for_s: float
    amount: float = 0.0
    """Of loss: percent; of a clock: seconds; of a slow disk: seconds per sync."""


def draw_schedule(
    brokers: list[str],
    minutes: float,
    seed: int,
    *,
    weights: dict[str, int],
    for_s: float | None = None,
) -> list[Fault]:
    """Faults until shortly before the end, in the order of time; all last `for_s` if that is
    given."""
    rng = Random(f"nemesis {seed} {sorted(weights.items())} {minutes:g} {brokers}")
    end_s = minutes * 60.0 - CALM_AFTER_S
    longest_s = min(LONG_S, max(4.0, minutes * 60.0 / 6.0))
    kinds = sorted(weights)
    deck: list[str] = []
    faults: list[Fault] = []
    at_s = CALM_BEFORE_S
    while kinds and at_s < end_s - 3.0:
        if not deck:  # like cards: whatever weighs little comes, too
            deck = [kind for kind in kinds for _ in range(weights[kind])]
            rng.shuffle(deck)
        kind = deck.pop()
        fault = _draw(rng, len(faults), at_s, kind, brokers, longest_s)
        lasts_s = min(for_s or fault.for_s, end_s - at_s)
        faults.append(replace(fault, for_s=round(lasts_s, 2)))
        pause_s = lasts_s + rng.uniform(2.0, 14.0)
        if rng.random() < PAIRED:
            pause_s = lasts_s * rng.random()
        at_s = round(at_s + max(2.0, pause_s), 2)
    return faults


def _draw(
    rng: Random, number: int, at_s: float, kind: str, brokers: list[str], longest_s: float
) -> Fault:
    count = 1
    if kind in ("stop several", "kill several"):
        count = rng.randint(2, max(2, len(brokers) // 2))
    elif kind in ("cut", "one-way cut"):
        count = 2
    elif kind in ("kill all", "plan", "remap"):
        count = len(brokers)
    targets = tuple(rng.sample(brokers, min(count, len(brokers))))
    for_s = rng.uniform(2.0, min(18.0, longest_s))
    if rng.random() < 0.15:
        for_s = rng.uniform(for_s, longest_s)
    amount = 0.0
    if kind.startswith("kill"):
        for_s = rng.choice((0.2, 1.0, rng.uniform(2.0, min(30.0, longest_s))))
    elif kind == "loss":
        amount = float(rng.randint(2, 30))
    elif kind == "clock":
        amount = rng.choice((-1.0, 1.0)) * rng.choice((0.5, 5.0, 60.0, 3600.0))
    elif kind == "slow disk":
        amount = rng.choice((0.05, 0.2, 1.0))
    elif kind in ("plan", "remap", "churn"):
        for_s = rng.uniform(5.0, 15.0)
    return Fault(number, at_s, kind, targets, for_s, amount)
