"""The transcript of a migration."""

from __future__ import annotations

from typing import Any

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.migration.coordinator import MigrationCoordinator
from pubweave.core.vocabulary.events import MigrationRequested
from pubweave.model.filters.text import parse_filter
from pubweave.model.ids import Link
from pubweave.model.topology import Topology
from pubweave.sim.kernel.nodes import HandlingTime, SimBroker
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.tree import TreeOverlay
from tests.transcripts.recorder import Recorder

HEADER = """
The client m moves from a to c along the path a - b - c, whose links take 10 and 15 ms. m publishes
orders and wants quotes; x at b publishes quotes and wants orders. Clients are 1 ms away.

A line: milliseconds, sender > receiver, what comes there, the state that the receiver goes to.
Acknowledgements are left out unless they lead to one. To be seen:

- Until the source decides nothing has changed: the way is found, the path is reserved, m says
  whether it can reach c. The source decides alone, in that event, and from then on only forward.
- `update` turns the tables for what m publishes, from a to c. The source takes in nothing more of
  m, which does not know: an order that came to a late is not acknowledged, and m says it again at
  c.
- `moved` comes back behind the last quote that goes to a. In front of it quotes reach m there,
  behind it they wait at c until m is there.
- m is told to go when it has acknowledged everything. `complete` says where its session ended, so
  that it goes on at c: nothing is lost, nothing comes twice, all in order.
"""


def transcript() -> str:
    world = World(1)
    latencies = {("a", "b"): 10.0, ("b", "c"): 15.0}
    overlay = TreeOverlay(
        world,
        Topology.from_links(
            latencies, latency_ms={Link.between(*pair): ms for pair, ms in latencies.items()}
        ),
        make_config=lambda name: BrokerConfig(name, strategy="tree"),
        handling=HandlingTime(0.0, 0.0),
    )
    recorder = Recorder(overlay, _state)
    for name, home, offers, wants in (
        ("m", "a", "orders", "quotes"),
        ("x", "b", "quotes", "orders"),
    ):
        overlay.join(name, home, latency_s=0.001, limits=SessionLimits())
        client = overlay.clients[name]
        client.core.advertise(parse_filter(f"class = '{offers}'"))
        overlay.subscribe(client, parse_filter(f"class = '{wants}'"))
        client.flush()
    m, x = overlay.clients["m"], overlay.clients["x"]
    world.run_until(1.0)
    recorder.begin(*overlay.brokers.values(), m)

    def publish() -> None:
        for client, topic in ((m, "orders"), (x, "quotes")):
            client.core.publish(topic, {}, b"", world.now)
            client.flush()

    for number in range(1, 6):
        world.at(1.003 + 0.03 * number, publish)
    world.at(1.0, overlay.brokers["a"].handle, MigrationRequested("m", "c"))
    world.run_until(1.25)
    return recorder.text(HEADER)


def _state(end: Any) -> str:
    if not isinstance(end, SimBroker):
        return f"{end.core.session.state.value} at {end.home.name}"
    broker = end.broker
    assert broker.part(MigrationCoordinator) is not None
    part = broker.part(MigrationCoordinator).parts.by_client.get("m")
    words = ["no part" if part is None else part.stage.value]
    session = broker.sessions.clients.get("m")
    if session is not None:
        words.append(f"has m, {session.state.value}")
        if session.waiting:
            words.append(f"{len(session.waiting)} for m wait")
    return ", ".join(words)
