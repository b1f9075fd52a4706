"""Attacks on one broker, each a process of its own: ``python -m fuzz.attacks NAME ...``.

An attacker comes from another loopback address than the good clients, so that limits for one
address can tell them apart, and runs at the lowest priority: real ones have their own machines.
Prints how often it tried, as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime
import json
import os
import random
import secrets
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from fuzz.fuzz_frames import NASTY_TEXTS, Fuzzer
from pubweave.model.filters.filter import Filter, Operator, Predicate, topic_filter
from pubweave.model.messages.session import (
    PROTOCOL_VERSION,
    Advertise,
    Hello,
    Login,
    Message,
    Query,
    Role,
    Subscribe,
)
from pubweave.model.publications import make_publication
from pubweave.model.records.access import Certified
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.tls import TlsFiles, client_context
from pubweave.runtime.security.certificates import Authority
from pubweave.runtime.security.directory import SecurityDirectory
from pubweave.wire.codec import encode, encode_all

ATTACKER_HOST = "127.0.0.2"
AT_ONCE = 20
READ_LIMIT_S = 2.0
PLAYED_BROKER = "b9"
"""A neighbor of the broker under attack whose key the attacker has."""
_RESETS = (OSError, ssl.SSLError, asyncio.IncompleteReadError, TimeoutError)

Attempt = Callable[["Attacker"], Awaitable[None]]


class Attacker:
    """What an attacker knows: an address, a user's certificate, a broker's."""

    def __init__(self, address: Address, directory: SecurityDirectory, seed: int) -> None:
        self.address = address
        self.directory = directory
        self.rng = random.Random(seed)
        self.attempts = 0
        self._scratch = tempfile.TemporaryDirectory()
        self.anybody = client_context(TlsFiles(str(directory.ca)))
        self.user = client_context(directory.user_files("mallory"))
        self.broker = client_context(directory.broker_files(PLAYED_BROKER))
        now = datetime.datetime.now(datetime.UTC)
        owner = Certified(Role.CLIENT, "mallory")
        authority = Authority.load(directory.ca, directory.ca_key)
        long_ago = now - datetime.timedelta(days=9)
        self.expired = self._context(authority.certify(owner, 1, long_ago))
        self.foreign = self._context(Authority.create(9, now).certify(owner, 9, now))

    def _context(self, pair: object) -> ssl.SSLContext:
        stem = Path(self._scratch.name) / secrets.token_hex(4)
        for suffix in ("crt", "key"):
            content = pair.certificate if suffix == "crt" else pair.key  # type: ignore[attr-defined]
            stem.with_suffix(f".{suffix}").write_bytes(content)
        files = (f"{stem}.crt", f"{stem}.key")
        return client_context(TlsFiles(str(self.directory.ca), *files))

    async def open(
        self, context: ssl.SSLContext | None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with asyncio.timeout(10.0):
            return await asyncio.open_connection(
                *self.address, ssl=context, local_addr=(ATTACKER_HOST, 0)
            )

    async def say(
        self, context: ssl.SSLContext | None, data: bytes, wait_s: float = READ_LIMIT_S
    ) -> None:
        """Send and read until the far end hangs up."""
        _, writer = opened = await self.open(context)
        try:
            writer.write(data)
            async with asyncio.timeout(wait_s):
                while await opened[0].read(1 << 16):
                    pass
        finally:
            writer.transport.abort()

    def hello(self, role: Role = Role.CLIENT) -> bytes:
        id_ = PLAYED_BROKER if role is Role.BROKER else f"mallory/{self.rng.randrange(50)}"
        epoch = time.time_ns()
        said = Hello(PROTOCOL_VERSION, role, id_, epoch, 0, 0, 1 << 20, routing="tree")
        return encode(said)


async def _wrong_certificate(attacker: Attacker) -> None:
    await attacker.say(attacker.foreign, attacker.hello())


async def _expired_certificate(attacker: Attacker) -> None:
    await attacker.say(attacker.expired, attacker.hello())


async def _wrong_password(attacker: Attacker) -> None:
    login = encode(Login("mallory", secrets.token_hex(8)))
    await attacker.say(attacker.anybody, login + attacker.hello())


async def _forbidden_topic(attacker: Attacker) -> None:
    id_ = "mallory/x"
    hello = Hello(PROTOCOL_VERSION, Role.CLIENT, id_, time.time_ns(), 0, 0, 1 << 20)
    wanted = topic_filter("good")
    messages: list[Message] = [hello]
    for number in range(100):
        messages += [Subscribe(f"{id_}:{number}", wanted), Advertise(f"{id_}:a{number}", wanted)]
        messages.append(make_publication(id_, number + 1, "good", {}, b"forged", 0.0))
    await attacker.say(attacker.user, encode_all(messages), 0.5)


async def _oversized_frame(attacker: Attacker) -> None:
    if attacker.rng.random() < 0.5:
        await attacker.say(attacker.anybody, (1 << 20).to_bytes(4, "little") + bytes(1 << 16))
    else:
        large = attacker.hello() + (1 << 30).to_bytes(4, "little") + bytes(1 << 16)
        await attacker.say(attacker.user, large)


async def _deep_filter(attacker: Attacker) -> None:
    many = Filter(tuple(Predicate(f"a{n}", Operator.GT, n) for n in range(2_000)))
    long = Filter((Predicate("class", Operator.CONTAINS, "x" * 100_000),))
    deep = b"\x93\xa3s:9" + b"\x91" * 50_000
    frames = [encode(Subscribe("mallory/1:1", many)), encode(Subscribe("mallory/1:2", long))]
    frames.append((len(deep) + 1).to_bytes(4, "little") + b"\x03" + deep)
    await attacker.say(attacker.user, attacker.hello() + b"".join(frames), 0.5)


async def _slow_loris(attacker: Attacker) -> None:
    """A handshake, a Hello or a frame that comes a byte at a time."""
    way = attacker.rng.randrange(3)
    context = None if way == 0 else attacker.user
    _, writer = await attacker.open(context)
    drip = b"\x16\x03\x01\x02\x00\x01" if way == 0 else attacker.hello()
    if way == 2:
        writer.write(drip)
        drip = (1 << 19).to_bytes(4, "little") + bytes(1 << 12)
    try:
        for at in range(len(drip)):
            writer.write(drip[at : at + 1])
            await writer.drain()
            await asyncio.sleep(0.05)
    finally:
        writer.transport.abort()


async def _connection_flood(attacker: Attacker) -> None:
    with contextlib.suppress(*_RESETS):
        _, writer = await attacker.open(None)
        writer.transport.abort()


async def _never_read(attacker: Attacker) -> None:
    _, writer = await attacker.open(attacker.user)
    try:
        writer.write(attacker.hello())
        questions = encode_all([Query(n, "status") for n in range(500)])
        for _ in range(40):
            writer.write(questions)
            async with asyncio.timeout(READ_LIMIT_S):
                await writer.drain()
    finally:
        writer.transport.abort()


async def _fuzz(attacker: Attacker, role: Role) -> None:
    names = (*NASTY_TEXTS, PLAYED_BROKER, "mallory", "mallory/1:1", "good")
    fuzzer = Fuzzer(attacker.rng, names)
    context = attacker.user if role is Role.CLIENT else attacker.broker
    has_hello = attacker.rng.random() < 0.9
    hello = attacker.hello(role) if has_hello else b""
    await attacker.say(context, hello + fuzzer.frames(attacker.rng.randrange(1, 60)), 0.3)


async def _fuzz_clients(attacker: Attacker) -> None:
    await _fuzz(attacker, Role.CLIENT)


async def _fuzz_links(attacker: Attacker) -> None:
    await _fuzz(attacker, Role.BROKER)


ATTACKS: dict[str, Attempt] = {
    "wrong certificate": _wrong_certificate,
    "expired certificate": _expired_certificate,
    "wrong password": _wrong_password,
    "forbidden topic": _forbidden_topic,
    "oversized frame": _oversized_frame,
    "deep filter": _deep_filter,
    "slow loris": _slow_loris,
    "connection flood": _connection_flood,
    "never reads": _never_read,
    "fuzz clients": _fuzz_clients,
    "fuzz links": _fuzz_links,
}
FUZZES = ("fuzz clients", "fuzz links")


async def attack(attacker: Attacker, attempt: Attempt, seconds: float, at_once: int) -> None:
    """Try again and again, so many at a time, until the time is over."""
    until = time.monotonic() + seconds

    async def keep_on() -> None:
        while time.monotonic() < until:
            attacker.attempts += 1
            with contextlib.suppress(*_RESETS):
                await attempt(attacker)
            await asyncio.sleep(0)

    await asyncio.gather(*(keep_on() for _ in range(at_once)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=list(ATTACKS))
    parser.add_argument("--address", required=True, type=Address.parse)
    parser.add_argument("--security", required=True, type=Path)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    os.nice(19)
    with contextlib.suppress(OSError):  # Linux groups processes by session for fairness
        Path("/proc/self/autogroup").write_text("5")
    directory = SecurityDirectory(arguments.security)
    attacker = Attacker(arguments.address, directory, arguments.seed)
    at_once = 200 if arguments.name in ("slow loris", "connection flood") else AT_ONCE
    # A link is one session: one attacker at a time is all that there can be.
    at_once = 2 if arguments.name == "fuzz links" else at_once
    uvloop.run(attack(attacker, ATTACKS[arguments.name], arguments.seconds, at_once))
    print(json.dumps({"attempts": attacker.attempts}))


if __name__ == "__main__":
    main()
