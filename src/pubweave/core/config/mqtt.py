"""Settings of a broker's door for MQTT clients: every bound and every interval in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pubweave.core.config.bounds import Count, CountOrZero, NotNegative, Seconds

OnLoop = Literal["warn", "refuse"]


@dataclass(frozen=True)
class MqttConfig:
    """How a door behaves. Durations in seconds on the clock that the driver passes in."""

    address: str = ""
    """Where MQTT clients reach this door, for those that are sent here by another."""
    max_packet_bytes: Count = (1 << 20) - (1 << 14)
    """Larger packets of clients are refused; not above what a frame between brokers may have."""
    max_payload_bytes: CountOrZero = 0
    """Larger payloads are refused; 0: whatever fits into a packet."""
    receive_max: Count = 1024
    """How many QoS 1 and 2 publications a client may have under way at once."""
    topic_alias_max: CountOrZero = 64
    """How many topic aliases a client may use, and how many are used towards it."""
    session_expiry_max_s: CountOrZero = 7 * 24 * 3600
    """No session outlives its connection for longer, whatever the client asks for."""
    keep_alive_max_s: CountOrZero = 0
    """A client that asks for longer, or for none, is told this; 0: as it likes."""
    connect_limit_s: Seconds = 10.0
    """A connection must say Connect within this time."""
    assigns_client_ids: bool = True
    """A client without an id gets one; False: it is refused."""
    qos_max: CountOrZero = 2
    """The best quality that clients publish and subscribe with."""
    upgrades_qos: bool = False
    """Deliver with the quality that was subscribed to, even what was published with less. The
    standard does not know this [MQTT-3.8.4-8]."""
    queue_messages: Count = 200_000
    """QoS 1 and 2 publications on their way to one session; it ends when there are more."""
    queue_bytes: Count = 64 << 20
    """The same in bytes."""
    queues_bytes: Count = 1 << 30
    """The same for all sessions of a broker together; the largest ends when there are more."""
    suback_wait_s: NotNegative = 5.0
    """So long at most a Subscribe waits for its answer until everything that it wants reaches this
    broker (`Confirmed`)."""
    unread_bytes: Count = 1 << 20
    """Beyond so much that a client has not read, QoS 0 publications for it are dropped."""
    subscriptions_per_session: Count = 10_000
    """Topic filters of one session; further ones are refused."""
    topics_advertised: CountOrZero = 16
    """So many topics of a client are advertised one by one; then all that it may publish is."""
    retains: bool = True
    """False: nothing is retained, and clients are told so."""
    retained_messages: Count = 100_000
    """Retained messages of a broker; further ones are refused."""
    retained_bytes: Count = 256 << 20
    """The same in bytes."""
    announce_every_s: Seconds = 10.0
    """How often doors tell each other what they have, to find what one of them lacks."""
    draws_subscriptions: bool = True
    """Advertise everything, so that the first publication on a topic finds its subscribers."""
    reads_json: bool = True
    """Fields of a JSON object in a payload can be addressed by filters."""
    recognises_echoes: bool = True
    """While there are several bridges, find out by probes whether one brings back without its mark
    what another was sent, and take no further what it brings back (`bridges/loop_probes`)."""
    on_loop: OnLoop = "warn"
    """What happens to a bridge that is proven to bring back what another was sent
    (`bridges/loop_detector`): a warning, or it is disconnected."""
    echo_hold_s: NotNegative = 0.2
    """So long what such a bridge brings waits for the overlay's own copy, which may be slower."""
    handover_limit_s: Seconds = 3.0
    """How long a client waits for its session to come from another broker."""
    redirect_every_s: NotNegative = 0.05
    """Clients are sent to other brokers no faster than this."""
    redirect_drain_s: NotNegative = 2.0
    """How long such a client is waited for that has something under way."""
    redirect_hold_s: NotNegative = 60.0
    """A client that was sent to another broker is not sent again within this time."""

    def __post_init__(self) -> None:
        if self.qos_max not in (0, 1, 2):
            raise ValueError(f"qos_max is 0, 1 or 2, not {self.qos_max}")
