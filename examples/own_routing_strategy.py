"""A routing strategy of your own: every publication goes everywhere, on an overlay in this process.

    python examples/own_routing_strategy.py

As a package beside pubweave it would be found by name (`pubweave up tree.json --strategy gossip`):

    [project.entry-points."pubweave.strategies"]
    gossip = "my_package.gossip:GOSSIP"
"""

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pubweave
from pubweave.core.metering.counters import TableSizes
from pubweave.core.routing.strategy import RoutingStrategy, Send
from pubweave.core.session.session import Session
from pubweave.core.strategies import STRATEGIES, Strategy
from pubweave.model.messages import session as wire


class Gossip(RoutingStrategy):
    """Neighbors tell each other nothing but publications; only local clients have filters."""

    protocol = "gossip"

    def __init__(self, send: Send) -> None:
        super().__init__(send)
        self.links: list[Session] = []
        self.entries: dict[str, tuple[Session, wire.Advertise | wire.Subscribe]] = {}

    def link_added(self, link: Session) -> None:
        self.links.append(link)

    def link_removed(self, link: Session) -> None:
        self.links.remove(link)

    def link_began(self, link: Session, under_way: Sequence[wire.SequencedMessage] = ()) -> None:
        for message in under_way:
            self._send(link, message)

    def client_left(self, client: Session) -> None:
        self.own.discard(client)
        self.entries = {id_: known for id_, known in self.entries.items() if known[0] != client}

    def client_entries(self) -> Iterator[tuple[Session, wire.Advertise | wire.Subscribe]]:
        return iter(self.entries.values())

    def receive(self, hop: Session, message: wire.TableMessage | wire.Synced) -> None:
        if isinstance(message, wire.Advertise | wire.Subscribe):
            self.entries[message.id] = hop, message
            if isinstance(message, wire.Advertise):
                self.own.add(hop, message.id, message.filter)
        elif isinstance(message, wire.Unadvertise | wire.Unsubscribe):
            del self.entries[message.id]
            self.own.remove(hop, message.id)

    def route(self, publication: pubweave.Publication, origin: Session) -> tuple[Session, ...]:
        links = (link for link in self.links if link != origin)
        wanting = {
            client: None
            for client, entry in self.entries.values()
            if isinstance(entry, wire.Subscribe) and entry.filter.matches(publication)
        }
        return (*links, *wanting)

    def knows_publisher(self, publisher: str) -> bool:
        return True

    def sizes(self) -> TableSizes:
        return TableSizes(len(self.entries), 0, 0)


GOSSIP = Strategy(Gossip)


async def main(folder: Path) -> None:
    STRATEGIES["gossip"] = GOSSIP
    topology = pubweave.Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b2", "b4")])
    spec = pubweave.make_spec(topology, base_port=0, strategy="gossip")
    async with pubweave.Overlay(spec, pubweave.RunDirectory(folder), in_process=True) as overlay:
        at = overlay.observer.addresses
        async with pubweave.connect(at["b1"]) as seller, pubweave.connect(at["b3"]) as buyer:
            await seller.advertise("class = 'STOCK'")
            quotes = await buyer.subscribe("class = 'STOCK' and volume > 1000")
            for volume in (500, 2000):
                await seller.publish("STOCK", {"volume": volume})
            print(f"b3 delivers {dict((await anext(quotes)).attributes)}")
        for status in (await overlay.snapshot()).up:
            print(f"  {status.broker} took in {status.counters.publications_in} publications")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
