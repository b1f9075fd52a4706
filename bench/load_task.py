"""What a load generator process is told to do and what it reports, as JSON; both ends of it.

Subscriber and publisher processes also share a socket pair: over it the subscriber side tells how
many messages have reached every one of its connections. MQTT at QoS 0 has no other flow control,
and it is how a publisher learns that the way stands and that the warm-up is over.
"""

from __future__ import annotations

import socket
import struct
import time

import msgspec

FEEDBACK = struct.Struct("<q")
STANDS = -1
"""Feedback: a probe has reached every connection."""
WARM = -2
"""Feedback: every connection has got all of the warm-up."""
DONE = -3
"""Feedback: the subscriber side has finished; until then a publisher stays connected."""


class LoadTask(msgspec.Struct, frozen=True):
    """One publisher process or one subscriber process."""

    dialect: str
    port: int
    client: str
    feedback_fd: int
    warm_count: int
    count: int
    """Messages under the clock, after the warm-up."""
    connections: int = 1
    content_seed: int | None = None
    subscriptions: int = 0
    """Content subscriptions of all connections together; 0: the exact topic."""
    expected_warm: list[int] = []
    expected: list[int] = []
    """For each connection: deliveries of the warm-up, and of warm-up and run together."""
    rate_per_s: float = 0.0
    """0: as fast as the broker takes it."""
    window_messages: int = 8000
    """Without acknowledgements: how many messages may be on their way."""
    window_bytes: int = 1 << 20
    """With acknowledgements: how much may be on its way, as the broker grants it."""
    limit_s: float = 60.0
    broker_pids: list[int] = []
    """Whose processor time the subscriber side reports."""


class LoadReport(msgspec.Struct, frozen=True):
    """What one process saw. Instants are seconds of the machine-wide monotonic clock."""

    started_at: float
    finished_at: float
    cpu_s: float
    """Processor time of this process between the two."""
    received: list[int] = []
    """Without the warm-up, by connection."""
    disordered: int = 0
    latencies_us: list[float] = []
    broker_cpu_s: float = 0.0
    machine_busy_s: float = 0.0
    """Processor time that everybody on this machine used between the two."""


def read_task(text: str) -> LoadTask:
    return msgspec.json.decode(text.encode(), type=LoadTask)


def dial(port: int, limit_s: float = 10.0) -> socket.socket:
    """Connect to a broker on loopback, waiting for it to come up."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            sock = socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
            continue
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock
