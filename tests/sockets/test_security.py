"""Who gets in over real TLS sockets, and what those are told who do not."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pubweave.core.config.entry_limits import EntryLimits
from pubweave.core.config.session import SessionLimits
from pubweave.core.vocabulary.events import MigrationRequested
from pubweave.model.filters.filter import Filter, Operator, Predicate
from pubweave.model.filters.text import parse_filter
from pubweave.model.ids import Link
from pubweave.model.messages.session import (
    PROTOCOL_VERSION,
    Disconnect,
    Hello,
    Message,
    Query,
    Role,
)
from pubweave.model.records.access import Certified
from pubweave.model.topology import Topology
from pubweave.runtime.broker.host import BrokerHost
from pubweave.runtime.client.client import ClientError
from pubweave.runtime.client.connect import connect
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.net.tls import TlsFiles, client_context
from pubweave.runtime.security.certificates import Authority
from pubweave.runtime.security.credentials import Credentials, read_secret
from pubweave.runtime.security.directory import SecurityDirectory, is_private
from pubweave.runtime.security.setup import SecuritySetup
from pubweave.runtime.settings.tree import SecurityTable
from pubweave.wire.codec import FrameDecoder, encode, encode_all
from tests.sockets.harness import ANY_PORT, run, settings_of, until

pytestmark = pytest.mark.sockets

NOW = datetime.datetime.now(datetime.UTC)
RULES = """
[users.operator]
publish = ["*"]
subscribe = ["*"]
operate = true
[users.alice]
publish = ["class = 'STOCK'"]
subscribe = ["class = 'STOCK' and volume > 100", "class prefix 'news/'"]
[users.bob]
subscribe = ["*"]
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> SecurityDirectory:
    found = SecurityDirectory(tmp_path_factory.mktemp("security") / "s")
    list(SecuritySetup(found, NOW).create(["b1", "b2"], ["alice", "bob"]))
    found.access.write_text(RULES)
    return found


def files_of(directory: SecurityDirectory, broker: str) -> SecurityTable:
    """The files of one broker, whoever uses them."""
    found = directory.broker_security(broker)
    assert found.tls.cert is not None
    assert found.tls.key is not None
    ca, cert, key = map(Path, (found.tls.ca, found.tls.cert, found.tls.key))
    return SecurityTable(ca=ca, cert=cert, key=key, access=directory.access)


@contextlib.asynccontextmanager
async def brokers(
    directory: SecurityDirectory, *names: str, **entry: Any
) -> AsyncIterator[dict[str, BrokerHost]]:
    """A chain of secured brokers in this process."""
    hosts: dict[str, BrokerHost] = {}
    for name in sorted(names, reverse=True):
        others = {n: hosts[n].address if n in hosts else ANY_PORT for n in names if n != name}
        security = SecurityTable(directory=directory.path)
        limits = EntryLimits(**entry)
        hosts[name] = BrokerHost(
            settings_of(name, neighbors=others, entry=limits, security=security)
        )
        await hosts[name].start()
    try:
        yield hosts
    finally:
        for host in hosts.values():
            await host.stop()


def refused(host: BrokerHost) -> dict[str, int]:
    return host.broker.sessions.access.refused


async def talk(
    address: Address, data: bytes, context: ssl.SSLContext | None, limit_s: float = 5.0
) -> list[Message]:
    """What a broker answers to these bytes until it hangs up."""
    reader, writer = await asyncio.open_connection(*address, ssl=context)
    decoder = FrameDecoder(1 << 24)
    found: list[Message] = []
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        writer.write(data)
        async with asyncio.timeout(limit_s):
            while data := await reader.read(65536):
                found += decoder.feed(data)
    writer.transport.abort()
    return found


def hello(role: Role, id_: str) -> Hello:
    return Hello(PROTOCOL_VERSION, role, id_, 5, 0, 0, 1 << 20, routing="tree")


def goodbye(messages: list[Message]) -> str:
    return next(m.reason for m in messages if isinstance(m, Disconnect))


def test_a_secured_overlay_carries_publications_of_users_by_certificate_and_by_password(
    directory: SecurityDirectory,
) -> None:
    async def main() -> None:
        async with brokers(directory, "b1", "b2") as hosts:
            await until(lambda: hosts["b1"].broker.status(0.0).links[0].state == "established")
            password = read_secret(directory.user_password("bob"))
            by_password = Credentials(TlsFiles(str(directory.ca)), "bob", password)
            async with (
                connect(hosts["b1"].address, credentials=directory.credentials("alice")) as alice,
                connect(hosts["b2"].address, credentials=by_password) as bob,
            ):
                assert alice.id.startswith("alice/")
                quotes = await bob.subscribe("class = 'STOCK'")
                await alice.advertise("class = 'STOCK' and volume > 5")
                await until(lambda: hosts["b1"].broker.routing.sizes().subscriptions == 1)
                large = b"x" * 200_000  # longer than a stranger's frame may be
                await alice.publish("STOCK", {"volume": 6}, large)
                assert (await anext(quotes)).payload == large

    run(main())


def test_a_client_that_is_moved_proves_its_name_again(directory: SecurityDirectory) -> None:
    async def main() -> None:
        async with brokers(directory, "b1", "b2") as hosts:
            await until(lambda: hosts["b1"].broker.status(0.0).links[0].state == "established")
            password = read_secret(directory.user_password("bob"))
            credentials = Credentials(TlsFiles(str(directory.ca)), "bob", password)
            async with connect(hosts["b1"].address, credentials=credentials) as bob:
                await bob.subscribe("class = 'STOCK'")
                hosts["b1"].handle(MigrationRequested(bob.id, "b2"))
                await until(lambda: bob.broker == "b2" and bob.is_connected)
                assert list(hosts["b2"].broker.sessions.clients) == [bob.id]
                assert refused(hosts["b2"]) == {}

    run(main())


def test_what_rules_do_not_allow_is_refused_with_the_rule_and_counted(
    directory: SecurityDirectory,
) -> None:
    async def main() -> None:
        async with brokers(directory, "b1") as hosts:
            address = hosts["b1"].address
            async with connect(address, credentials=directory.credentials("alice")) as alice:
                with pytest.raises(ClientError, match=r"may not publish .*allowed is class = 'ST"):
                    await alice.advertise("class = 'WEATHER'")
                with pytest.raises(ClientError, match=r"users.alice\] subscribe"):
                    await alice.subscribe("class = 'STOCK'")
                await alice.subscribe("class = 'STOCK' and volume > 500")
                await alice.subscribe("class = 'news/today'")
                assert b"may not operate" in await alice.query("status")
            assert refused(hosts["b1"]) == {"publish": 1, "subscribe": 1, "operate": 1}
            async with connect(address, credentials=directory.credentials()) as operator:
                assert b'"broker":"b1"' in await operator.query("status")

    run(main())


@pytest.mark.parametrize("password", ["", "wrong", "x" * 5000])
def test_a_wrong_password_is_refused(directory: SecurityDirectory, password: str) -> None:
    async def main() -> None:
        async with brokers(directory, "b1") as hosts:
            with pytest.raises(ClientError, match="wrong user or password"):
                async with connect(
                    hosts["b1"].address,
                    credentials=Credentials(TlsFiles(str(directory.ca)), "bob", password),
                ):
                    pass
            assert refused(hosts["b1"]) == {"password": 1}

    run(main())


def test_an_expired_certificate_and_one_of_another_authority_are_refused(
    directory: SecurityDirectory, tmp_path: Path
) -> None:
    long_ago = NOW - datetime.timedelta(days=20)
    own = Authority.load(directory.ca, directory.ca_key)
    other = Authority.create(10, NOW)
    made = {
        "expired": own.certify(Certified(Role.CLIENT, "alice"), 10, long_ago),
        "foreign": other.certify(Certified(Role.CLIENT, "alice"), 10, NOW),
    }
    for name, pair in made.items():
        (tmp_path / f"{name}.crt").write_bytes(pair.certificate)
        (tmp_path / f"{name}.key").write_bytes(pair.key)
    (tmp_path / "other.crt").write_bytes(other.pair.certificate)

    async def main() -> None:
        async with brokers(directory, "b1") as hosts:
            for name, reason in (("expired", "expired on"), ("foreign", "may not trust")):
                stem = str(tmp_path / name)
                files = TlsFiles(str(directory.ca), f"{stem}.crt", f"{stem}.key")
                with pytest.raises(ClientError, match=reason):
                    async with connect(
                        hosts["b1"].address, credentials=Credentials(files, "alice"), timeout_s=0.4
                    ):
                        pass
            assert refused(hosts["b1"])["tls_handshake"] >= 2
            # The other way round: this client does not trust the broker.
            distrusting = Credentials(TlsFiles(str(tmp_path / "other.crt")), "bob", "secret")
            with pytest.raises(ClientError, match="cannot be trusted"):
                async with connect(hosts["b1"].address, credentials=distrusting):
                    pass

    run(main())


def test_only_the_certificate_of_a_broker_opens_its_link(directory: SecurityDirectory) -> None:
    async def main() -> None:
        async with brokers(directory, "b1", "b2") as hosts:
            address = hosts["b2"].address
            greeting = encode(hello(Role.BROKER, "b1"))
            user = client_context(directory.user_files("alice"))
            assert "user 'alice', not of broker 'b1'" in goodbye(
                await talk(address, greeting, user)
            )
            nobody = client_context(TlsFiles(str(directory.ca)))
            assert "needs the certificate" in goodbye(await talk(address, greeting, nobody))
            itself = client_context(directory.broker_files("b2"))
            assert "of broker 'b2', not" in goodbye(await talk(address, greeting, itself))
            as_client = encode(hello(Role.CLIENT, "b2"))
            assert "is for links" in goodbye(await talk(address, as_client, itself))
            assert refused(hosts["b2"]) == {"certificate": 4}

    run(main())


def test_nobody_takes_the_name_of_another_user(directory: SecurityDirectory) -> None:
    async def main() -> None:
        async with brokers(directory, "b1") as hosts:
            for id_ in ("bob", "bob/1", "alicex", "$observer-1"):
                with pytest.raises(ClientError, match="cannot be client"):
                    async with connect(
                        hosts["b1"].address,
                        client_id=id_,
                        credentials=directory.credentials("alice"),
                    ):
                        pass
            with pytest.raises(ClientError, match="anonymous clients are not let in"):
                async with connect(
                    hosts["b1"].address, credentials=Credentials(TlsFiles(str(directory.ca)))
                ):
                    pass
            assert refused(hosts["b1"]) == {"name": 5}

    run(main())


def test_a_password_is_not_sent_where_others_could_read_it(directory: SecurityDirectory) -> None:
    with pytest.raises(OverlayError, match="over TLS only"):
        connect("10.0.0.1:7000", credentials=Credentials(None, "bob", "secret"))
    assert "secret" not in repr(Credentials(None, "bob", "secret"))


def test_limits_of_filters_entries_and_frames_are_told_by_name(
    directory: SecurityDirectory,
) -> None:
    wide = Filter(tuple(Predicate(f"a{n}", Operator.GT, n) for n in range(9)))
    long = Filter((Predicate("class", Operator.EQ, "x" * 100),))

    async def main() -> None:
        limits = {"predicates_per_filter": 8, "entries_per_client": 2, "filter_value_bytes": 64}
        async with brokers(directory, "b1", **limits) as hosts:
            host = hosts["b1"]
            async with connect(host.address, credentials=directory.credentials("bob")) as bob:
                with pytest.raises(ClientError, match="9 predicates: the limit is 8"):
                    await bob.subscribe(wide)
                with pytest.raises(ClientError, match="may have 64 bytes"):
                    await bob.subscribe(long)
                first = await bob.subscribe("a > 1")
                await bob.subscribe("a > 2")
                with pytest.raises(ClientError, match="2 advertisements and subscriptions are"):
                    await bob.subscribe("a > 3")
                await bob.unsubscribe(first)
                await bob.subscribe(parse_filter("a > 3"))
            context = client_context(directory.user_files("bob"))
            before_hello = (1 << 14).to_bytes(4, "little") + b"\x10" * 9000
            assert "allowed are 1 to 8192" in goodbye(
                await talk(host.address, before_hello, context)
            )
            frames = encode(hello(Role.CLIENT, "bob/9")) + (1 << 21).to_bytes(4, "little") + b"\0"
            assert "frame of 2097152 bytes" in goodbye(await talk(host.address, frames, context))
            counted = {"filter": 2, "entries_per_client": 1, "frame": 2}
            await until(lambda: refused(host) == counted)

    run(main())


def test_too_many_connections_of_one_address_are_told_so_and_others_get_in() -> None:
    async def main() -> None:
        entry = EntryLimits(connections_per_address=3, connections=5)
        host = BrokerHost(settings_of("b1", entry=entry))
        await host.start()
        try:
            kept = [await asyncio.open_connection(*host.address) for _ in range(3)]
            assert "limit for one address" in goodbye(await talk(host.address, b"", None))
            with pytest.raises(ClientError, match="3 connections here"):
                async with connect(host.address):
                    pass
            with socket.create_connection(host.address, source_address=("127.0.0.2", 0)):
                await until(lambda: host._doorway.connections == 4)
                for _, writer in kept:
                    writer.close()
                await until(lambda: host._doorway.connections == 1)
                async with connect(host.address):
                    assert host._doorway.connections == 2
        finally:
            await host.stop()
        assert refused(host)["connections_per_address"] >= 2

    run(main())


def test_a_flood_of_connections_is_turned_away_over_tls_too(directory: SecurityDirectory) -> None:
    async def main() -> None:
        async with brokers(directory, "b1", connection_burst=2, connections_per_s=0.01) as hosts:
            address = hosts["b1"].address
            context = client_context(directory.user_files("alice"))
            for _ in range(2):
                writer = (await asyncio.open_connection(*address, ssl=context))[1]
                writer.transport.abort()
            assert "more than 0.01 times" in goodbye(await talk(address, b"", context))
            assert refused(hosts["b1"]) == {"connections_per_s": 1}

    run(main())


def test_who_never_finishes_a_handshake_a_hello_or_a_frame_is_let_go(
    directory: SecurityDirectory,
) -> None:
    async def main() -> None:
        limits = {"handshake_s": 0.3, "stalled_frame_s": 0.2}
        async with brokers(directory, "b1", **limits) as hosts:
            host = hosts["b1"]
            reader, writer = await asyncio.open_connection(*host.address)
            writer.write(b"\x16\x03\x01")  # the beginning of a TLS handshake
            async with asyncio.timeout(5):
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
            writer.transport.abort()
            context = client_context(directory.user_files("bob"))
            begun = encode(hello(Role.CLIENT, "bob/1")) + b"\xff\x00\x00\x00\x00half"
            assert "longer than 0.2 s" in goodbye(await talk(host.address, begun, context))
            await until(lambda: refused(host) == {"tls_handshake": 1, "stalled_frame": 1})

    run(main())


def test_who_asks_and_never_reads_is_cut_off(directory: SecurityDirectory) -> None:
    async def main() -> None:
        small = SessionLimits(window_bytes=1 << 14)
        entry = EntryLimits(questions_at_once=10**6)
        host = BrokerHost(settings_of("b1", limits=small, entry=entry, max_frame_bytes=1 << 14))
        await host.start()
        try:
            _, writer = await asyncio.open_connection(*host.address, limit=1)
            writer.write(encode(hello(Role.CLIENT, "c")))
            questions = encode_all([Query(n, "status") for n in range(2000)])
            with contextlib.suppress(ConnectionError):
                for _ in range(40):
                    writer.write(questions)
                    await writer.drain()
            await until(lambda: refused(host).get("unread") == 1)
            writer.transport.abort()
        finally:
            await host.stop()

    run(main())


def test_secrets_are_readable_by_their_owner_only(directory: SecurityDirectory) -> None:
    secret = [p for p in directory.path.rglob("*") if p.is_file() and p.suffix != ".crt"]
    assert len(secret) > 8
    assert all(is_private(path) for path in secret)
    for path in directory.path.rglob("*.crt"):
        assert b"PRIVATE" not in path.read_bytes()


def test_a_chain_is_linked_only_by_its_own_brokers(directory: SecurityDirectory) -> None:
    """Two brokers with swapped certificates do not become neighbors."""

    async def main() -> None:
        topology = Topology(frozenset({"b1", "b2"}), frozenset({Link("b1", "b2")}))
        hosts: dict[str, BrokerHost] = {}
        for name, wrong in (("b2", "b1"), ("b1", "b2")):
            security = files_of(directory, wrong)
            others = {n: hosts[n].address if n in hosts else ANY_PORT for n in topology.brokers}
            others.pop(name)
            hosts[name] = BrokerHost(settings_of(name, neighbors=others, security=security))
            await hosts[name].start()
        await until(lambda: refused(hosts["b2"]).get("certificate", 0) >= 1)
        assert hosts["b1"].broker.status(0.0).links[0].state != "established"
        for host in hosts.values():
            await host.stop()

    run(main())
