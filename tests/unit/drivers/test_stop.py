"""A broker host stops while an MQTT client does not read."""

from __future__ import annotations

from pubweave.drivers.mqtt_client import PlainMqttClient
from pubweave.drivers.overlay import MQTT_PORT, DrivenOverlay
from pubweave.model.topology import Topology
from pubweave.runtime.net.addresses import Address
from pubweave.sim.eventloop.loop import VirtualLoop
from pubweave.sim.kernel.disk import DiskSetting
from pubweave.sim.kernel.world import World
from pubweave.wire.mqtt.codec import V5


def test_nobody_who_does_not_read_keeps_a_stopped_broker_s_connection_open() -> None:
    world = World(1)
    loop = VirtualLoop(world)
    loop.network.capacity = (5_000, 5_000)
    alone = Topology.from_links([], brokers=["b1"])
    overlay = DrivenOverlay(
        loop,
        alone,
        DiskSetting(),
        is_durable=False,
        window_bytes=1 << 20,
        mqtt_unread_bytes=1 << 15,
    )
    broker = overlay.brokers["b1"]
    door = Address(broker.address.host, MQTT_PORT)
    names = ("reader", "speaker")
    clients = [PlainMqttClient(name, door, V5, world, lambda packet: None) for name in names]
    processes = [loop.spawn(name, f"10.0.1.{n}") for n, name in enumerate(names)]
    (reader, speaker), (of_reader, of_speaker) = clients, processes
    with loop.running():
        overlay.start()
        world.run_until(1.0)
        for client, process in zip(clients, processes, strict=True):
            loop.begin(process, client.live())
        world.run_until(2.0)
        loop.call_soon(reader.subscribe, "a", 1, context=of_reader.context)
        world.run_until(3.0)
        loop.call_soon(reader.read_nothing_for, 1e6, context=of_reader.context)
        for _ in range(20):
            loop.call_soon(speaker.publish, "a", bytes(1_000), 1, context=of_speaker.context)
        world.run_until(4.0)
        assert len(broker.process.transports) == 2
        overlay.stop()
        world.run_until(10.0)
    assert overlay.has_stopped
    assert not broker.process.transports
    assert not broker.process.tasks
    assert not loop.network.listening
    assert not loop.faults
