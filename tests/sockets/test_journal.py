"""A broker with a journal over sockets: it comes back as it was, and waits for a full disk."""

from __future__ import annotations

import asyncio
import errno
import shutil
from pathlib import Path

import msgspec
import pytest

from pubweave.model.records.status import BrokerStatus
from pubweave.runtime.broker.host import BrokerHost
from pubweave.runtime.client.connect import connect
from pubweave.runtime.client.subscription import Subscription
from pubweave.runtime.journal.disk import FileDisk
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.settings.tree import JournalTable, Settings
from tests.sockets.harness import ANY_PORT, run, settings_of, until

pytestmark = pytest.mark.sockets
WANTED = "class = 'T'"


def durable(directory: Path, listen: Address = ANY_PORT) -> Settings:
    journal = JournalTable(directory=directory)
    return settings_of("b1", listen=listen, durability="journal", journal=journal)


async def started(directory: Path, listen: Address = ANY_PORT) -> BrokerHost:
    host = BrokerHost(durable(directory, listen))
    await host.start()
    return host


async def numbers(subscription: Subscription, count: int) -> list[object]:
    async with asyncio.timeout(10.0):
        return [(await anext(subscription)).attributes["n"] for _ in range(count)]


def test_a_broker_goes_on_from_what_a_kill_leaves_of_it(tmp_path: Path) -> None:
    async def main() -> None:
        first = await started(tmp_path / "journal")
        address = first.address
        async with connect(address) as publisher, connect(address, client_id="sub") as subscriber:
            await publisher.advertise(WANTED)
            wanted = await subscriber.subscribe(WANTED)
            for n in range(5):
                await publisher.publish("T", {"n": n})
            await publisher.flush()
            assert await numbers(wanted, 5) == [0, 1, 2, 3, 4]
            # What a kill at this moment would leave; the rest of its life never happened.
            shutil.copytree(tmp_path / "journal", tmp_path / "left")
            await first.stop()
            second = await started(tmp_path / "left", address)
            assert second.is_back
            assert set(second.broker.sessions.clients) == {"sub", publisher.id}
            for n in range(5, 9):
                await publisher.publish("T", {"n": n})
            await publisher.flush()
            assert await numbers(wanted, 4) == [5, 6, 7, 8]
            assert second.broker.counters.duplicates_dropped == 0
            assert second.broker.counters.protocol_errors == 0
        await second.stop()

    run(main())


def test_a_full_disk_holds_publishers_up_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        host = await started(tmp_path / "journal")
        async with connect(host.address) as publisher, connect(host.address) as subscriber:
            await publisher.advertise(WANTED)
            wanted = await subscriber.subscribe(WANTED)
            with monkeypatch.context() as patch:
                patch.setattr(FileDisk, "_append", full)
                await publisher.publish("T", {"n": 1})
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.6):
                        await publisher.flush()
                async with connect(host.address, client_id="$looks") as observer:
                    answer = await observer.query("status")
                journal = msgspec.json.decode(answer, type=BrokerStatus).journal
                assert journal is not None
                assert journal.problem == "No space left on device"
                assert wanted.queued == 0
            await publisher.flush()
            assert await numbers(wanted, 1) == [1]
            await until(lambda: not host.broker.status(0.0).journal.problem)  # type: ignore[union-attr]
        await host.stop()

    run(main())


def full(disk: FileDisk, name: str, data: bytes) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_journal_of_other_code_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        first = await started(tmp_path / "journal")
        shutil.copytree(tmp_path / "journal", tmp_path / "left")  # what a kill would leave
        await first.stop()
        monkeypatch.setattr("pubweave.runtime.journal.host.code_version", lambda: "9.9")
        with pytest.raises(OverlayError, match=r"this is 9\.9, .*: start the version that wrote"):
            BrokerHost(durable(tmp_path / "left"))

    run(main())


def test_other_code_goes_on_after_an_orderly_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        first = await started(tmp_path)
        async with connect(first.address) as client:
            await client.subscribe("class = 'x'")
            await first.stop()
            monkeypatch.setattr("pubweave.runtime.journal.host.code_version", lambda: "9.9")
            again = BrokerHost(durable(tmp_path))
            assert list(again.broker.sessions.clients) == [client.id]
            assert again.broker.routing.sizes().subscriptions == 1

    run(main())
