"""The transcript of a shift."""

from __future__ import annotations

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.transformation.coordinator import ActionCoordinator
from pubweave.model.filters.text import parse_filter
from pubweave.model.ids import Link
from pubweave.model.plans import Shift
from pubweave.model.topology import Topology
from pubweave.sim.kernel.nodes import HandlingTime, SimBroker
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.tree import TreeOverlay
from tests.sim.action_arbiter import ActionArbiter
from tests.transcripts.recorder import Recorder

HEADER = """
shift(i, j, k): the link (i, j) becomes (i, k), while (j, k) stays. p at i publishes, r at j and
s at k want all of it; links take 10, 15 and 5 ms.

     i - j - k      becomes      j - k - i

A line: milliseconds, sender > receiver, what comes there, the state that the receiver goes to.
Acknowledgements are left out unless they lead to one. "-" is no broker: the agent, the store behind
it, the network. To be seen:

- The mover i leads. Nothing is held before the new link stands (`linked`): a slow or impossible
  connection costs nobody anything.
- Markers end the old ways: i holds for j, then k holds for j, then j has both markers and holds
  for both. A publication that was on its way goes in front of the marker.
- One commit, asked for by i alone when all three are ready. Who hears of it first says so on its
  links before it sends what it held.
- r and s get all of p's publications, each once and in order.
"""


def transcript() -> str:
    world = World(1)
    latencies = {("i", "j"): 10.0, ("j", "k"): 15.0}
    overlay = TreeOverlay(
        world,
        Topology.from_links(
            latencies, latency_ms={Link.between(*pair): ms for pair, ms in latencies.items()}
        ),
        make_config=lambda name: BrokerConfig(name, strategy="tree"),
        handling=HandlingTime(0.0, 0.0),
        latency_s=lambda link: 0.005,
    )
    arbiter = ActionArbiter(overlay, lambda: 0.002)
    recorder = Recorder(overlay, _state)
    for name, home in (("p", "i"), ("r", "j"), ("s", "k")):
        overlay.join(name, home, latency_s=0.001, limits=SessionLimits())
        client, quotes = overlay.clients[name], parse_filter("class = 'quotes'")
        client.core.advertise(quotes) if name == "p" else overlay.subscribe(client, quotes)
        client.flush()
    p = overlay.clients["p"]
    world.run_until(1.0)
    recorder.begin(*overlay.brokers.values())

    def publish() -> None:
        p.core.publish("quotes", {}, b"", world.now)
        p.flush()

    for number in range(1, 7):
        world.at(1.0 + 0.02 * number, publish)
    world.at(1.005, arbiter.begin, Shift("i", "j", "k"))
    world.run_until(1.145)
    return recorder.text(HEADER)


def _state(end: object) -> str:
    if not isinstance(end, SimBroker):
        return ""
    broker = end.broker
    assert broker.part(ActionCoordinator) is not None
    status = broker.part(ActionCoordinator).current(end.world.now)
    words = [] if status is None else [status.phase]
    if status is not None and (status.phase in ("holding", "ready") or status.held_messages):
        words.append(f"holds {status.held_messages}")
    links = [
        name if link.is_established else f"{name} ({link.state.value})"
        for name, link in sorted(broker.sessions.links.items())
    ]
    return ", ".join([*words, "linked to " + " ".join(links)])
