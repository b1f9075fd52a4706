"""Security files that change while brokers run: over real TLS sockets, native and MQTT."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from pubweave.core.routing.tree.routing import TreeRouting
from pubweave.core.vocabulary.events import LinkAdded
from pubweave.runtime.broker.host import BrokerHost
from pubweave.runtime.client.client import ClientError
from pubweave.runtime.client.connect import connect
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.net.tls import client_context
from pubweave.runtime.security.credentials import Credentials, read_secret
from pubweave.runtime.security.directory import SecurityDirectory
from pubweave.runtime.security.passwords import HashedPassword
from pubweave.runtime.security.setup import SecuritySetup
from pubweave.runtime.settings.tree import JournalTable, MqttTable, SecurityTable, Settings
from tests.sockets.harness import ANY_PORT, run, settings_of, until

pytestmark = pytest.mark.sockets

NOW = datetime.datetime.now(datetime.UTC)
ALICE = "[users.alice]\npublish = ['*']\nsubscribe = ['*']\n"
BOB = "[users.bob]\npublish = ['*']\nsubscribe = ['*']\n"
NOT_AUTHORIZED = 0x87


@pytest.fixture
def directory(tmp_path: Path) -> SecurityDirectory:
    found = SecurityDirectory(tmp_path / "s")
    list(SecuritySetup(found, NOW).create(["b1", "b2"], ["alice", "bob"]))
    found.access.write_text(ALICE + BOB)
    return found


@contextlib.asynccontextmanager
async def broker(
    directory: SecurityDirectory, name: str = "b1", near: BrokerHost | None = None
) -> AsyncIterator[BrokerHost]:
    neighbors = {} if near is None else {near.config.id: near.address}
    security, mqtt = SecurityTable(directory=directory.path), MqttTable(listen=ANY_PORT)
    host = BrokerHost(settings_of(name, neighbors=neighbors, security=security, mqtt=mqtt))
    await host.start()
    try:
        yield host
    finally:
        await host.stop()


def subscriptions_of(host: BrokerHost, user: str) -> list[str]:
    routing = host.broker.routing
    assert isinstance(routing, TreeRouting)
    return [id_ for id_ in routing.subscriptions if id_.startswith(f"{user}/")]


async def mqtt_client(
    host: BrokerHost, directory: SecurityDirectory, user: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client of MQTT 5 that was let in by its certificate."""
    context = client_context(directory.user_files(user))
    assert host.mqtt_address is not None
    reader, writer = await asyncio.open_connection(*host.mqtt_address, ssl=context)
    connect_packet = b"\x00\x04MQTT\x05\x02\x00\x3c\x00" + b"\x00\x02id"
    writer.write(bytes([0x10, len(connect_packet)]) + connect_packet)
    kind, length = await reader.readexactly(2)
    answer = await reader.readexactly(length)
    assert (kind, answer[1]) == (0x20, 0)
    return reader, writer


def test_a_user_who_is_taken_out_of_the_rules_is_told_and_let_go(
    directory: SecurityDirectory,
) -> None:
    async def main() -> None:
        async with (
            broker(directory) as host,
            connect(host.address, credentials=directory.credentials("alice")) as alice,
            connect(host.address, credentials=directory.credentials("bob")) as bob,
        ):
            news = await alice.subscribe("class = 'news'")
            await alice.advertise("class = 'news'")
            await bob.subscribe("class = 'news'")
            directory.access.write_text(ALICE)
            host.reload()
            await until(lambda: "user 'bob'" in (bob.last_refusal or ""))
            assert not [name for name in host.broker.sessions.clients if name.startswith("bob")]
            await alice.publish("news", {}, b"still here")
            assert (await anext(news)).payload == b"still here"
            with pytest.raises(ClientError, match="user 'bob' has no rules"):
                async with connect(host.address, credentials=directory.credentials("bob")):
                    pass

    run(main())


def test_a_right_that_is_taken_away_ends_the_subscription_and_says_so(
    directory: SecurityDirectory,
) -> None:
    async def main() -> None:
        async with (
            broker(directory) as host,
            connect(host.address, credentials=directory.credentials("bob")) as bob,
        ):
            await bob.subscribe("class = 'news'")
            directory.access.write_text(ALICE + "[users.bob]\nsubscribe = [\"class = 'a'\"]\n")
            host.reload()
            await until(lambda: bob.refused == 1)
            assert "may not subscribe to class = 'news'" in str(bob.last_refusal)
            assert not subscriptions_of(host, "bob")
            await bob.subscribe("class = 'a'")
            assert len(subscriptions_of(host, "bob")) == 1

    run(main())


def test_a_revoked_certificate_ends_its_connection_and_opens_none(
    directory: SecurityDirectory,
) -> None:
    async def main() -> None:
        async with broker(directory) as host:
            async with (
                connect(host.address, credentials=directory.credentials("alice")) as alice,
                connect(host.address, credentials=directory.credentials("bob")) as bob,
            ):
                SecuritySetup(directory, NOW).revoke([Path(str(directory.user_files("bob").cert))])
                assert bob.is_connected
                host.reload()
                await until(lambda: not bob.is_connected)
                assert alice.is_connected
                credentials = directory.credentials("bob")
                with pytest.raises(ClientError, match=r"revoked|may not trust the certificate"):
                    async with connect(host.address, credentials=credentials, timeout_s=0.4):
                        pass
                assert host.broker.sessions.access.refused["tls_handshake"] >= 1
            password = read_secret(directory.user_password("bob"))
            by_password = Credentials(directory.authority_files(), "bob", password)
            async with connect(host.address, credentials=by_password) as again:
                assert again.is_connected  # it is the certificate that does not count any more

    run(main())


def test_a_revoked_broker_loses_its_link_and_its_clients(directory: SecurityDirectory) -> None:
    async def main() -> None:
        async with broker(directory, "b2") as far, broker(directory, "b1", far) as near:
            far.handle(LinkAdded("b1"))
            await until(lambda: _is_linked(near) and _is_linked(far))
            SecuritySetup(directory, NOW).revoke([Path(str(directory.broker_files("b2").cert))])
            near.reload()
            await until(lambda: not _is_linked(near))
            await asyncio.sleep(0.3)
            assert not _is_linked(near)
            with pytest.raises(ClientError, match="cannot be trusted"):
                async with connect(far.address, credentials=directory.credentials("alice")):
                    pass

    run(main())


def _is_linked(host: BrokerHost) -> bool:
    return all(link.state == "established" for link in host.broker.status(0.0).links)


def test_a_password_that_was_changed_holds_after_the_reload(directory: SecurityDirectory) -> None:
    def by(password: str) -> Credentials:
        return Credentials(directory.authority_files(), "bob", password)

    async def main() -> None:
        old = read_secret(directory.user_password("bob"))
        async with broker(directory) as host:
            async with connect(host.address, credentials=by(old)):
                pass
            directory.passwords.write_text(HashedPassword.of("another").line("bob") + "\n")
            host.reload()
            with pytest.raises(ClientError, match="wrong user or password"):
                async with connect(host.address, credentials=by(old)):
                    pass
            async with connect(host.address, credentials=by("another")) as bob:
                assert bob.is_connected

    run(main())


@pytest.mark.parametrize("spoiled", ["access", "passwords", "crl", "ca"])
def test_files_that_cannot_be_used_change_nothing(
    directory: SecurityDirectory, spoiled: str
) -> None:
    async def main() -> None:
        async with (
            broker(directory) as host,
            connect(host.address, credentials=directory.credentials("bob")) as bob,
        ):
            if spoiled != "access":
                directory.access.write_text(ALICE)
            getattr(directory, spoiled).write_text("no such thing\n")
            with pytest.raises(OverlayError, match=str(getattr(directory, spoiled))):
                host.reload()
            await bob.subscribe("class = 'news'")

    run(main())


def test_mqtt_clients_hear_of_it_too(directory: SecurityDirectory) -> None:
    async def main() -> None:
        async with broker(directory) as host:
            reader, writer = await mqtt_client(host, directory, "bob")
            other, its_writer = await mqtt_client(host, directory, "alice")
            directory.access.write_text(ALICE)
            host.reload()
            kind, length = await reader.readexactly(2)
            assert (kind, (await reader.readexactly(length))[0]) == (0xE0, NOT_AUTHORIZED)
            assert await reader.read() == b""
            SecuritySetup(directory, NOW).revoke([Path(str(directory.user_files("alice").cert))])
            host.reload()
            assert await other.read() == b""
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                await mqtt_client(host, directory, "alice")
            for each in (writer, its_writer):
                each.transport.abort()

    run(main())


def test_a_broker_that_comes_back_from_its_journal_learns_of_other_rules(
    directory: SecurityDirectory, tmp_path: Path
) -> None:
    async def main() -> None:
        async with broker(directory) as first:
            journal = JournalTable(directory=tmp_path / "journal")
            table = replace(first.config, durability="journal", journal=journal)
        host = BrokerHost(Settings(table))
        await host.start()
        async with connect(host.address, credentials=directory.credentials("bob")) as bob:
            await bob.subscribe("class = 'news'")
            await host.stop()
            directory.access.write_text(ALICE)
            again = BrokerHost(Settings(table))
            assert again.is_back
            assert len(subscriptions_of(again, "bob")) == 1
            await again.start()
            assert not subscriptions_of(again, "bob")
            assert bob.id not in again.broker.sessions.clients
            await again.stop()

    run(main())
