"""The tree of settings as dataclasses: a field is a key or a table of the configuration file.

`Settings` is the root, for ``broker.toml`` and ``overlay.toml`` alike. What the process of a broker
is given is a `Settings` as well: the overlay's, with the broker's own addresses and places in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from msgspec import Meta

from pubweave.core.config.bounds import Count, CountOrZero, NotNegative, Seconds, Share
from pubweave.core.config.broker import BrokerBehavior, BrokerConfig
from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.config.placement import PlacementConfig
from pubweave.core.config.relocation import RelocationConfig
from pubweave.core.config.self_organizing import OrganizeConfig
from pubweave.model.ids import BrokerId
from pubweave.runtime.net.addresses import DEFAULT_HOST, Address
from pubweave.wire.codec import DEFAULT_MAX_FRAME_BYTES

T = TypeVar("T")
Port = Annotated[int, Meta(ge=0, le=65535)]
Durability = Literal["memory", "journal"]
MUST_EXIST = Meta(description="must exist")
InputFile = Annotated[Path, MUST_EXIST]
"""A file or directory that is read, and so has to be there."""
DEFAULT_BASE_PORT = 7000
DEFAULT_RUN_DIRECTORY = Path("runs/current")


@dataclass(frozen=True)
class OverlayTable:
    """An overlay: for `pubweave up`, and its name for a broker with a store."""

    name: str | None = None
    """The overlay's name, also in the store. `up` takes that of the file by default."""
    topology: InputFile | None = None
    """The topology file: what `up` starts, or what a broker stores if the store has none."""
    subscriptions: InputFile | None = None
    """CSV or Parquet with the columns client,topic, from which `up` makes a topology itself."""
    host: str = DEFAULT_HOST
    """Where brokers listen that have no address of their own."""
    port: Port = DEFAULT_BASE_PORT
    """The first broker's port, the others count on; 0 takes any free ones."""
    run_directory: Path = field(default_factory=lambda: DEFAULT_RUN_DIRECTORY)
    """Where the overlay keeps its state, logs and telemetry."""
    in_process: bool = False
    """Run all brokers in one process."""
    restart: bool = True
    """Start broker processes again that died."""
    duration_s: Seconds | None = None
    """Stop after this many seconds."""
    report_every_s: Annotated[float, Meta(ge=0.1)] | None = None
    """Seconds between reports. `up` takes 1 on a terminal and with --json, else 5."""


@dataclass(frozen=True)
class StoreTable:
    """ZooKeeper, where plans and topologies are kept."""

    enabled: bool = True
    """Whether `up` has a store; without one no plan can be applied."""
    zookeeper: str | None = None
    """An existing ensemble, host:port,...; a /path at the end keeps everything below it. Without
    it `up` starts a server of its own."""
    auth_file: InputFile | None = None
    """A file with the login there, user:password (digest)."""


@dataclass(frozen=True)
class JournalTable:
    """Where a broker keeps what must outlive it."""

    directory: Path | None = None
    """Where journals are; brokers go on with what is there. `up` takes RUN_DIR/journal, new with
    every start."""
    held_file: Path | None = None
    """Without a journal: a file to note in how much only this broker has. A broker that is started
    in its place with the same file counts that as lost."""


@dataclass(frozen=True)
class TelemetryTable:
    """Records of what brokers do."""

    enabled: bool = True
    """Record at all, if there is a directory to record in."""
    directory: Path | None = None
    """Where records are written. `up` takes RUN_DIR/telemetry; a broker needs one to record."""
    sample: Share = 1.0
    """The share of publications that are recorded."""


@dataclass(frozen=True)
class SecurityTable:
    """Certificates, users and rules: a directory with all of them, or single files."""

    directory: InputFile | None = None
    """What `pubweave security init` made."""
    ca: InputFile | None = None
    """The certificate of the authority."""
    cert: InputFile | None = None
    """The broker's own certificate."""
    key: InputFile | None = None
    """Its private key."""
    crl: InputFile | None = None
    """Certificates that the authority has revoked."""
    passwords: InputFile | None = None
    """Hashed passwords of users."""
    access: InputFile | None = None
    """Who may do what, and limits (TOML or JSON)."""

    def __post_init__(self) -> None:
        named = [getattr(self, name) for name in ("ca", "cert", "key")]
        if any(named) and not all(named):
            raise ValueError("a broker needs all of ca, cert and key")
        if any(named) and self.directory is not None:
            raise ValueError("give either directory, or ca, cert and key")
        if not any(named) and (self.crl or self.passwords or self.access):
            raise ValueError("crl, passwords and access need TLS: give ca, cert and key")


@dataclass(frozen=True)
class MqttTable(MqttConfig):
    """MQTT clients; they are let in if ``listen`` says where."""

    listen: Address | None = None
    """Where to listen for MQTT clients; in an overlay the first broker's, the others count on."""


@dataclass(frozen=True, kw_only=True)
class BrokerTable(BrokerBehavior):
    """A broker, or each broker of an overlay."""

    id: BrokerId = ""
    """The broker's id; in an overlay the topology says it."""
    listen: Address | None = None
    """Where to listen; port 0 takes any free one."""
    advertise: Address | None = None
    """Where others reach this broker, if that is not where it listens."""
    neighbors: Mapping[BrokerId, Address] = field(default_factory=dict)
    """The broker's neighbors and where they listen; both ends of a link name each other."""
    strategy: str = "tree"
    """How brokers route."""
    durability: Durability = "memory"
    """With 'journal' a killed broker comes back with all that it had acknowledged."""
    max_frame_bytes: Annotated[int, Meta(ge=4096)] = DEFAULT_MAX_FRAME_BYTES
    """The longest frame between brokers, or from a client."""
    distances_ms: Mapping[BrokerId, NotNegative] = field(default_factory=dict)
    """How long what other brokers send is delayed, for brokers that play being apart."""
    journal: JournalTable = field(default_factory=JournalTable)
    telemetry: TelemetryTable = field(default_factory=TelemetryTable)
    security: SecurityTable = field(default_factory=SecurityTable)
    mqtt: MqttTable = field(default_factory=MqttTable)

    @property
    def journal_directory(self) -> Path | None:
        """Where the journal is; None: there is none."""
        return self.journal.directory if self.durability == "journal" else None

    @property
    def telemetry_directory(self) -> Path | None:
        """Where records are written; None: there are none."""
        return self.telemetry.directory if self.telemetry.enabled else None


@dataclass(frozen=True)
class SelfOrganizingTable(OrganizeConfig):
    """An overlay that improves its own tree; needs a store."""

    enabled: bool = False
    """Let brokers exchange links by themselves."""
    prices: InputFile | None = None
    """A topology file, no tree, whose latency_ms are the prices of links that are or could be."""


@dataclass(frozen=True)
class PlacementTable(PlacementConfig):
    """Clients of a rendezvous overlay that are sent to the broker that suits them."""

    size: Annotated[int, Meta(ge=0)] = 0
    """Among how many brokers `up` lets clients be placed; 0: they stay."""


@dataclass(frozen=True)
class AutopilotTable:
    """What `pubweave autopilot` does, and what it must not do."""

    mode: Literal["observe", "approve", "auto"] = "observe"
    """Only say what would be done, ask first, or do it."""
    period_s: Seconds = 300.0
    """Between two looks at the overlay."""
    free_period_s: NotNegative = 900.0
    """Between two changes, at least."""
    least_saving: Share = 0.02
    """The share of the cost that a change must save."""
    change_weight: NotNegative = 1.0
    """How much more than its messages a change counts."""
    window_s: Seconds = 60.0
    """How much traffic a profile must show, at least."""
    review_s: Seconds = 3600.0
    """Mode approve: until a proposal expires."""
    max_degree: Count | None = None
    """No broker gets more links than this."""
    pins: tuple[str, ...] = ()
    """Links that stay, each as A-B."""
    bans: tuple[str, ...] = ()
    """Links that must never be, each as A-B."""
    links_per_change: Count | None = None
    """New links in one change, at most."""
    links_per_day: CountOrZero | None = None
    """New links within 24 hours, at most."""
    quiet_hours: tuple[str, ...] = ()
    """When nothing is changed, each as 22:00-06:00, by this machine's clock."""
    latency: InputFile | None = None
    """Round-trip times of links: CSV with a,b,rtt_ms, or a topology with latency_ms."""
    assume_latency_ms: NotNegative | None = None
    """The latency of links of which nothing is known."""
    telemetry: InputFile | None = None
    """Where brokers write telemetry; RUN_DIR/telemetry by default."""
    work: Path | None = None
    """For profiles and Spark's log; RUN_DIR/autopilot by default."""
    looks: Count | None = None
    """End after this many looks."""
    search_limit_s: Seconds = 30.0
    """For the search for better trees, per look."""
    plan_limit_s: Seconds = 5.0
    """For planning the way to each of them."""
    step_timeout_s: Seconds = 60.0
    """How long a step of a plan may take before it is aborted."""
    rehearse: bool = True
    """Carry a plan out in simulation first, on the recorded traffic."""
    memory: str = "2g"
    """Memory of Spark's driver."""
    seed: CountOrZero = 0
    """Of the random choices of searches."""


@dataclass(frozen=True)
class OutputTable:
    """What a started broker or overlay prints."""

    json: bool = False
    """One JSON object per line."""
    quiet: bool = False
    """Report only the start, troubles and the end."""
    verbose: bool = False
    """Log what happens to connections."""


@dataclass(frozen=True)
class Settings:
    """All settings; each field is a table of the configuration file."""

    broker: BrokerTable = field(default_factory=BrokerTable)
    self_organizing: SelfOrganizingTable = field(default_factory=SelfOrganizingTable)
    relocation: RelocationConfig = field(default_factory=RelocationConfig)
    placement: PlacementTable = field(default_factory=PlacementTable)
    overlay: OverlayTable = field(default_factory=OverlayTable)
    store: StoreTable = field(default_factory=StoreTable)
    autopilot: AutopilotTable = field(default_factory=AutopilotTable)
    output: OutputTable = field(default_factory=OutputTable)
    brokers: Mapping[BrokerId, BrokerTable] = field(default_factory=dict)
    """Brokers of an overlay that differ from ``broker``: ``[brokers.b3]`` has the same keys."""

    def of(self, broker: BrokerId) -> BrokerTable:
        """The table that holds for one broker of an overlay."""
        return self.brokers.get(broker, self.broker)

    def with_tables(self, change: Callable[[BrokerTable], BrokerTable]) -> Settings:
        """The same with the tables of all brokers changed."""
        brokers = {broker: change(table) for broker, table in self.brokers.items()}
        return replace(self, broker=change(self.broker), brokers=brokers)

    def core_config(self) -> BrokerConfig:
        """What the core of the broker ``broker.id`` is told; rules of access come from files."""
        table, mqtt, organizing = self.broker, self.broker.mqtt, self.self_organizing
        reached = mqtt.address or str(mqtt.listen)
        return BrokerConfig(
            table.id,
            table.strategy,
            organize=_as(OrganizeConfig, organizing) if organizing.enabled else None,
            relocation=self.relocation,
            placement=_as(PlacementConfig, self.placement),
            mqtt=None if mqtt.listen is None else replace(_as(MqttConfig, mqtt), address=reached),
            **{field.name: getattr(table, field.name) for field in fields(BrokerBehavior)},
        )


def _as(kind: type[T], table: T) -> T:
    """The part of a table that the core knows: only its own classes have a place in journals."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: getattr(table, name) for name in names})
