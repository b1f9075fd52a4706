"""What an overlay on this machine consists of: a topology, settings, and where brokers listen.

A value, before anything is started: files are read elsewhere, sockets are opened elsewhere.
Brokers are always in natural order (b2 before b10), and no two listen at one address.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pubweave.core.strategies import find_strategy
from pubweave.design.dynatops.mapping.ring import RING_SIZE
from pubweave.model.ids import BrokerId, Link, natural_order
from pubweave.model.messages.rendezvous import RENDEZVOUS_PROTOCOL
from pubweave.model.topology import Topology, validate_tree
from pubweave.runtime.net.addresses import PORT_MAX, Address, is_loopback
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.overlay import clusters as overlay_clusters
from pubweave.runtime.settings.tree import BrokerTable, JournalTable, PlacementTable, Settings

ADDRESS_ATTRIBUTE = "address"
"""What a topology file calls the place where a broker listens."""


RING_ATTRIBUTE = "ring_id"
"""What it calls the place of a broker on the ring of a rendezvous overlay."""
_RING_RULE = f"must be a whole number below {RING_SIZE}"
_OF_ONE = ("id", "listen", "advertise", "neighbors")
"""Keys that are about one broker, so that ``[broker]`` of an overlay cannot have them."""


@dataclass(frozen=True)
class OverlaySpec:
    """An overlay to start. A port 0 stands for any free one until ports are reserved."""

    name: str
    topology: Topology
    settings: Settings
    """Of the overlay, and of each of its brokers where they differ."""
    addresses: Mapping[BrokerId, Address]
    mqtt: Mapping[BrokerId, Address] = field(default_factory=dict)
    """Where brokers listen for MQTT clients, if they do."""
    link_prices: Mapping[Link, float] = field(default_factory=dict)
    """What links cost that are or could be, for organizing; others are measured."""
    distances_ms: Mapping[Link, float] = field(default_factory=dict)
    """How long brokers on this machine pretend that links take, one way, if they pretend."""

    @property
    def strategy(self) -> str:
        return self.settings.broker.strategy

    @property
    def brokers(self) -> tuple[BrokerId, ...]:
        return tuple(self.addresses)

    def settings_of(self, broker: BrokerId, held_file: Path | None = None) -> Settings:
        """The settings that a broker's process is given."""
        table, organizing = self.settings.of(broker), self.settings.self_organizing
        directory = table.journal.directory
        journal = JournalTable(
            None if directory is None else directory / broker, table.journal.held_file or held_file
        )
        own = replace(
            table,
            id=broker,
            listen=self.addresses[broker],
            neighbors=self.neighbors(broker),
            strategy=self.strategy_of(broker),
            mqtt=replace(table.mqtt, listen=self.mqtt.get(broker)),
            journal=journal,
            distances_ms={**table.distances_ms, **_row(self.distances_ms, broker)},
            rendezvous=replace(table.rendezvous, position=self.position_of(broker)),
            topics=replace(table.topics, ring=self.ring_of(broker)),
        )
        prices = {**organizing.link_prices, **_row(self.link_prices, broker)}
        return replace(
            self.settings,
            broker=own,
            brokers={},
            placement=self.placement_of(broker),
            self_organizing=replace(organizing, link_prices=prices),
        )

    def neighbors(self, broker: BrokerId) -> dict[BrokerId, Address]:
        """Where the neighbors of a broker are reached; gateways make themselves known."""
        near = self.topology.neighbors[broker]
        if self.strategy_of(broker) == RENDEZVOUS_PROTOCOL:
            near = tuple(n for n in near if self.strategy_of(n) == RENDEZVOUS_PROTOCOL)
        known = (*near, *self.placement_of(broker).contacts(broker))
        return {n: self.settings.of(n).advertise or self.addresses[n] for n in known}

    def placement_of(self, broker: BrokerId) -> PlacementTable:
        """With whom a broker exchanges users: neighbors in the order of the brokers."""
        placement = self.settings.placement
        ring = [name for name in self.brokers if self.strategy_of(name) == RENDEZVOUS_PROTOCOL]
        if not placement.size or broker not in ring:
            return PlacementTable()
        cluster = overlay_clusters.block_of(ring, placement.size, broker)
        return replace(placement, members=tuple(n for n in cluster if n != broker))

    def strategy_of(self, broker: BrokerId) -> str:
        """How a broker routes: those of clusters around a ring do otherwise."""
        return overlay_clusters.strategy_of(self.topology, self.strategy, broker)

    def ring_of(self, broker: BrokerId) -> tuple[BrokerId, ...]:
        """The brokers of the ring that a broker of a cluster has links with."""
        is_apart = self.strategy_of(broker) != self.strategy
        return overlay_clusters.ring_of(self.topology, broker) if is_apart else ()

    def position_of(self, broker: BrokerId) -> int | None:
        """Where on the ring of a rendezvous overlay a broker begins: as its settings or its
        attribute ``ring_id`` say, or as many equal steps from 0 as it has brokers before it."""
        if self.strategy_of(broker) != RENDEZVOUS_PROTOCOL:
            return None
        written = _written_position(self.topology, self.settings, broker)
        if written is not None:
            return written
        ring = [name for name in self.brokers if self.strategy_of(name) == RENDEZVOUS_PROTOCOL]
        return RING_SIZE * ring.index(broker) // len(ring)


def _row(by_link: Mapping[Link, float], broker: BrokerId) -> dict[BrokerId, float]:
    return {link.far_end(broker): value for link, value in by_link.items() if broker in link}


def make_spec(
    topology: Topology,
    settings: Settings | None = None,
    *,
    name: str | None = None,
    host: str | None = None,
    base_port: int | None = None,
    strategy: str | None = None,
    telemetry_directory: Path | None = None,
) -> OverlaySpec:
    """An overlay of a topology with these settings; what is named here goes before them.

    A broker listens where ``settings.brokers`` or its attribute ``address`` says, or else at host
    and base port. The topology has to be a tree unless the strategy routes on any graph.
    TopologyError for what is no tree, OverlayError for addresses that cannot be.

    >>> spec = make_spec(Topology.from_links([("b1", "b2")]), name="two", base_port=7100)
    >>> str(spec.addresses["b2"])
    '127.0.0.1:7101'
    """
    settings = settings or Settings()
    overlay = settings.overlay
    overlay = replace(
        overlay,
        name=name or overlay.name or "overlay",
        host=host or overlay.host,
        port=overlay.port if base_port is None else base_port,
    )

    def with_choices(table: BrokerTable) -> BrokerTable:
        directory = table.telemetry.directory or telemetry_directory
        telemetry = replace(table.telemetry, directory=directory)
        return replace(table, strategy=strategy or table.strategy, telemetry=telemetry)

    return _validated(topology, replace(settings.with_tables(with_choices), overlay=overlay))


def _validated(topology: Topology, settings: Settings) -> OverlaySpec:
    strategy, brokers = settings.broker.strategy, sorted(topology.brokers, key=natural_order)
    if find_strategy(strategy).needs_tree:
        validate_tree(topology)
    validate_shared(settings.broker)
    if strange := sorted(settings.brokers.keys() - topology.brokers):
        raise OverlayError(f"brokers.{strange[0]}: the topology has no broker {strange[0]!r}")
    addresses = _addresses(brokers, topology, settings)
    _validate_ring(topology, settings)
    problem = overlay_clusters.problem_of(topology) if strategy == RENDEZVOUS_PROTOCOL else None
    if problem is not None:
        raise OverlayError(problem)
    name = settings.overlay.name or "overlay"
    mqtt = mqtt_addresses(brokers, settings)
    return OverlaySpec(name, topology, settings, addresses, mqtt)


def validate_shared(table: BrokerTable) -> None:
    """OverlayError for what is said of all brokers and can hold for one only."""
    given = [key for key in _OF_ONE if getattr(table, key)]
    if table.rendezvous.position is not None:
        given.append("rendezvous.position")
    if given:
        raise OverlayError(
            f"broker.{given[0]} is about one broker: in an overlay write brokers.ID.{given[0]}"
        )


def _addresses(
    brokers: Sequence[BrokerId], topology: Topology, settings: Settings
) -> dict[BrokerId, Address]:
    host, first = settings.overlay.host, settings.overlay.port
    if first and first + len(brokers) - 1 > PORT_MAX:
        raise OverlayError(
            f"{len(brokers)} brokers do not fit on ports {first} to {PORT_MAX}: "
            "choose a smaller --port, or 0 for free ones"
        )
    addresses = {}
    for index, broker in enumerate(brokers):
        own = settings.brokers[broker].listen if broker in settings.brokers else None
        written = topology.broker_attributes.get(broker, {}).get(ADDRESS_ATTRIBUTE)
        if own is None and written is not None:
            own = _written_address(broker, written)
        addresses[broker] = own or Address(host, first + index if first else 0)
    _validate_distinct(addresses)
    return addresses


def mqtt_addresses(brokers: Sequence[BrokerId], settings: Settings) -> dict[BrokerId, Address]:
    """Where the brokers of an overlay listen for MQTT clients: the first at the address of all, the
    others at the ports behind it; port 0 stands for any free ones. OverlayError if they do not
    fit."""
    first = settings.broker.mqtt.listen
    if first is not None and first.port and first.port + len(brokers) - 1 > PORT_MAX:
        raise OverlayError(f"{len(brokers)} brokers do not fit behind MQTT port {first.port}")
    found = {}
    for number, broker in enumerate(brokers):
        own = settings.of(broker).mqtt.listen
        if own is not None and own == first:
            own = Address(own.host, own.port + number if own.port else 0)
        if own is not None:
            found[broker] = own
    return found


def _written_position(topology: Topology, settings: Settings, broker: BrokerId) -> int | None:
    """The place on the ring that the settings or the topology file give a broker."""
    own = settings.brokers[broker].rendezvous.position if broker in settings.brokers else None
    written = topology.broker_attributes.get(broker, {}).get(RING_ATTRIBUTE)
    if own is None and written is not None and not isinstance(written, int):
        raise OverlayError(f"broker {broker!r}: {RING_ATTRIBUTE} {_RING_RULE}")
    return own if own is not None or written is None else int(written)


def _validate_ring(topology: Topology, settings: Settings) -> None:
    """Places on the ring that are written down are whole numbers, each taken once."""
    taken: dict[int, BrokerId] = {}
    for broker in sorted(topology.brokers, key=natural_order):
        position = _written_position(topology, settings, broker)
        if position is None:
            continue
        if not 0 <= position < RING_SIZE:
            raise OverlayError(f"broker {broker!r}: {RING_ATTRIBUTE} {_RING_RULE}")
        if position in taken:
            raise OverlayError(
                f"brokers {taken[position]!r} and {broker!r} have the same {RING_ATTRIBUTE}: "
                "give each its own"
            )
        taken[position] = broker


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
