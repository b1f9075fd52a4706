"""Users of a rendezvous overlay over sockets that are sent where they fit: is anything lost?

Each broker is a process. Users come to brokers at random and subscribe to topics of one mode each
(multimodal); some of them subscribe to topics of another mode later. One publisher per topic
publishes at a steady rate. Brokers send users to each other by user placement. What is published
is held against what arrives, and the topics that brokers want, and so the sizes of the trees,
against what they would be if everybody had stayed.

    python -m soak.run_placement --brokers 8 --users 60
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import uvloop

from pubweave.core.config.placement import RULES, PlacementConfig
from pubweave.generate.topologies.trees import random_tree
from pubweave.model.messages.rendezvous import RendezvousStatus
from pubweave.model.records.status import TOPICS_SUBJECT
from pubweave.runtime.client.client import Client
from pubweave.runtime.client.observer import client_count
from pubweave.runtime.overlay.overlay import Overlay
from pubweave.runtime.overlay.run_directory import RunDirectory
from pubweave.runtime.overlay.spec import make_spec
from pubweave.runtime.settings.tree import PlacementTable, Settings
from soak.topic_traffic import TopicTraffic, verdict

TOPICS_PER_MODE = 5
TOPICS_PER_USER = 3
UPDATE_S = 1.0
_status = msgspec.json.Decoder(RendezvousStatus)


class PlacementRun:
    """One run."""

    def __init__(self, overlay: Overlay, modes: list[list[str]], traffic: TopicTraffic) -> None:
        self._overlay = overlay
        self._modes = modes
        self._traffic = traffic
        self._homes: dict[str, tuple[str, set[str]]] = {}
        """By user: the broker it came to first, and what it wants."""

    async def add_users(self, count: int, pause_s: float) -> None:
        rng = self._traffic.rng
        for number in range(count):
            broker = str(rng.choice(list(self._overlay.spec.brokers)))
            user = await self._traffic.connect(f"u{number}", broker)
            self._homes[user.id] = broker, set()
            await self._subscribe(user, int(rng.integers(len(self._modes))))
            await asyncio.sleep(pause_s)

    async def change_some(self, share: float) -> None:
        """A share of the users take topics of another mode, too."""
        rng = self._traffic.rng
        users = [client for client in self._traffic.clients if client.id in self._homes]
        for user in users:
            if rng.random() < share:
                await self._subscribe(user, int(rng.integers(len(self._modes))))

    async def _subscribe(self, user: Client, mode: int) -> None:
        wanted = self._homes[user.id][1]
        for topic in self._traffic.rng.choice(self._modes[mode], TOPICS_PER_USER, False):
            if topic not in wanted:
                wanted.add(str(topic))
                await self._traffic.subscribe(user, str(topic))

    async def wanted_by_brokers(self) -> int:
        """Topics that brokers are in the trees of for their users, summed over brokers."""
        total = 0
        for broker in self._overlay.spec.brokers:
            answer = await self._overlay.observer.query(broker, TOPICS_SUBJECT)
            if answer is not None:
                total += sum(tree.is_subscribed for tree in _status.decode(answer).trees)
        return total

    def wanted_if_all_had_stayed(self) -> int:
        return len({(broker, t) for broker, topics in self._homes.values() for t in topics})

    def moves(self) -> list[float]:
        """How long users waited that were sent elsewhere, in seconds."""
        return [move.wait_s for client in self._traffic.clients for move in client.moves]


async def run(given: argparse.Namespace) -> dict[str, Any]:
    """The figures of one run."""
    rng = np.random.default_rng(given.seed)
    names = [f"t{number}" for number in range(given.modes * TOPICS_PER_MODE)]
    modes = [names[i : i + TOPICS_PER_MODE] for i in range(0, len(names), TOPICS_PER_MODE)]
    with tempfile.TemporaryDirectory(prefix="pubweave-placement-") as scratch:
        tree = random_tree(given.brokers, rng)
        placement = PlacementTable(
            update_s=UPDATE_S,
            load_weight=given.load,
            rest_s=UPDATE_S,
            rule=given.rule,
            size=given.cluster,
        )
        settings = Settings(placement=placement)
        spec = make_spec(tree, settings, name="placed", base_port=0, strategy="rendezvous")
        async with Overlay(spec, RunDirectory(Path(scratch) / "run")) as overlay:
            topics: dict[str, list[str]] = {broker: [] for broker in spec.brokers}
            traffic = TopicTraffic(overlay, topics, given.rate, rng)
            bench = PlacementRun(overlay, modes, traffic)
            try:
                await traffic.publish_on(names)
                await bench.add_users(given.users, 0.05)
                await asyncio.sleep(given.seconds)
                await bench.change_some(0.3)
                await asyncio.sleep(given.seconds)
                traffic.receipts.is_over = True
                await asyncio.sleep(4.0)
                wanted, moves = await bench.wanted_by_brokers(), bench.moves()
                users = [client_count(s) for s in (await overlay.snapshot()).up]
                figures = traffic.receipts.figures([])
            finally:
                await traffic.close()
    return {
        "brokers": given.brokers,
        "users": given.users,
        "seed": given.seed,
        "sent_elsewhere": len(moves),
        "wait_s_max": round(max(moves, default=0.0), 3),
        "topics_of_brokers": wanted,
        "topics_of_brokers_if_all_had_stayed": bench.wanted_if_all_had_stayed(),
        "clients_of_brokers": sorted(users),
        **figures,
    }


def main() -> int:
    """The command line; exit code 1 if anything is missing, doubled or out of order."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--brokers", type=int, default=8)
    parser.add_argument("--cluster", type=int, default=4, help="brokers of a placement cluster")
    parser.add_argument("--users", type=int, default=60)
    parser.add_argument("--modes", type=int, default=4)
    load = PlacementConfig.load_weight
    parser.add_argument("--load", type=float, default=load, help="the weight of load")
    parser.add_argument("--rule", choices=RULES, default=PlacementConfig.rule)
    parser.add_argument("--rate", type=float, default=4.0, help="publications/s per topic")
    parser.add_argument("--seconds", type=float, default=6.0, help="of traffic after each change")
    parser.add_argument("--seed", type=int, default=1)
    return verdict(uvloop.run(run(parser.parse_args())))


if __name__ == "__main__":
    sys.exit(main())
