"""Broker processes of a run: started, stopped, killed and started again on the same disk."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from pubweave.core.config.session import SessionLimits
from pubweave.drivers.machine import VirtualMachine
from pubweave.model.ids import BrokerId
from pubweave.model.topology import Topology
from pubweave.runtime.broker.host import BrokerHost
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.settings.tree import BrokerTable, JournalTable, MqttTable, Settings
from pubweave.sim.eventloop.loop import VirtualLoop
from pubweave.sim.eventloop.process import SimProcess
from pubweave.sim.kernel.disk import DiskSetting, SimDisk

PORT, MQTT_PORT = 7001, 1883
MAX_FRAME_BYTES = 1 << 16
"""Small, so that what may pile up unread is, too."""


@dataclass
class DrivenBroker:
    """One broker: its settings and disk last, its process does not."""

    settings: Settings
    disk: SimDisk
    process: SimProcess
    host: BrokerHost | None = None
    life: asyncio.Task[None] | None = None
    stopping: asyncio.Future[None] | None = None
    is_down: bool = False
    crashes: list[float] = field(default_factory=list)

    @property
    def address(self) -> Address:
        assert self.settings.broker.listen is not None
        return self.settings.broker.listen


class DrivenOverlay:
    """All brokers of a topology, each in a process on a host of its own."""

    def __init__(
        self,
        loop: VirtualLoop,
        topology: Topology,
        disks: DiskSetting,
        *,
        is_durable: bool,
        window_bytes: int,
        mqtt_unread_bytes: int | None,
    ) -> None:
        """``mqtt_unread_bytes``: brokers have a door for MQTT clients, which may leave so much
        unread."""
        self.loop = loop
        self.is_durable = is_durable
        self._disks = disks
        hosts = {name: f"10.0.0.{n + 1}" for n, name in enumerate(sorted(topology.brokers))}
        self.brokers: dict[BrokerId, DrivenBroker] = {}
        for name, host in hosts.items():
            near = {other: Address(hosts[other], PORT) for other in topology.neighbors[name]}
            broker = BrokerTable(
                id=name,
                listen=Address(host, PORT),
                neighbors=dict(sorted(near.items())),
                durability="journal" if is_durable else "memory",
                journal=JournalTable(Path("journal") if is_durable else None),
                mqtt=_door(host, mqtt_unread_bytes),
                limits=SessionLimits(window_bytes, window_bytes, window_bytes // 4),
                max_frame_bytes=MAX_FRAME_BYTES,
            )
            process = loop.spawn(name, host)
            self.brokers[name] = DrivenBroker(Settings(broker), SimDisk(loop.world), process)

    def start(self) -> None:
        for broker in self.brokers.values():
            self._start(broker)

    def _start(self, broker: DrivenBroker) -> None:
        broker.is_down = False
        broker.life = self.loop.begin(broker.process, self._live(broker))

    async def _live(self, broker: DrivenBroker) -> None:
        machine = VirtualMachine(self.loop, broker.process, broker.disk, self._disks)
        broker.host = host = BrokerHost(broker.settings, machine=machine)
        broker.stopping = self.loop.create_future()
        await host.start()
        await broker.stopping
        await host.stop()

    def crash(self, broker: DrivenBroker, *, with_machine: bool) -> None:
        """Kill a broker's process, or all of its machine."""
        world = self.loop.world
        world.note(broker.process.name, "machine fails" if with_machine else "is killed")
        broker.is_down = True
        broker.crashes.append(world.now)
        self.loop.kill(broker.process, with_machine=with_machine)
        if with_machine:
            self.loop.network.set_down(broker.process.host, is_down=True)
            broker.disk.crash()

    def restart(self, broker: DrivenBroker) -> None:
        """Start a killed broker again."""
        name, host = broker.process.name, broker.process.host
        self.loop.world.note(name, "starts again")
        self.loop.network.set_down(host, is_down=False)
        broker.process = self.loop.spawn(name, host)
        self._start(broker)

    def stop(self) -> None:
        """Ask all brokers to stop, as a signal does."""
        for broker in self.brokers.values():
            if broker.stopping is not None:
                self.loop.call_soon(
                    broker.stopping.set_result, None, context=broker.process.context
                )

    @property
    def has_stopped(self) -> bool:
        return all(b.life is not None and b.life.done() for b in self.brokers.values())


def _door(host: str, unread_bytes: int | None) -> MqttTable:
    if unread_bytes is None:
        return MqttTable()
    return MqttTable(
        listen=Address(host, MQTT_PORT),
        max_packet_bytes=MAX_FRAME_BYTES - 4096,
        unread_bytes=unread_bytes,
    )
