"""Counts what one publication costs in the core: the files it passes through and the calls made.

Two real brokers on loopback sockets in one thread, a publisher at the first, a subscriber with a
filter on content at the second, both in another thread. `sys.setprofile` watches the brokers'
thread from the moment the publisher writes until the subscriber has the publication and all
acknowledgements are done. Only files of `pubweave/core` count, and only calls of functions (a
comprehension is no call). Telemetry is off. A periodic tick may fall into one walk, so the
smallest of several walks is reported.

    python -m bench.count_walk            # both walks, with the bars
    python -m bench.count_walk --list     # and the calls by file and function
    python -m bench.count_walk --json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pubweave
from pubweave.runtime.broker.host import BrokerHost
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.settings.tree import BrokerTable, MqttTable, Settings

CORE = str(Path(pubweave.__file__).parent / "core")
WARM_UP = 20
WALKS = 9
SETTLE_S = 0.15
"""Longer than any delayed acknowledgement, so that one walk does not see the last one's."""
ACKNOWLEDGED_S = 0.08
"""Native acknowledgements wait for company: by then they have been sent and handled."""
BARS = {"native": (18, 120), "mqtt": (20, 180)}
"""Files and calls at most, by the kind of client."""
NO_CALLS = frozenset({"<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"})


@dataclass(frozen=True)
class Walk:
    """The calls of one publication, by file and function."""

    calls: Counter[CodeType]

    @property
    def files(self) -> int:
        return len({code.co_filename for code in self.calls})

    @property
    def total(self) -> int:
        return sum(self.calls.values())


class Brokers:
    """b1 and b2 in a thread of their own, which can be watched."""

    def __init__(self, *, with_mqtt: bool) -> None:
        self.hosts: list[BrokerHost] = []
        self._with_mqtt = with_mqtt
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._calls: Counter[CodeType] = Counter()

    def __enter__(self) -> Brokers:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _start(self) -> None:
        free = Address("127.0.0.1", 0)
        neighbors = {"b1": free}
        for name in ("b2", "b1"):  # the smaller id dials
            mqtt = MqttTable(listen=free if self._with_mqtt else None)
            table = BrokerTable(id=name, listen=free, neighbors=neighbors, mqtt=mqtt)
            host = BrokerHost(Settings(table))
            self.hosts.insert(0, host)
            await host.start()
            neighbors = {name: host.address}
        while not all(  # noqa: ASYNC110
            link.state == "established"
            for host in self.hosts
            for link in host.broker.status(0).links
        ):
            await asyncio.sleep(0.01)

    async def _stop(self) -> None:
        for host in self.hosts:
            await host.stop()

    def watch(self) -> None:
        """Count the calls in the brokers' thread from here on."""
        self._calls = Counter()
        self._in_loop(lambda: sys.setprofile(self._note))

    def walked(self) -> Walk:
        """The calls since `watch`."""
        self._in_loop(lambda: sys.setprofile(None))
        return Walk(self._calls)

    def _in_loop(self, deed: Callable[[], None]) -> None:
        done = threading.Event()

        def run() -> None:
            deed()
            done.set()

        self._loop.call_soon_threadsafe(run)
        done.wait(10)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code.co_filename.startswith(CORE) and code.co_name not in NO_CALLS:
            self._calls[code] += 1


def native_walks() -> list[Walk]:
    """A publication from a native publisher to a native subscriber."""
    with Brokers(with_mqtt=False) as brokers:
        return asyncio.run(_native(brokers))


async def _native(brokers: Brokers) -> list[Walk]:
    here, there = (str(host.address) for host in brokers.hosts)
    async with pubweave.connect(here) as publisher, pubweave.connect(there) as subscriber:
        await publisher.advertise("class = 'WALK'")
        received = (await subscriber.subscribe("class = 'WALK' and n > 0")).__aiter__()
        await asyncio.sleep(0.5)

        async def once() -> None:
            await publisher.publish("WALK", {"n": 1}, b"payload")
            await received.__anext__()

        for _ in range(WARM_UP):
            await once()
        walks = []
        for _ in range(WALKS):
            await asyncio.sleep(SETTLE_S)
            brokers.watch()
            await once()
            await asyncio.sleep(ACKNOWLEDGED_S)
            walks.append(brokers.walked())
        return walks


def mqtt_walks() -> list[Walk]:
    """A QoS 1 publication between two MQTT 5 clients, with all its acknowledgements."""
    with Brokers(with_mqtt=True) as brokers:
        addresses = [host.mqtt_address for host in brokers.hosts]
        publisher, subscriber = (_RawMqtt(a.host, a.port, f"c{a.port}") for a in addresses if a)
        subscriber.send(0x82, b"\0\1\0" + _text("walk") + b"\1")
        subscriber.receive(0x90)
        time.sleep(1.0)
        number = 0

        def once() -> None:
            nonlocal number
            number = number % 60_000 + 1
            publisher.send(0x32, _text("walk") + number.to_bytes(2, "big") + b"\0payload")
            body = subscriber.receive(0x32)
            at = 2 + int.from_bytes(body[:2], "big")
            subscriber.send(0x40, body[at : at + 2])
            publisher.receive(0x40)
            time.sleep(ACKNOWLEDGED_S)

        for _ in range(WARM_UP):
            once()
        walks = []
        for _ in range(WALKS):
            time.sleep(SETTLE_S)
            brokers.watch()
            once()
            walks.append(brokers.walked())
        publisher.close()
        subscriber.close()
        return walks


class _RawMqtt:
    """An MQTT 5 client of a few lines: it shares no code with the gateway."""

    def __init__(self, host: str, port: int, name: str) -> None:
        self._socket = socket.create_connection((host, port), 10)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read = b""
        self.send(0x10, _text("MQTT") + b"\5\2\0\0\0" + _text(name))
        self.receive(0x20)

    def send(self, head: int, body: bytes) -> None:
        assert len(body) < 128
        self._socket.sendall(bytes((head, len(body))) + body)

    def receive(self, head: int) -> bytes:
        """The body of the next packet of this kind; others are skipped."""
        while True:
            while len(self._read) < 2 or len(self._read) < 2 + self._read[1]:
                chunk = self._socket.recv(65536)
                if not chunk:
                    raise ConnectionError("the broker closed the connection")
                self._read += chunk
            size = self._read[1]
            packet, self._read = self._read[: 2 + size], self._read[2 + size :]
            if packet[0] == head:
                return packet[2:]

    def close(self) -> None:
        self._socket.close()


def _text(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the core's files and calls per publication")
    parser.add_argument("--list", action="store_true", help="list the calls by file and function")
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    given = parser.parse_args()
    found = {
        kind: min(walks(), key=lambda walk: (walk.total, walk.files))
        for kind, walks in (("native", native_walks), ("mqtt", mqtt_walks))
    }
    if given.json:
        print(json.dumps({k: {"files": w.files, "calls": w.total} for k, w in found.items()}))
        return
    for kind, walk in found.items():
        files, calls = BARS[kind]
        is_met = walk.files <= files and walk.total <= calls
        print(
            f"{kind:7} {walk.files:3} files (bar {files}), {walk.total:4} calls (bar {calls}): "
            f"{'met' if is_met else 'not met'}"
        )
        if given.list:
            by_file: dict[str, list[tuple[int, str]]] = {}
            for code, count in walk.calls.items():
                by_file.setdefault(code.co_filename[len(CORE) + 1 :], []).append(
                    (count, code.co_qualname)
                )
            for name, called in sorted(
                by_file.items(), key=lambda each: -sum(c for c, _ in each[1])
            ):
                print(f"  {sum(c for c, _ in called):4} {name}")
                for count, function in sorted(called, reverse=True):
                    print(f"       {count:4} {function}")


if __name__ == "__main__":
    main()
