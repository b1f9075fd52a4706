"""Settings of a broker on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pubweave.core.config.broker import BrokerConfig
from pubweave.model.ids import BrokerId
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.security.broker_files import BrokerSecurity
from pubweave.wire.codec import DEFAULT_MAX_FRAME_BYTES


@dataclass(frozen=True)
class HostConfig:
    """A broker, where it listens, and where its neighbors do."""

    broker: BrokerConfig
    listen: Address
    neighbors: Mapping[BrokerId, Address] = field(default_factory=dict)
    links_at_start: bool = True
    """Whether the neighbors named here are linked from the beginning, or somebody else says."""
    advertised: Address | None = None
    """Where others reach this broker, if that is not where it listens."""
    max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES
    telemetry_directory: Path | None = None
    sample_ratio: float = 1.0
    distances_ms: Mapping[BrokerId, float] = field(default_factory=dict)
    """How long what other brokers send is under way besides; for brokers that play being apart."""
    security: BrokerSecurity | None = None
    """Certificates and passwords; None: connections are plain. The rules are in ``broker``."""
    owns_process: bool = True
    """Whether this broker is alone in its process."""
    mqtt_listen: Address | None = None
    """Where the broker listens for MQTT clients, if its settings (``broker.mqtt``) let them in."""
    journal_directory: Path | None = None
    """Where the broker writes down what it must not forget; None: in memory only."""
    held_file: Path | None = None
    """Without a journal: where it notes how much only it has (`broker/loss_estimate`)."""
