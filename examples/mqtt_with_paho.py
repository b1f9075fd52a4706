"""MQTT clients at pubweave's brokers, with the ordinary client library paho.

    pip install paho-mqtt
    python examples/mqtt_with_paho.py

The subscriber is at another broker than the publisher, and asks for large volumes only: the user
property `filter` of MQTT 5 is a content filter on the attributes of a JSON payload.
"""

import asyncio
import queue
import tempfile
from dataclasses import replace
from pathlib import Path

from paho.mqtt import client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

import pubweave


async def main(folder: Path) -> None:
    topology = pubweave.Topology.from_links([("b1", "b2")])
    spec = pubweave.make_spec(topology, base_port=0)
    spec = replace(spec, mqtt=dict.fromkeys(spec.brokers, pubweave.Address("127.0.0.1", 0)))
    async with pubweave.Overlay(spec, pubweave.RunDirectory(folder), in_process=True) as overlay:
        ports = {broker: address.port for broker, address in overlay.spec.mqtt.items()}
        await asyncio.to_thread(trade, ports)


def trade(ports: dict[str, int]) -> None:
    received: queue.Queue[str] = queue.Queue()
    subscribed: queue.Queue[bool] = queue.Queue()
    subscriber, publisher = (
        mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5) for _ in range(2)
    )
    subscriber.on_message = lambda *given: received.put(given[2].payload.decode())
    subscriber.on_subscribe = lambda *given: subscribed.put(True)
    subscriber.connect("127.0.0.1", ports["b1"])
    publisher.connect("127.0.0.1", ports["b2"])
    for client in (subscriber, publisher):
        client.loop_start()
    wish = Properties(PacketTypes.SUBSCRIBE)
    wish.UserProperty = ("filter", "volume > 1000")
    subscriber.subscribe("stocks/#", qos=1, properties=wish)
    subscribed.get(timeout=10)
    for volume in (500, 2000):
        publisher.publish("stocks/ACME", f'{{"volume": {volume}}}', qos=1).wait_for_publish(10)
    print("received:", received.get(timeout=10))
    for client in (subscriber, publisher):
        client.disconnect()
        client.loop_stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
