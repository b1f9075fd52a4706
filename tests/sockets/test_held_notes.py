"""What a broker without a journal takes along when it is killed is counted by the next one."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from pubweave.model.ids import BrokerId
from pubweave.runtime.broker.loss_estimate import LossEstimate, held_by
from pubweave.runtime.client.connect import connect
from pubweave.runtime.overlay.broker_process import BrokerService
from pubweave.runtime.settings.tree import JournalTable
from tests.sockets.harness import settings_of

pytestmark = pytest.mark.sockets
WANTED = "class = 'T'"


def service(path: Path, broker: BrokerId = "b1") -> BrokerService:
    return BrokerService(settings_of(broker, journal=JournalTable(held_file=path)))


def test_what_waited_is_counted_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "b1.held"
    path.write_bytes(b'{"broker":"b1","noted_at":1.0,"notifications":3,"clients":1,"mqtt":2}   ')

    async def main() -> None:
        with caplog.at_level(logging.WARNING):
            again = service(path)
            await again.start()
        counted = again.host.broker.counters
        assert (counted.notifications_lost_at_most, counted.publications_lost_at_most) == (5, 0)
        assert (
            "b1 was killed without a journal: at most 3 notifications for 1 clients" in caplog.text
        )
        await again.stop()
        assert not path.exists(), "an orderly end leaves nothing to tell"

    asyncio.run(main())


@pytest.mark.parametrize("left", [b"", b"{", b'{"broker":"b2","noted_at":1.0,"notifications":3}'])
def test_what_cannot_be_read_or_is_anothers_counts_for_nothing(tmp_path: Path, left: bytes) -> None:
    path = tmp_path / "b1.held"
    path.write_bytes(left)

    async def main() -> None:
        again = service(path)
        await again.start()
        assert again.host.broker.counters.notifications_lost_at_most == 0
        await again.stop()

    asyncio.run(main())


def test_a_broker_notes_what_waits_for_a_client_that_does_not_read(tmp_path: Path) -> None:
    path = tmp_path / "b1.held"

    async def main() -> LossEstimate:
        first = service(path)
        await first.start()
        address = first.host.address
        async with connect(address) as publisher, connect(address) as subscriber:
            await publisher.advertise(WANTED)
            await subscriber.subscribe(WANTED)
            await subscriber.flush()
            await asyncio.sleep(0.2)  # until the client has acknowledged that it is confirmed
            # Nobody acknowledges: the client's connection is not read from any more.
            connection = subscriber._dialer.connection
            assert connection is not None
            assert connection._transport is not None
            connection._transport.pause_reading()
            for number in range(3):
                await publisher.publish("T", {"n": number})
            await publisher.flush()
            held = held_by(first.host.broker, 0.0)
            connection._transport.resume_reading()
        await first.stop()
        return held

    held = asyncio.run(main())
    assert (held.notifications, held.clients) == (3, 1)


def test_a_place_that_cannot_be_written_to_does_not_stop_a_broker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        first = service(tmp_path / "missing" / "b1.held")
        await first.start()
        async with connect(first.host.address) as client:
            await client.advertise(WANTED)
            await client.flush()
            assert list(first.host.broker.sessions.clients) == [client.id]
        await first.stop()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "cannot be noted" in caplog.text
