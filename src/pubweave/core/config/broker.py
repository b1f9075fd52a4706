"""Settings of a broker core; every bound and every interval in one place."""

from __future__ import annotations

from dataclasses import dataclass, field

from pubweave.core.config.entry_limits import EntryLimits
from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.config.placement import PlacementConfig
from pubweave.core.config.relocation import RelocationConfig
from pubweave.core.config.rendezvous import RendezvousConfig
from pubweave.core.config.self_organizing import OrganizeConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.config.topic_connected import TopicConfig
from pubweave.model.ids import BrokerId
from pubweave.model.records.access import AccessRules


@dataclass(frozen=True)
class BrokerConfig:
    """How a broker behaves. Durations in seconds on the clock the driver passes in."""

    id: BrokerId
    strategy: str = "tree"
    limits: SessionLimits = field(default_factory=SessionLimits)
    ack_delay_s: float = 0.01
    """How long an acknowledgement may wait for company."""
    tick_s: float = 1.0
    """How often keep-alive, expiry and load are looked at."""
    ping_every_s: float = 5.0
    silence_limit_s: float = 15.0
    """A neighbor not heard of for this long has its connection closed, to be dialed anew."""
    hello_limit_s: float = 10.0
    """A connection must say Hello within this time."""
    client_expiry_s: float = 60.0
    """A disconnected client is forgotten after this time."""
    slow_client_s: float = 30.0
    """A connected client that holds others up for this long is let go."""
    away_client_s: float = 5.0
    """A disconnected client that holds others up for this long is let go."""
    stale_grace_s: float = 10.0
    """What a restarted neighbor has not told again after this time is dropped."""
    publisher_wait_s: float = 1.0
    """So long at most a client that comes back waits with what it publishes until the neighbors
    have said who wants it; those that have not get everything then."""
    hold_limit_bytes: int = 4 << 20
    """How much an action may hold back; beyond it the action is given up."""
    hold_limit_s: float = 3.0
    """How long an action may hold anything back before its end is asked for."""
    action_limit_s: float = 10.0
    """How long an action may take before its end is asked for."""
    ask_again_s: float = 1.0
    """A decision that was asked for and not heard is asked for again after this time."""
    clients_leave_s: float = 10.0
    """How long a broker that leaves the overlay waits for its clients to move."""
    migration_limit_s: float = 5.0
    """How long a migration may take to find everybody ready; then the client stays."""
    load_window_s: float = 5.0
    max_clients: int = 10_000
    max_unknown_connections: int = 1_000
    entry: EntryLimits = field(default_factory=EntryLimits)
    """How much strangers and clients may ask for."""
    access: AccessRules | None = None
    """What users may do; None: whoever is let in may do everything."""
    certified: bool = False
    """Connections run over TLS: brokers, and clients without a password, need certificates."""
    secret: bytes = field(default=b"", repr=False)
    """What a new broker makes its tokens from (`tokens`); one that comes back has its own. Drivers
    have to give one that nobody can guess."""
    organize: OrganizeConfig | None = None
    """How the broker takes part in organizing the overlay; None: the overlay stays as it is."""
    relocation: RelocationConfig = field(default_factory=RelocationConfig)
    """How the broker relocates the publishers attached to it."""
    topics: TopicConfig = field(default_factory=TopicConfig)
    """How the broker keeps an overlay topic-connected, if it routes so."""
    placement: PlacementConfig = field(default_factory=PlacementConfig)
    """How it sends users to others of its placement cluster, if it routes so."""
    rendezvous: RendezvousConfig = field(default_factory=RendezvousConfig)
    """Its place on the ring of a rendezvous overlay, if it routes so."""
    mqtt: MqttConfig | None = None
    """How the broker lets MQTT clients in; None: not at all."""
