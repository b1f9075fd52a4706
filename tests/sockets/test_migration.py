"""Clients that are moved to other brokers while they publish and subscribe, over real sockets."""

from __future__ import annotations

import asyncio
import json

import pytest

import pubweave
from pubweave.core.migration.coordinator import MigrationCoordinator
from pubweave.core.vocabulary.events import AddressKnown, MigrationRequested
from pubweave.model.topology import Topology
from pubweave.runtime.broker.host import BrokerHost
from pubweave.runtime.client.client import Client
from tests.sockets.harness import overlay, run, until

pytestmark = pytest.mark.sockets

FIVE = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b3", "b4"), ("b3", "b5")])


async def publish_steadily(client: Client, count: int) -> None:
    for number in range(count):
        await client.publish("T", {"n": number})
        if number % 20 == 0:
            await asyncio.sleep(0.002)
    await client.flush()


def move(hosts: dict[str, BrokerHost], client: Client, destination: str) -> None:
    hosts[client.broker].handle(MigrationRequested(client.id, destination))


def test_a_publisher_and_a_subscriber_are_moved_under_traffic_and_notice_nothing() -> None:
    async def main() -> None:
        async with (
            overlay(FIVE) as hosts,
            pubweave.connect(str(hosts["b1"].address), client_id="pub") as publisher,
            pubweave.connect(str(hosts["b4"].address), client_id="sub") as subscriber,
            pubweave.connect(str(hosts["b5"].address), client_id="still") as still,
        ):
            await publisher.advertise("class = 'T'")
            moving, staying = await subscriber.subscribe("*"), await still.subscribe("*")
            await until(lambda: hosts["b1"].broker.status(0.0).subscriptions == 2)
            traffic = asyncio.create_task(publish_steadily(publisher, 2000))
            for client, destination in [
                (publisher, "b4"),
                (subscriber, "b1"),
                (publisher, "b5"),
                (subscriber, "b2"),
            ]:
                move(hosts, client, destination)
                await until(lambda: client.broker == destination and client.is_connected)  # noqa: B023
                await asyncio.sleep(0.02)
            await traffic
            await until(lambda: moving.queued == 2000 and staying.queued == 2000)
            for subscription in (moving, staying):
                numbers = [n.attributes["n"] for n in subscription.take_all()]
                assert numbers == list(range(2000))
            assert [m.broker for m in publisher.moves] == ["b4", "b5"]
            assert [m.hops for m in publisher.moves] == [3, 2]
            assert all(0 < m.wait_s < 5 for m in [*publisher.moves, *subscriber.moves])
            assert publisher.refused == subscriber.refused == 0
            tables = {name: host.broker.status(0.0) for name, host in hosts.items()}
            assert tables["b5"].subscriptions == 2  # the publisher is here
            assert tables["b1"].subscriptions == 0  # and nobody here wants or offers anything
            assert tables["b1"].client_count == 0

    run(main())


def test_an_operator_asks_a_broker_and_is_answered() -> None:
    async def main() -> None:
        async with (
            overlay(FIVE) as hosts,
            pubweave.connect(str(hosts["b1"].address), client_id="pub") as client,
            pubweave.connect(str(hosts["b1"].address), client_id="$operator") as operator,
        ):
            await client.advertise("class = 'T'")
            request = json.dumps({"client": "pub", "destination": "b5"})
            answer = json.loads(await operator.query(f"relocate {request}"))
            assert answer == {"client": "pub", "destination": "b5"}
            await until(lambda: client.broker == "b5" and client.is_connected)
            status = json.loads(await operator.query("status"))["migrations"]
            assert (status["done"], status["last_hops"]) == (1, 3)
            answer = json.loads(await operator.query(f"relocate {request}"))
            assert "has no client pub" in answer["error"]
            assert "error" in json.loads(await operator.query("relocate nonsense"))

    run(main())


def test_a_client_that_cannot_reach_the_new_broker_stays() -> None:
    async def main() -> None:
        async with (
            overlay(FIVE) as hosts,
            pubweave.connect(str(hosts["b1"].address), client_id="pub") as client,
        ):
            await client.advertise("class = 'T'")
            hosts["b5"].handle(AddressKnown("127.0.0.1:1"))  # nobody listens there
            move(hosts, client, "b5")
            migrations = hosts["b1"].broker.part(MigrationCoordinator)
            assert migrations is not None
            await until(lambda: migrations.counted().refused == 1)
            assert "cannot reach" in migrations.counted().last
            await publish_steadily(client, 10)
            assert client.broker == "b1"
            await until(
                lambda: all(h.broker.part(MigrationCoordinator).is_idle for h in hosts.values())
            )  # type: ignore[union-attr]

    run(main())
