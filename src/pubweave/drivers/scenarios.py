"""Scenarios that run drivers, by the names of those that run cores alone."""

from __future__ import annotations

from pubweave.drivers.mqtt import DrivenMqttClients
from pubweave.drivers.native import NativeClients
from pubweave.drivers.run import DriverRun, DriverSetting
from pubweave.sim.kernel.world import World
from pubweave.sim.parts.run import Options
from pubweave.sim.scenarios.scenario import Scenario


def routing(world: World, options: Options) -> DriverRun:
    setting = DriverSetting.draw(world, options.max_brokers)
    run = DriverRun("routing", world, options, setting)
    run.workload = NativeClients(run)
    return run


def mqtt(world: World, options: Options) -> DriverRun:
    setting = DriverSetting.draw(world, options.max_brokers)
    run = DriverRun("mqtt", world, options, setting, with_mqtt=True)
    run.workload = DrivenMqttClients(run)
    return run


DRIVEN = {
    "mqtt": Scenario(
        "MQTT clients at the doors of brokers with their drivers, on a virtual event loop",
        mqtt,
        max_brokers=4,
        takes=frozenset(("durability", "pause_s")),
    ),
    "routing": Scenario(
        "native clients and brokers with their drivers, on a virtual event loop",
        routing,
        max_brokers=5,
        takes=frozenset(("durability", "pause_s")),
    ),
}
