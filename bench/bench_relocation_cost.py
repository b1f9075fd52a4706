"""What tracing and migration cost a broker's throughput over sockets: ratios in one run.

``python -m bench --only relocation-cost``. One broker, one publisher, one
subscriber. *bare*: brokers without relocator and migrations; *off*: as they come; *grape*:
sessions of 100 publications, ten seconds apart; *subscribers*: placement rounds, too. Rounds are
interleaved; deliveries per second of the brokers' processor time count, because other processes
slow down wall time. Bar: *off* costs at most 2% of *bare*.
"""

from __future__ import annotations

import os
import statistics
from typing import Any

from bench import rivals
from bench.load_run import Load, Measured, measure

ROUNDS = 7
WAYS = ("bare", "off", "grape", "subscribers")
LOAD = Load(600_000, library=True)
"""By the client library: the raw generator counts frames by size, and traced ones are longer."""
BAR = 0.02


def run(rounds: int = ROUNDS) -> dict[str, Any]:
    """Medians over interleaved rounds, and each way's share of *bare*."""
    found: dict[str, list[Measured]] = {way: [] for way in WAYS}
    load_before = os.getloadavg()[0]
    for number in range(rounds):
        # The other way round each time: whoever comes first finds another machine.
        for way in WAYS if number % 2 else reversed(WAYS):
            with rivals.pubweave(1, relocation=way) as brokers:
                found[way].append(measure(brokers, LOAD))
    # Ratios within a round: its four measurements are seconds apart.
    costs = {
        way: statistics.median(
            1 - ours.delivered_per_broker_cpu_s / bare.delivered_per_broker_cpu_s
            for ours, bare in zip(found[way], found["bare"], strict=True)
        )
        for way in WAYS[1:]
    }
    return {
        "rounds": rounds,
        "load_average_before": load_before,
        **{
            way: {
                "delivered_per_broker_cpu_s": statistics.median(
                    m.delivered_per_broker_cpu_s for m in measured
                ),
                "delivered_per_s": statistics.median(m.delivered_per_s for m in measured),
                "cost": costs.get(way, 0.0),
                "lost": sum(m.lost for m in measured),
            }
            for way, measured in found.items()
        },
        "off costs": {"share": costs["off"], "bar": BAR, "met": costs["off"] <= BAR},
    }
