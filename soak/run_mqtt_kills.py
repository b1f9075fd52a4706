"""Brokers killed with kill -9 under MQTT QoS 1 load: is anything lost that was acknowledged?

    python -m soak.run_mqtt_kills [--kills 100] [--rate 600] [--seed 1] [--json]

Two brokers with journals and MQTT doors, one process each. Publishers at the first keep QoS 1
publications under way and send again, after each reconnect, what was not acknowledged; subscribers
with kept sessions are at both. Every moment one of the brokers is killed and started again. In the
end every subscriber must have every publication whose PUBACK came. More often than once is allowed
at QoS 1, and counted; so is what came out of order for the first time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mqtt5
from bench.rivals import ROOT, free_ports
from mqtt5 import QoS

from pubweave.wire.mqtt.codec import V5, MqttDecoder, encode

EXPIRY_S = 3600
RECONNECT_S = 0.05
ANSWER_S = 10.0
QUIET_S = 15.0
TOPIC = "kills/numbers"
PAUSE_S = 0.1


class BrokerProcess:
    """A broker that is killed and comes back with its journal."""

    def __init__(self, name: str, ports: dict[str, int], door: int, scratch: Path) -> None:
        self.name, self.door = name, door
        self._log = scratch / f"{name}.log"
        self._command = [sys.executable, "-m", "pubweave", "broker", "--id", name]
        self._command += ["--listen", f"127.0.0.1:{ports[name]}", "--mqtt", f"127.0.0.1:{door}"]
        self._command += ["--durability", "journal", "--journal-dir", str(scratch / name)]
        for other, port in ports.items():
            if other != name:
                self._command += ["--neighbor", f"{other}=127.0.0.1:{port}"]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=log, stderr=log)

    async def wait_until_up(self, limit_s: float = 120.0) -> float:
        """Seconds until its door is open."""
        began = time.monotonic()
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.door)
            except OSError:
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() - began > limit_s:
                    raise RuntimeError(
                        f"{self.name} does not come back: {self._log.read_text()[-1500:]}"
                    ) from None
                await asyncio.sleep(0.02)
                continue
            writer.close()
            return time.monotonic() - began

    def end(self, *, kindly: bool = False) -> None:
        if self._process is not None:
            self._process.terminate() if kindly else self._process.kill()
            self._process.wait()


@dataclass
class MqttPeer:
    """A client with a kept session that always connects again."""

    name: str
    door: int
    connections: int = 0
    is_over: bool = False
    sessions_lost: int = 0
    """How often the broker did not know the session any more."""

    async def run(self) -> None:
        while not self.is_over:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError, EOFError):
                await self._one_connection()
            await asyncio.sleep(RECONNECT_S)

    async def _one_connection(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.door)
        decoder = MqttDecoder(1 << 20, version=V5)
        try:
            hello = mqtt5.ConnectPacket(
                self.name, session_expiry_interval=EXPIRY_S, receive_max=100, keep_alive=30
            )
            writer.write(encode(hello, V5))
            early = await self._read(reader, decoder)
            answer = early.pop(0)
            if not isinstance(answer, mqtt5.ConnAckPacket) or int(answer.reason_code):
                return
            self.sessions_lost += self.connections > 0 and not answer.session_present
            self.connections += 1
            await self.connected(writer, is_resumed=answer.session_present)
            self._take_all(early, writer)
            while not self.is_over:
                self._take_all(await self._read(reader, decoder), writer)
                await self.after_read(writer)
        finally:
            writer.transport.abort()

    async def _read(self, reader: asyncio.StreamReader, decoder: MqttDecoder) -> list[Any]:
        packets: list[Any] = []
        while not packets:
            async with asyncio.timeout(ANSWER_S):
                data = await reader.read(1 << 16)
            if not data:
                raise EOFError
            packets = list(decoder.feed(data))
        return packets

    def _take_all(self, packets: list[Any], writer: asyncio.StreamWriter) -> None:
        for packet in packets:
            if not writer.is_closing():
                self.take(packet, writer)

    async def connected(self, writer: asyncio.StreamWriter, *, is_resumed: bool) -> None:
        """What to say first."""

    async def after_read(self, writer: asyncio.StreamWriter) -> None:
        """What to say after something came."""

    def take(self, packet: Any, writer: asyncio.StreamWriter) -> None:
        """One packet of the broker."""


@dataclass
class Publisher(MqttPeer):
    """Numbers publications; keeps those that are not acknowledged."""

    window: int = 20
    """So many at once, then a pause."""
    pause_s: float = PAUSE_S
    next_number: int = 0
    under_way: dict[int, int] = field(default_factory=dict)
    """Packet identifier -> number."""
    acknowledged: set[int] = field(default_factory=set)

    def _packet(self, packet_id: int, *, again: bool) -> bytes:
        payload = f"{self.name} {self.under_way[packet_id]}".encode()
        packet = mqtt5.PublishPacket(
            TOPIC, payload, qos=QoS.AT_LEAST_ONCE, packet_id=packet_id, duplicate=again
        )
        return encode(packet, V5)

    async def connected(self, writer: asyncio.StreamWriter, *, is_resumed: bool) -> None:
        for packet_id in list(self.under_way):
            writer.write(self._packet(packet_id, again=is_resumed))
        await self.after_read(writer)

    async def after_read(self, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(self.pause_s)
        while len(self.under_way) < self.window and not (self.is_over or writer.is_closing()):
            packet_id = self.next_number % 60_000 + 1
            self.under_way[packet_id] = self.next_number
            self.next_number += 1
            writer.write(self._packet(packet_id, again=False))

    def take(self, packet: Any, writer: asyncio.StreamWriter) -> None:
        if isinstance(packet, mqtt5.PubAckPacket):
            number = self.under_way.pop(packet.packet_id, None)
            if number is not None and int(packet.reason_code) < 0x80:
                self.acknowledged.add(number)


@dataclass
class Subscriber(MqttPeer):
    """Remembers what came, by publisher."""

    received: dict[str, set[int]] = field(default_factory=dict)
    highest: dict[str, int] = field(default_factory=dict)
    repeated: int = 0
    disordered: int = 0
    is_subscribed: asyncio.Event = field(default_factory=asyncio.Event)
    last_at: float = 0.0

    async def connected(self, writer: asyncio.StreamWriter, *, is_resumed: bool) -> None:
        if not is_resumed:
            wanted = mqtt5.TopicFilter(TOPIC, max_qos=QoS.AT_LEAST_ONCE)
            writer.write(encode(mqtt5.SubscribePacket(1, [wanted]), V5))

    def take(self, packet: Any, writer: asyncio.StreamWriter) -> None:
        if isinstance(packet, mqtt5.SubAckPacket):
            self.is_subscribed.set()
        if not isinstance(packet, mqtt5.PublishPacket):
            return
        self.last_at = time.monotonic()
        publisher, text = packet.payload.decode().split()
        number = int(text)
        known = self.received.setdefault(publisher, set())
        if number in known:
            self.repeated += 1
        elif number < self.highest.get(publisher, -1):
            self.disordered += 1
        self.highest[publisher] = max(number, self.highest.get(publisher, -1))
        known.add(number)
        writer.write(encode(mqtt5.PubAckPacket(packet.packet_id), V5))


async def wait_until_heard(
    speaking: list[Publisher], hearing: list[Subscriber], limit_s: float = 120.0
) -> None:
    """Until nothing is missing, or nothing has come to anybody for a while."""
    deadline = time.monotonic() + limit_s
    while any(losses(speaking, hearing).values()) and time.monotonic() < deadline:
        await asyncio.sleep(0.5)
        if time.monotonic() - max(each.last_at for each in hearing) > QUIET_S:
            return


async def run(
    scratch: Path, kills: int, every_s: float, publishers: int, rate_per_s: float, seed: int
) -> dict[str, Any]:
    """All figures of one run."""
    window = max(1, round(rate_per_s * PAUSE_S / publishers))
    rng = random.Random(seed)
    native, doors = free_ports(2), free_ports(2)
    ports = {"b1": native[0], "b2": native[1]}
    brokers = [BrokerProcess(n, ports, d, scratch) for n, d in zip(ports, doors, strict=True)]
    speaking = [Publisher(f"p{n}", doors[0], window=window) for n in range(publishers)]
    hearing = [Subscriber(f"s{n}", doors[n % 2]) for n in range(2)]
    recoveries = []
    tasks: list[asyncio.Task[None]] = []
    try:
        for broker in brokers:
            broker.start()
        for broker in brokers:
            await broker.wait_until_up()
        tasks += [asyncio.create_task(each.run()) for each in hearing]
        await asyncio.gather(*(each.is_subscribed.wait() for each in hearing))
        await asyncio.sleep(2.0)  # the subscription spreads
        speakers = [asyncio.create_task(each.run()) for each in speaking]
        tasks += speakers
        for number in range(kills):
            await asyncio.sleep(rng.expovariate(1 / every_s))
            broker = rng.choice(brokers)
            broker.end()
            broker.start()
            recoveries.append(await broker.wait_until_up())
            if (number + 1) % 10 == 0:
                print(
                    f"  {number + 1} kills, {_acknowledged(speaking):,} acknowledged",
                    file=sys.stderr,
                )
        await asyncio.sleep(3.0)
        for each in speaking:
            each.is_over = True
        await asyncio.gather(*speakers)
        await wait_until_heard(speaking, hearing)
    finally:
        for each in (*speaking, *hearing):
            each.is_over = True
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for broker in brokers:
            broker.end(kindly=True)
    return figures(speaking, hearing, recoveries)


def _acknowledged(speaking: list[Publisher]) -> int:
    return sum(len(each.acknowledged) for each in speaking)


def losses(speaking: list[Publisher], hearing: list[Subscriber]) -> dict[str, int]:
    """For each subscriber, how many acknowledged publications it does not have."""
    return {
        hearer.name: sum(
            len(each.acknowledged - hearer.received.get(each.name, set())) for each in speaking
        )
        for hearer in hearing
    }


def figures(
    speaking: list[Publisher], hearing: list[Subscriber], recoveries: list[float]
) -> dict[str, Any]:
    lost = losses(speaking, hearing)
    return {
        "kills": len(recoveries),
        "acknowledged": _acknowledged(speaking),
        "lost": lost,
        "repeated": {each.name: each.repeated for each in hearing},
        "disordered": {each.name: each.disordered for each in hearing},
        "sessions_lost": sum(each.sessions_lost for each in (*speaking, *hearing)),
        "connections": sum(each.connections for each in (*speaking, *hearing)),
        "back_after_s_max": round(max(recoveries), 2),
        "is_clean": not any(lost.values()) and _acknowledged(speaking) > 0,
    }


def main() -> int:
    """The command line; exit code 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--every", type=float, default=0.5, metavar="S", help="mean time of peace")
    parser.add_argument("--publishers", type=int, default=3)
    parser.add_argument(
        "--rate", type=float, default=600.0, metavar="N", help="publications a second, at peace"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mqtt-kills-") as directory:
        found = asyncio.run(
            run(
                Path(directory),
                given.kills,
                given.every,
                given.publishers,
                given.rate,
                given.seed,
            )
        )
    if given.json:
        print(json.dumps(found, indent=2))
    else:
        for name, value in found.items():
            print(f"{name:<20}{value}")
    return 0 if found["is_clean"] else 1


if __name__ == "__main__":
    sys.exit(main())
