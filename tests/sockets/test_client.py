"""The client library and brokers over real sockets, also when connections are cut."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import replace
from typing import Any

import pytest

import pubweave
from pubweave.core.config.session import SessionLimits
from pubweave.core.vocabulary.effects import ReportGap
from pubweave.model.messages.session import Missed
from pubweave.model.topology import Topology
from pubweave.runtime.broker.host import BrokerHost
from pubweave.runtime.client.client import MISSED_REMEMBERED, ClientError
from pubweave.runtime.client.subscription import GapError
from pubweave.runtime.settings.tree import Settings
from tests.sockets.harness import CuttingProxy, overlay, run, until

pytestmark = pytest.mark.sockets

ALONE = Topology.from_links([], brokers=["b1"])
CHAIN = Topology.from_links([("b1", "b2"), ("b2", "b3")])


def test_publications_cross_a_chain_of_brokers() -> None:
    async def main() -> None:
        async with (
            overlay(CHAIN) as hosts,
            pubweave.connect(str(hosts["b1"].address)) as publisher,
            pubweave.connect(str(hosts["b3"].address)) as subscriber,
        ):
            await publisher.advertise("class = 'STOCK'")
            quotes = await subscriber.subscribe("class = 'STOCK' and volume > 10")
            assert quotes.is_confirmed
            for volume in (5, 20, 30):
                await publisher.publish("STOCK", {"volume": volume, "late": False}, b"\x00raw")
            first, second = await anext(quotes), await anext(quotes)
            assert [n.attributes["volume"] for n in (first, second)] == [20, 30]
            assert first.payload == b"\x00raw"
            assert first.attributes["late"] is False
            assert first.publisher == publisher.id
            await subscriber.unsubscribe(quotes)
            assert [n async for n in quotes] == []

    run(main())


def test_the_first_publication_behind_an_advertisement_is_not_missed() -> None:
    async def main() -> None:
        async with (
            overlay(CHAIN) as hosts,
            pubweave.connect(str(hosts["b1"].address)) as publisher,
            pubweave.connect(str(hosts["b3"].address)) as subscriber,
        ):
            quotes = await subscriber.subscribe("class = 'STOCK'")
            await publisher.advertise("class = 'STOCK'")
            await publisher.publish("STOCK", payload=b"first")
            assert (await anext(quotes)).payload == b"first"

    run(main())


def test_a_subscription_that_is_not_confirmed_comes_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with (
            overlay(CHAIN) as hosts,
            pubweave.connect(str(hosts["b3"].address)) as publisher,
        ):
            await publisher.advertise("*")
            await until(lambda: hosts["b1"].broker.status(0.0).advertisements == 1)
            await hosts["b2"].stop()
            async with pubweave.connect(str(hosts["b1"].address)) as client:
                hasty = await client.subscribe("class = 'T'", confirm=False)
                late = await client.subscribe("class = 'U'", timeout_s=0.05)
                assert "is not confirmed after 0.05 s" in caplog.text
                assert [hasty.is_confirmed, late.is_confirmed] == [False, False]
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await late.confirmation()

    run(main())


@pytest.mark.parametrize("on_gap", ["warn", "raise", "call"])
def test_a_gap_cannot_be_overlooked(on_gap: str, caplog: pytest.LogCaptureFixture) -> None:
    called: list[ReportGap] = []

    async def main() -> None:
        action: Any = called.append if on_gap == "call" else on_gap
        async with overlay(ALONE) as hosts:
            address = str(hosts["b1"].address)
            async with (
                pubweave.connect(address) as publisher,
                pubweave.connect(address, on_gap=action) as subscriber,
            ):
                quotes = await subscriber.subscribe("class = 'T'")
                await publisher.advertise("class = 'T'")
                await publisher.publish("T", payload=b"1")
                await publisher.flush()
                publisher._core._published.turn("T", publisher._core._sequence + 1)
                publisher._core._sequence += 1  # as if one had been lost on its way
                await publisher.publish("T", payload=b"3")
                assert (await anext(quotes)).payload == b"1"
                if on_gap == "raise":
                    with pytest.raises(GapError, match="are missing between numbers"):
                        await anext(quotes)
                assert (await anext(quotes)).payload == b"3"
                assert (subscriber.gap_count, len(subscriber.gaps)) == (1, 1)

    run(main())
    assert len(called) == (on_gap == "call")
    assert ("are missing between numbers" in caplog.text) == (on_gap == "warn")


def test_what_doors_tell_each_other_is_for_those_who_ask_for_it_by_name() -> None:
    async def main() -> None:
        async with overlay(ALONE) as hosts, pubweave.connect(str(hosts["b1"].address)) as client:
            await client.advertise("*")
            filters = ("*", "class != 'T'", "class prefix '$mqtt/'", "class = '$mqtt/doors'")
            found = [await client.subscribe(filter_) for filter_ in filters]
            for topic in ("$mqtt/doors", "$own", "T"):
                await client.publish(topic)
            await client.flush()
            await until(lambda: found[0].queued == 2)
            topics = [[n.topic for n in some.take_all()] for some in found]
            assert topics == [["$own", "T"], ["$own"], ["$mqtt/doors"], ["$mqtt/doors"]]

    run(main())


def test_subscriptions_of_one_client_each_get_their_own() -> None:
    async def main() -> None:
        async with overlay(ALONE) as hosts, pubweave.connect(str(hosts["b1"].address)) as client:
            await client.advertise("*")
            low = await client.subscribe("class = 'T' and v < 5")
            high = await client.subscribe("class = 'T' and v > 3")
            for v in range(8):
                await client.publish("T", {"v": v})
            await client.flush()
            await until(lambda: low.queued == 5 and high.queued == 4)
            assert [n.attributes["v"] for n in low.take_all()] == [0, 1, 2, 3, 4]
            assert [n.attributes["v"] for n in high.take_all()] == [4, 5, 6, 7]

    run(main())


def test_a_client_whose_connection_is_cut_again_and_again_loses_and_doubles_nothing() -> None:
    async def main() -> None:
        limits = SessionLimits(window_bytes=20_000, congested_bytes=20_000, relieved_bytes=5_000)
        async with (
            overlay(ALONE, limits=limits) as hosts,
            CuttingProxy(hosts["b1"].address) as one,
            CuttingProxy(hosts["b1"].address) as other,
            pubweave.connect(str(one.address), limits=limits) as publisher,
            pubweave.connect(str(other.address), limits=limits) as subscriber,
        ):
            await publisher.advertise("class = 'T'")
            notifications = await subscriber.subscribe("class = 'T'")

            async def publish() -> None:
                for number in range(5000):
                    await publisher.publish("T", {"n": number}, b"x" * 50)

            async def disturb() -> None:
                for proxy in (one, other) * 6:
                    await asyncio.sleep(0.05)
                    proxy.cut()

            async def receive() -> list[object]:
                return [(await anext(notifications)).attributes["n"] for _ in range(5000)]

            _, _, received = await asyncio.gather(publish(), disturb(), receive())
            assert received == list(range(5000))
            assert one.cuts + other.cuts == 12
            assert hosts["b1"].broker.counters.duplicates_dropped == 0
            assert hosts["b1"].broker.counters.clients_expired == 0

    run(main())


def test_a_subscriber_that_does_not_read_slows_the_publisher_down_without_loss() -> None:
    async def main() -> None:
        limits = SessionLimits(window_bytes=20_000, congested_bytes=20_000, relieved_bytes=5_000)
        async with overlay(ALONE, limits=limits) as hosts:
            address = str(hosts["b1"].address)
            async with (
                pubweave.connect(address, limits=limits) as publisher,
                pubweave.connect(address, limits=limits, max_queued=50) as subscriber,
            ):
                await publisher.advertise("class = 'T'")
                notifications = await subscriber.subscribe("class = 'T'")
                published = 0

                async def publish() -> None:
                    nonlocal published
                    for number in range(5000):
                        await publisher.publish("T", {"n": number}, b"x" * 50)
                        published += 1

                task = asyncio.create_task(publish())
                await asyncio.sleep(0.5)
                stopped_at = published
                await asyncio.sleep(0.2)
                assert published == stopped_at < 5000
                assert hosts["b1"].broker.counters.holds > 0
                received = [(await anext(notifications)).attributes["n"] for _ in range(5000)]
                assert received == list(range(5000))
                await task

    run(main())


def test_a_client_gets_its_session_back_from_a_broker_that_restarted() -> None:
    async def main() -> None:
        async with (
            overlay(CHAIN) as hosts,
            pubweave.connect(str(hosts["b1"].address)) as publisher,
            pubweave.connect(str(hosts["b3"].address)) as subscriber,
        ):
            await publisher.advertise("class = 'T'")
            notifications = await subscriber.subscribe("class = 'T'")
            config = hosts["b3"].config
            address = hosts["b3"].address
            await hosts["b3"].stop()
            hosts["b3"] = BrokerHost(Settings(replace(config, listen=address)))
            await hosts["b3"].start()
            await until(lambda: hosts["b3"].broker.status(0.0).subscriptions == 1, 20)
            await until(lambda: hosts["b1"].broker.status(0.0).subscriptions == 1, 20)
            await publisher.publish("T", {}, b"after")
            assert (await anext(notifications)).payload == b"after"

    run(main())


def test_what_a_client_did_not_advertise_it_cannot_publish() -> None:
    async def main() -> None:
        async with overlay(ALONE) as hosts, pubweave.connect(str(hosts["b1"].address)) as client:
            await client.advertise("class = 'A' and v > 3")
            with pytest.raises(ValueError, match="advertise"):
                await client.publish("B")
            with pytest.raises(ValueError, match="advertise"):
                await client.publish("A", {"v": 3})
            with pytest.raises(ValueError, match="finite"):
                await client.publish("A", {"v": float("nan")})
            with pytest.raises(ValueError, match="bytes; allowed"):
                await client.publish("A", {"v": 4}, bytes(2 << 20))
            await client.publish("A", {"v": 4})

    run(main())


def test_a_broker_that_is_not_there_is_named() -> None:
    async def main() -> None:
        with pytest.raises(ClientError, match=r"cannot connect: 127\.0\.0\.1:1: "):
            async with pubweave.connect("127.0.0.1:1", timeout_s=0.3):
                pass

    run(main())


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        struct.pack("<IB", 1 << 31, 0),
        struct.pack("<IB", 2, 200) + b"\x90",
        struct.pack("<IB", 3, 16) + b"\x90\x90",
    ],
)
def test_garbage_closes_its_connection_with_a_reason_and_never_the_broker(garbage: bytes) -> None:
    async def main() -> None:
        async with overlay(ALONE) as hosts, pubweave.connect(str(hosts["b1"].address)) as client:
            reader, writer = await asyncio.open_connection(*hosts["b1"].address)
            writer.write(garbage)
            answer = await reader.read()
            assert b"frame" in answer
            writer.close()
            await until(lambda: hosts["b1"].broker.counters.protocol_errors == 1)
            await client.advertise("class = 'T'")
            assert (await client.query("status")).startswith(b'{"broker":"b1"')

    run(main())


def test_brokers_that_are_gone_do_not_keep_a_client_from_the_next() -> None:
    """Pauses grow from round to round, not from address to address."""
    dead = ",".join(f"127.0.0.1:{port}" for port in (1, 2, 3, 4, 5, 6))

    async def main() -> None:
        async with (
            overlay(ALONE) as hosts,
            pubweave.connect(f"{dead},{hosts['b1'].address}", timeout_s=1.5) as client,
        ):
            assert client.broker == "b1"

    run(main())


def test_an_acknowledged_subscription_is_connected_in_its_topic() -> None:
    """b1 and b3 want what b2, between them, does not: they get a link first."""

    async def main() -> None:
        async with (
            overlay(CHAIN, strategy="topic_connected") as hosts,
            pubweave.connect(str(hosts["b1"].address)) as near,
            pubweave.connect(str(hosts["b3"].address)) as far,
        ):
            await near.advertise("class = 'STOCK'")
            quotes = await far.subscribe("class = 'STOCK'")
            assert hosts["b3"].broker.sessions.links["b1"].is_established
            await near.publish("STOCK")
            assert (await anext(quotes)).publisher == near.id

    run(main())


def test_a_client_collects_what_it_was_told_is_lost_to_it() -> None:
    async def main() -> None:
        async with overlay(ALONE) as hosts, pubweave.connect(str(hosts["b1"].address)) as client:
            broker = hosts["b1"].broker
            for count in range(1, MISSED_REMEMBERED + 3):
                told = Missed("x", "pete", count, count == 1)
                broker._outgoing.send(broker.sessions.clients[client.id], told)
            await client.subscribe("class = 'x'")
            await until(lambda: len(client.missed) == MISSED_REMEMBERED)
            assert client.missed_count == sum(range(1, MISSED_REMEMBERED + 3))
            last = client.missed[-1]
            assert (last.topic, last.publisher, last.at_most) == ("x", "pete", False)
            assert last.count == MISSED_REMEMBERED + 2, "the newest are kept"

    run(main())
