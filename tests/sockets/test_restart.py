"""A broker that dies without a journal and is started again: what it never had is not lost."""

from __future__ import annotations

import asyncio

import pytest

import pubweave
from pubweave.model.topology import Topology
from pubweave.runtime.broker.host import BrokerHost
from pubweave.runtime.client.client import Client
from pubweave.runtime.net.addresses import Address
from tests.sockets.harness import overlay, run, settings_of, until

pytestmark = pytest.mark.sockets

CHAIN = Topology.from_links([("b1", "b2"), ("b2", "b3")])


async def die(host: BrokerHost) -> Address:
    """End as kill -9 would: connections break, nothing is said. Where it listened."""
    address = host.address
    host._timer.cancel()
    for dialer in host._dialers.values():
        await dialer.stop()
    host._doorway.close()
    for connection in list(host._connections.values()):
        connection.abort()
    return address


async def reborn(address: Address, neighbor: BrokerHost) -> BrokerHost:
    """A fresh b1 in the place of a dead one."""
    again = BrokerHost(settings_of("b1", listen=address, neighbors={"b2": neighbor.address}))
    await again.start()
    return again


async def publish_numbers(client: Client, numbers: range) -> None:
    for number in numbers:
        await client.publish("T", {"n": number})


@pytest.mark.parametrize("waits_s", [0.0, 0.3])
def test_what_a_publisher_still_had_reaches_everybody(waits_s: float) -> None:
    """The publisher comes back before the links do, and its own neighbor's subscriber, too."""

    async def main() -> None:
        async with (
            overlay(CHAIN) as hosts,
            pubweave.connect(str(hosts["b1"].address)) as publisher,
            pubweave.connect(str(hosts["b1"].address)) as near,
            pubweave.connect(str(hosts["b3"].address)) as far,
        ):
            await publisher.advertise("class = 'T'")
            close, distant = await near.subscribe("class = 'T'"), await far.subscribe("class = 'T'")
            await until(lambda: hosts["b1"].broker.status(0.0).subscriptions == 2)
            await publish_numbers(publisher, range(10))
            await until(lambda: close.queued == distant.queued == 10)
            await publisher.flush()
            address = await die(hosts["b1"])
            await publish_numbers(publisher, range(10, 60))
            await asyncio.sleep(waits_s)
            hosts["b1"] = await reborn(address, hosts["b2"])
            await publish_numbers(publisher, range(60, 80))
            await publisher.flush()
            await until(lambda: distant.queued == 80 and close.queued == 80)
            for subscription in (close, distant):
                assert [n.attributes["n"] for n in subscription.take_all()] == list(range(80))

    run(main())


def test_what_neighbors_send_for_a_client_that_is_not_back_yet_waits_for_it() -> None:
    async def main() -> None:
        async with (
            overlay(CHAIN) as hosts,
            pubweave.connect(str(hosts["b3"].address)) as publisher,
            pubweave.connect(str(hosts["b1"].address)) as subscriber,
        ):
            await publisher.advertise("class = 'T'")
            got = await subscriber.subscribe("class = 'T'")
            await until(lambda: hosts["b3"].broker.status(0.0).subscriptions == 1)
            await subscriber._dialer.stop()  # it will dial again only when it is told
            address = await die(hosts["b1"])
            hosts["b1"] = await reborn(address, hosts["b2"])
            await publish_numbers(publisher, range(30))
            await publisher.flush()
            await until(lambda: hosts["b1"].broker.counters.publications_in == 30)
            subscriber._dialer.start()
            await until(lambda: got.queued == 30)
            assert [n.attributes["n"] for n in got.take_all()] == list(range(30))

    run(main())


def test_who_goes_on_elsewhere_waits_until_its_subscribers_are_known_there() -> None:
    """b3 knows no subscription before the publisher of b1 advertises there."""
    star = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b2", "b4")])

    async def main() -> None:
        async with overlay(star) as hosts:
            addresses = f"{hosts['b1'].address},{hosts['b3'].address}"
            async with (
                pubweave.connect(addresses) as publisher,
                pubweave.connect(str(hosts["b4"].address)) as subscriber,
            ):
                await publisher.advertise("class = 'T'")
                got = await subscriber.subscribe("class = 'T'")
                await until(lambda: hosts["b1"].broker.status(0.0).subscriptions == 1)
                assert hosts["b3"].broker.status(0.0).subscriptions == 0
                await die(hosts["b1"])
                await publish_numbers(publisher, range(50))
                await publisher.flush()
                assert publisher.broker == "b3"
                await until(lambda: got.queued == 50)
                assert [n.attributes["n"] for n in got.take_all()] == list(range(50))

    run(main())
