"""Load on an MQTT broker at QoS 1, idle connections, and a subscriber that does not read.

All ends are in this process, over blocking or polled sockets, with 3.1.1 packets that are made and
read many at a time with numpy: so the broker is what is measured. Numbers of messages are in their
payloads, and their order is checked.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bench.load_frames import PAYLOAD_BYTES, MqttDialect
from bench.load_task import dial

TOPIC = b"bench"
PACKET_IDS = 60_000
LIMIT_S = 60.0
_HEAD = struct.Struct(">BBH5sH")
_PACKET_BYTES = _HEAD.size + PAYLOAD_BYTES
_NUMBER_AT = _HEAD.size
_PACKET_ID_AT = _HEAD.size - 2
_PUBACK_BYTES = 4


@dataclass
class QosOneResult:
    """One run: everything was acknowledged and delivered to everybody, or it says how much not."""

    seconds: float
    published: int
    delivered: int
    acknowledged: int
    disordered: int
    doubled: int


def attach(port: int, client: str, *, quality: int | None = None) -> socket.socket:
    """A connection; with ``quality`` subscribed to the one topic."""
    sock = dial(port)
    sock.sendall(MqttDialect().connect(client))
    _expect(sock, 0x20, 4)
    if quality is not None:
        body = b"\0\x01\0\x05" + TOPIC + bytes([quality])
        sock.sendall(bytes([0x82, len(body)]) + body)
        _expect(sock, 0x90, 5)
    return sock


def _expect(sock: socket.socket, first: int, length: int) -> None:
    data = b""
    while len(data) < length:
        more = sock.recv(length - len(data))
        if not more:
            raise ConnectionError("the broker closed the connection")
        data += more
    if data[0] != first:
        raise ConnectionError(f"{data.hex()} came, a packet {first:#04x} was expected")


def packets(first: int, count: int) -> npt.NDArray[np.uint8]:
    """QoS 1 PUBLISH packets with these numbers, one a row."""
    head = _HEAD.pack(0x32, _PACKET_BYTES - 2, len(TOPIC), TOPIC, 0)
    rows = np.tile(np.frombuffer(head + b"." * PAYLOAD_BYTES, np.uint8), (count, 1))
    numbers = np.arange(first, first + count)
    rows[:, _NUMBER_AT : _NUMBER_AT + 8] = numbers.astype(">u8").view(np.uint8).reshape(count, 8)
    ids = (numbers % PACKET_IDS + 1).astype(">u2").view(np.uint8).reshape(count, 2)
    rows[:, _PACKET_ID_AT:_NUMBER_AT] = ids
    return rows


@dataclass
class _Subscriber:
    sock: socket.socket
    received: int = 0
    last: int = -1
    disordered: int = 0
    doubled: int = 0
    rest: bytes = b""

    def read(self) -> None:
        """Take in whole packets and acknowledge them."""
        data = self.rest + self.sock.recv(1 << 18)
        count = len(data) // _PACKET_BYTES
        self.rest = data[count * _PACKET_BYTES :]
        if not count:
            return
        rows = np.frombuffer(data, np.uint8, count * _PACKET_BYTES).reshape(count, _PACKET_BYTES)
        if (rows[:, 0] & 0xF6 != 0x32).any():
            raise ConnectionError("something else than a QoS 1 publication came")
        numbers = rows[:, _NUMBER_AT : _NUMBER_AT + 8].copy().view(">u8").ravel().astype(np.int64)
        steps = np.diff(numbers, prepend=self.last)
        self.doubled += int((rows[:, 0] & 8 != 0).sum())
        self.disordered += int((steps != 1).sum())
        self.last = int(numbers[-1])
        self.received += count
        acks = np.empty((count, _PUBACK_BYTES), np.uint8)
        acks[:, 0], acks[:, 1] = 0x40, 2
        acks[:, 2:] = rows[:, _PACKET_ID_AT:_NUMBER_AT]
        self.sock.sendall(acks.tobytes())


@dataclass
class _Publisher:
    sock: socket.socket
    rows: npt.NDArray[np.uint8]
    window: int
    sent_bytes: int = 0
    acknowledged: int = 0
    rest: int = 0
    data: memoryview = field(init=False)

    def __post_init__(self) -> None:
        self.data = memoryview(self.rows.tobytes())
        self.sock.setblocking(False)

    def write(self) -> None:
        allowed = min(len(self.rows), self.acknowledged + self.window) * _PACKET_BYTES
        if self.sent_bytes < allowed:
            end = min(allowed, self.sent_bytes + (1 << 16))
            try:
                self.sent_bytes += self.sock.send(self.data[self.sent_bytes : end])
            except BlockingIOError:
                return

    def read(self) -> None:
        """Only PUBACKs come, four bytes each."""
        self.rest += len(self.sock.recv(1 << 16))
        done, self.rest = divmod(self.rest, _PUBACK_BYTES)
        self.acknowledged += done

    @property
    def may_write(self) -> bool:
        allowed = min(len(self.rows), self.acknowledged + self.window)
        return self.sent_bytes < allowed * _PACKET_BYTES


def measure_qos_one(
    port: int,
    count: int,
    subscribers: int = 1,
    window: int = 500,
    warm: int = 500,
    *,
    with_sluggard: bool = False,
) -> QosOneResult:
    """``count`` messages to every subscriber; the clock stops when the last is acknowledged. A
    sluggard is one more subscriber, which never reads and is not counted."""
    sluggard = attach(port, "sluggard", quality=1) if with_sluggard else None
    heard = [_Subscriber(attach(port, f"s{n}", quality=1)) for n in range(subscribers)]
    speaker_sock = attach(port, "p")
    _settle(speaker_sock, heard)
    warmed = _exchange(speaker_sock, heard, 0, warm, window)
    result = _exchange(speaker_sock, heard, warm, count, window)
    for sock in (speaker_sock, sluggard, *(each.sock for each in heard)):
        if sock is not None:
            sock.close()
    result.disordered += warmed.disordered
    return result


def _settle(speaker: socket.socket, heard: list[_Subscriber]) -> None:
    """Until the way to everybody stands. Probes have numbers that make the real ones follow."""
    probe = packets(0, 1)[0].copy()
    probe[0] = 0x30  # QoS 0: no acknowledgement to wait for
    plain = np.delete(probe, [_PACKET_ID_AT, _PACKET_ID_AT + 1])
    plain[1] -= 2
    deadline = time.monotonic() + 10.0
    waiting = {each.sock: each for each in heard}
    while waiting:
        speaker.sendall(plain.tobytes())
        time.sleep(0.05)
        for sock in list(waiting):
            sock.setblocking(False)
            try:
                if sock.recv(1 << 16):
                    del waiting[sock]
            except BlockingIOError:
                pass
        if time.monotonic() > deadline:
            raise TimeoutError("no probe reached the subscribers")
    time.sleep(0.3)
    for each in heard:
        try:
            while each.sock.recv(1 << 16):
                pass
        except BlockingIOError:
            each.sock.setblocking(True)


def _exchange(
    speaker: socket.socket, heard: list[_Subscriber], first: int, count: int, window: int
) -> QosOneResult:
    publisher = _Publisher(speaker, packets(first, count), window)
    for each in heard:
        each.received = 0
    began = time.monotonic()
    with selectors.DefaultSelector() as selector:
        for each in heard:
            selector.register(each.sock, selectors.EVENT_READ, each)
        selector.register(speaker, selectors.EVENT_READ, publisher)
        while publisher.acknowledged < count or any(each.received < count for each in heard):
            publisher.write()
            for key, _ in selector.select(0.0 if publisher.may_write else 0.2):
                key.data.read()
            if time.monotonic() - began > LIMIT_S:
                break
    return QosOneResult(
        seconds=time.monotonic() - began,
        published=count,
        delivered=sum(each.received for each in heard),
        acknowledged=publisher.acknowledged,
        disordered=sum(each.disordered for each in heard),
        doubled=sum(each.doubled for each in heard),
    )


def latencies_ms(
    port: int, rate_per_s: float, seconds: float, *, with_sluggard: bool
) -> tuple[list[float], int]:
    """How long QoS 0 messages of 1000 bytes take to a subscriber that reads, while perhaps another
    of the same topic never does; and how many of them were lost."""
    sluggard = attach(port, "sluggard", quality=0) if with_sluggard else None
    reader, speaker = attach(port, "reader", quality=0), attach(port, "speaker")
    reader.setblocking(False)
    head = bytes([0x30]) + _length(7 + 1000) + b"\0\x05" + TOPIC
    packet_bytes = len(head) + 1000
    taken: list[float] = []
    rest = b""
    sent, began = 0, time.monotonic()
    quiet_until = began + seconds + 2.0
    while time.monotonic() < quiet_until:
        now = time.monotonic()
        due = min(int((now - began) * rate_per_s), int(seconds * rate_per_s))
        while sent < due:
            stamp = struct.pack(">d", time.monotonic())
            speaker.sendall(head + stamp + b"." * (1000 - len(stamp)))
            sent += 1
        try:
            rest += reader.recv(1 << 18)
        except BlockingIOError:
            time.sleep(0.0005)
        now = time.monotonic()
        while len(rest) >= packet_bytes:
            (at,) = struct.unpack_from(">d", rest, len(head))
            taken.append((now - at) * 1000)
            rest = rest[packet_bytes:]
        if now - began >= seconds and len(taken) == sent:
            break
    for sock in (sluggard, reader, speaker):
        if sock is not None:
            sock.close()
    return taken, sent - len(taken)


def _length(value: int) -> bytes:
    return bytes([value & 0x7F | 0x80, value >> 7]) if value > 127 else bytes([value])


def idle_connections(port: int, count: int) -> list[socket.socket]:
    """So many clients that say nothing more; each is accepted before the next asks."""
    return [attach(port, f"idle-{number}") for number in range(count)]
