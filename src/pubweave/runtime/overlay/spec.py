"""What an overlay on this machine consists of: a topology, and where each broker listens.

A value, before anything is started: files are read elsewhere, sockets are opened elsewhere.
Brokers are always in natural order (b2 before b10), and no two listen at one address.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pubweave.core.config.mqtt import OnLoop
from pubweave.core.config.placement import PlacementConfig
from pubweave.core.config.relocation import RelocationConfig
from pubweave.core.config.self_organizing import OrganizeConfig
from pubweave.core.strategies import GRAPHS
from pubweave.design.dynatops.mapping.ring import RING_SIZE
from pubweave.model.ids import BrokerId, Link, natural_order
from pubweave.model.messages.rendezvous import RENDEZVOUS_PROTOCOL
from pubweave.model.topology import Topology, validate_tree
from pubweave.runtime.net.addresses import DEFAULT_HOST, PORT_MAX, Address, is_loopback
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.overlay import clusters as overlay_clusters

DEFAULT_BASE_PORT = 7000
ADDRESS_ATTRIBUTE = "address"
"""What a topology file calls the place where a broker listens."""


RING_ATTRIBUTE = "ring_id"
"""What it calls the place of a broker on the ring of a rendezvous overlay."""


@dataclass(frozen=True)
class OverlaySpec:
    """An overlay to start. A port 0 stands for any free one until ports are reserved."""

    name: str
    topology: Topology
    addresses: Mapping[BrokerId, Address]
    strategy: str = "tree"
    telemetry_directory: Path | None = None
    sample_ratio: float = 1.0
    advertised: Mapping[BrokerId, Address] = field(default_factory=dict)
    """Where other brokers reach a broker, if that is not where it listens."""
    organize: OrganizeConfig | None = None
    """How the overlay organizes itself; None: it stays as it is."""
    link_prices: Mapping[Link, float] = field(default_factory=dict)
    """What links cost that are or could be, for organizing; others are measured."""
    relocation: RelocationConfig = field(default_factory=RelocationConfig)
    """How brokers relocate the publishers attached to them."""
    distances_ms: Mapping[Link, float] = field(default_factory=dict)
    """How long brokers on this machine pretend that links take, one way, if they pretend."""
    placement: PlacementConfig = field(default_factory=PlacementConfig)
    """How brokers send users to others; with whom is worked out from the size."""
    placement_size: int = 0
    """How many brokers make up a placement cluster; 0: users stay."""
    journal_directory: Path | None = None
    """Where each broker has a directory for its journal; None: they keep all in memory."""

    mqtt: Mapping[BrokerId, Address] = field(default_factory=dict)
    """Where brokers listen for MQTT clients, if they do."""
    mqtt_on_loop: OnLoop = "warn"
    """What they do about a loop of MQTT bridges."""
    security: Path | None = None
    """The directory that secures the overlay (`security/directory`); None: it is open."""

    @property
    def brokers(self) -> tuple[BrokerId, ...]:
        return tuple(self.addresses)

    def neighbors(self, broker: BrokerId) -> dict[BrokerId, Address]:
        """Where the neighbors of a broker are reached; gateways make themselves known."""
        near = self.topology.neighbors[broker]
        if self.strategy_of(broker) == RENDEZVOUS_PROTOCOL:
            near = tuple(n for n in near if self.strategy_of(n) == RENDEZVOUS_PROTOCOL)
        known = (*near, *self.placement_of(broker).contacts(broker))
        return {n: self.advertised.get(n, self.addresses[n]) for n in known}

    def placement_of(self, broker: BrokerId) -> PlacementConfig:
        """With whom a broker exchanges users: neighbors in the order of the brokers."""
        ring = [name for name in self.brokers if self.strategy_of(name) == RENDEZVOUS_PROTOCOL]
        if not self.placement_size or broker not in ring:
            return PlacementConfig()
        cluster = overlay_clusters.block_of(ring, self.placement_size, broker)
        return replace(self.placement, members=tuple(n for n in cluster if n != broker))

    def strategy_of(self, broker: BrokerId) -> str:
        """How a broker routes: those of clusters around a ring do otherwise."""
        return overlay_clusters.strategy_of(self.topology, self.strategy, broker)

    def ring_of(self, broker: BrokerId) -> tuple[BrokerId, ...]:
        """The brokers of the ring that a broker of a cluster has links with."""
        is_apart = self.strategy_of(broker) != self.strategy
        return overlay_clusters.ring_of(self.topology, broker) if is_apart else ()

    def organize_of(self, broker: BrokerId) -> OrganizeConfig | None:
        """How a broker takes part in organizing, with its row of the prices."""
        if self.organize is None:
            return None
        return replace(self.organize, link_prices=_row(self.link_prices, broker))

    def distances_of(self, broker: BrokerId) -> dict[BrokerId, float]:
        """How far away the others pretend to be from a broker."""
        return _row(self.distances_ms, broker)

    def position_of(self, broker: BrokerId) -> int | None:
        """Where on the ring of a rendezvous overlay a broker begins: at its attribute ``ring_id``,
        or as many equal steps from 0 as it has brokers before it."""
        if self.strategy_of(broker) != RENDEZVOUS_PROTOCOL:
            return None
        written = self.topology.broker_attributes.get(broker, {}).get(RING_ATTRIBUTE)
        if written is not None:
            return int(written)
        ring = [name for name in self.brokers if self.strategy_of(name) == RENDEZVOUS_PROTOCOL]
        return RING_SIZE * ring.index(broker) // len(ring)

    def at(self, addresses: Mapping[BrokerId, Address]) -> OverlaySpec:
        """The same overlay at other addresses."""
        return replace(self, addresses={broker: addresses[broker] for broker in self.addresses})


def mqtt_addresses(spec: OverlaySpec, first: Address) -> dict[BrokerId, Address]:
    """Where the brokers of an overlay listen for MQTT clients: the first at the address given, the
    others at the ports behind it; port 0 stands for any free ones. OverlayError if they do not
    fit."""
    if first.port and first.port + len(spec.brokers) - 1 > PORT_MAX:
        raise OverlayError(f"{len(spec.brokers)} doors do not fit behind port {first.port}")
    return {
        broker: Address(first.host, first.port + number if first.port else 0)
        for number, broker in enumerate(spec.brokers)
    }


def _row(by_link: Mapping[Link, float], broker: BrokerId) -> dict[BrokerId, float]:
    return {link.far_end(broker): value for link, value in by_link.items() if broker in link}


def make_spec(
    topology: Topology,
    *,
    name: str = "overlay",
    host: str = DEFAULT_HOST,
    base_port: int = DEFAULT_BASE_PORT,
    strategy: str = "tree",
    telemetry_directory: Path | None = None,
    sample_ratio: float = 1.0,
) -> OverlaySpec:
    """An overlay; a broker's attribute ``address`` goes before host and base port. It has to be a
    tree unless the strategy routes on any graph.

    TopologyError for what is no tree, OverlayError for addresses that cannot be.
    """
    if strategy not in GRAPHS:
        validate_tree(topology)
    brokers = sorted(topology.brokers, key=natural_order)
    if base_port and base_port + len(brokers) - 1 > PORT_MAX:
        raise OverlayError(
            f"{len(brokers)} brokers do not fit on ports {base_port} to {PORT_MAX}: "
            "choose a smaller --port, or 0 for free ones"
        )
    addresses = {}
    for index, broker in enumerate(brokers):
        written = topology.broker_attributes.get(broker, {}).get(ADDRESS_ATTRIBUTE)
        default = Address(host, base_port + index if base_port else 0)
        addresses[broker] = default if written is None else _written_address(broker, written)
    _validate_distinct(addresses)
    _validate_ring(topology)
    problem = overlay_clusters.problem_of(topology) if strategy == RENDEZVOUS_PROTOCOL else None
    if problem is not None:
        raise OverlayError(problem)
    return OverlaySpec(name, topology, addresses, strategy, telemetry_directory, sample_ratio)


def _validate_ring(topology: Topology) -> None:
    """Places on the ring, where the file has any, are whole numbers, each taken once."""
    taken: dict[int, BrokerId] = {}
    for broker in sorted(topology.brokers, key=natural_order):
        written = topology.broker_attributes.get(broker, {}).get(RING_ATTRIBUTE)
        if written is None:
            continue
        if not isinstance(written, int) or not 0 <= written < RING_SIZE:
            raise OverlayError(
                f"broker {broker!r}: {RING_ATTRIBUTE} must be a whole number below {RING_SIZE}"
            )
        if written in taken:
            raise OverlayError(
                f"brokers {taken[written]!r} and {broker!r} have the same {RING_ATTRIBUTE}: "
                "give each its own"
            )
        taken[written] = broker


def exposed(addresses: Iterable[Address]) -> list[Address]:
    """Those addresses that other machines may reach."""
    return [address for address in addresses if not is_loopback(address.host)]


def _written_address(broker: BrokerId, written: object) -> Address:
    try:
        return Address.parse(str(written))
    except ValueError as error:
        raise OverlayError(f"broker {broker!r}: {ADDRESS_ATTRIBUTE}: {error}") from error


def _validate_distinct(addresses: Mapping[BrokerId, Address]) -> None:
    seen: dict[Address, BrokerId] = {}
    for broker, address in addresses.items():
        if address.port == 0:
            continue
        if address in seen:
            raise OverlayError(
                f"brokers {seen[address]!r} and {broker!r} would both listen at {address}: "
                "give each its own address"
            )
        seen[address] = broker
