"""Chord as brokers keep it: hops against log2 n, and what a ring and a join cost in messages.

``python -m bench.bench_chord [--json FILE]``. Rings of brokers without a network (messages
arrive at once, `tests.rendezvous_ring`), positions hashed from names. *hops* are those to the one
responsible for a random key; beside them half of log2 n, which Chord's paper expects, and n / 2,
which going from successor to successor takes. *idle* is what all brokers say in one second while
nothing happens, per broker and divided by log2^2 n. *join* are the messages from, to and on behalf
of a broker that joins, in its first two seconds. *ratio* is how many times longer than ours the
naive twin takes for one hop, in the same run.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics as st
import sys
import timeit
from pathlib import Path
from typing import Any

import numpy as np
from tests.naive import dynatops as naive
from tests.rendezvous_ring import STEP_S, Planes

from pubweave.design.dynatops.mapping.ring import RING_SIZE, key_of
from pubweave.model.messages.rendezvous import ChordFound, ChordLookup
from pubweave.model.messages.session import SequencedMessage

SIZES = (16, 64, 256)
GROWING_ROUNDS = 40
IDLE_ROUNDS = 20
JOIN_ROUNDS = 4
KEYS = 400


class CountedPlanes(Planes):
    """Counts what concerns one broker."""

    counted: str | None = None
    concerned = 0

    def _tell(self, sender: str, receiver: str, message: SequencedMessage) -> None:
        is_lookup = isinstance(message, ChordLookup | ChordFound)
        asker = message.way[0] if is_lookup and message.way else None  # type: ignore[union-attr]
        self.concerned += self.counted is not None and self.counted in (sender, receiver, asker)
        super()._tell(sender, receiver, message)


def run() -> dict[str, Any]:
    """All figures, by the number of brokers."""
    rng = np.random.default_rng(1)
    return {f"{count} brokers": _ring(count, rng) for count in SIZES}


def _ring(count: int, rng: np.random.Generator) -> dict[str, Any]:
    planes = CountedPlanes()
    names = [f"broker-{number}" for number in range(count + 1)]
    for number, name in enumerate(names[:-1]):
        contact = names[int(rng.integers(number))] if number else None
        planes.join(name, key_of(name), contact)
    planes.run(GROWING_ROUNDS)
    wrong = _wrong_tables(planes)
    idle = _messages(planes, IDLE_ROUNDS)
    planes.counted = names[-1]
    planes.join(names[-1], key_of(names[-1]), names[0])
    planes.run(JOIN_ROUNDS)
    hops = [_hops(planes, int(rng.integers(RING_SIZE)), rng) for _ in range(KEYS)]
    log = math.log2(count)
    per_s = idle / count / (IDLE_ROUNDS * STEP_S)
    return {
        "wrong_tables": wrong,
        "hops_mean": st.mean(hops),
        "hops_max": max(hops),
        "half_log2": log / 2,
        "hops_by_successors": count / 2,
        "idle_messages_per_broker_and_s": per_s,
        "idle_over_log2_squared": per_s / log**2,
        "join_messages": planes.concerned,
        "join_over_log2_squared": planes.concerned / log**2,
        "ratio": _ratio(planes),
        "met": not wrong and st.mean(hops) <= log and max(hops) <= 2 * log + 2,
    }


def _messages(planes: Planes, rounds: int) -> int:
    before = planes.messages
    planes.run(rounds)
    return planes.messages - before


def _wrong_tables(planes: Planes) -> int:
    """Brokers whose successors are not those of the sorted ring."""
    order = planes.order()
    wrong = 0
    for place, name in enumerate(order):
        behind = order[place + 1 :] + order[:place]
        found = [each.broker for each in planes.planes[name].table.successors()]
        wrong += found != behind[: len(found)]
    return wrong


def _hops(planes: Planes, key: int, rng: np.random.Generator) -> int:
    here, hops = planes.order()[int(rng.integers(len(planes.planes)))], 0
    while (hop := planes.planes[here].table.next_hop(key)) is not None:
        here, hops = hop.broker, hops + 1
    return hops


def _ratio(planes: Planes) -> float:
    """One step towards a position: by the table, and by the definition of fingers."""
    ids = planes.ids()
    table = planes.planes[planes.order()[0]].table
    target = ids[len(ids) // 2]
    ours = min(timeit.repeat(lambda: table.next_towards(target), number=1_000)) / 1_000
    slow = min(timeit.repeat(lambda: naive.route(ids, 0, 1), number=1))
    return slow / ours


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.bench_chord", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    figures = run()
    print(json.dumps(figures, indent=2))
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0 if all(each["met"] for each in figures.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
