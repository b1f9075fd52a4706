"""Settings of a broker core; every bound and every interval in one place."""

from __future__ import annotations

from dataclasses import dataclass, field

from pubweave.core.config.bounds import Count, NotNegative, Seconds
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


@dataclass(frozen=True, kw_only=True)
class BrokerBehavior:
    """Bounds and intervals, which the brokers of an overlay usually share. Durations in seconds on
    the clock that the driver passes in."""

    limits: SessionLimits = field(default_factory=SessionLimits)
    """How much a session may have under way."""
    ack_delay_s: NotNegative = 0.01
    """How long an acknowledgement may wait for company."""
    tick_s: Seconds = 1.0
    """How often keep-alive, expiry and load are looked at."""
    ping_every_s: Seconds = 5.0
    """A quiet link is probed this often."""
    silence_limit_s: Seconds = 15.0
    """A neighbor not heard of for this long has its connection closed, to be dialed anew."""
    hello_limit_s: Seconds = 10.0
    """A connection must say Hello within this time."""
    client_expiry_s: Seconds = 60.0
    """A disconnected client is forgotten after this time."""
    slow_client_s: Seconds = 30.0
    """A connected client that holds others up for this long is let go."""
    away_client_s: Seconds = 5.0
    """A disconnected client that holds others up for this long is let go."""
    stale_grace_s: NotNegative = 10.0
    """What a restarted neighbor has not told again after this time is dropped."""
    publisher_wait_s: NotNegative = 1.0
    """The longest time that publications under a new advertisement wait for the neighbors to say
    who wants them. Neighbors that have not answered by then get every publication until they do."""
    hold_limit_bytes: Count = 4 << 20
    """How much an action may hold back; beyond it the action is given up."""
    hold_limit_s: Seconds = 3.0
    """How long an action may hold anything back before its end is asked for."""
    action_limit_s: Seconds = 10.0
    """How long an action may take before its end is asked for."""
    ask_again_s: Seconds = 1.0
    """A decision that was asked for and not heard is asked for again after this time."""
    clients_leave_s: NotNegative = 10.0
    """How long a broker that leaves the overlay waits for its clients to move."""
    migration_limit_s: Seconds = 5.0
    """How long a migration may take to find everybody ready; then the client stays."""
    load_window_s: Seconds = 5.0
    """The time over which a broker's load is measured."""
    max_clients: Count = 10_000
    """Clients at once; further ones are refused."""
    max_unknown_connections: Count = 1_000
    """Connections at once that have not said Hello."""
    entry: EntryLimits = field(default_factory=EntryLimits)
    """How much strangers and clients may ask for."""
    topics: TopicConfig = field(default_factory=TopicConfig)
    """How the broker keeps an overlay topic-connected, if it routes so."""
    rendezvous: RendezvousConfig = field(default_factory=RendezvousConfig)
    """Its place on the ring of a rendezvous overlay, if it routes so."""


@dataclass(frozen=True)
class BrokerConfig(BrokerBehavior):
    """Everything that a broker core is told at its start."""

    id: BrokerId
    strategy: str = "tree"
    """How messages find their way (`core.strategies`)."""
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
    placement: PlacementConfig = field(default_factory=PlacementConfig)
    """How it sends users to others of its placement cluster, if it routes so."""
    mqtt: MqttConfig | None = None
    """How the broker lets MQTT clients in; None: not at all."""
