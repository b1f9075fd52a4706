"""A broker is taken out of a running overlay by a plan: its MQTT sessions go on elsewhere."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pubweave.model.files.plan import PlanRecord, topology_hash, write_plan
from pubweave.model.plans import Detach, Plan
from pubweave.model.topology import Topology
from tests.contract.zookeeper_users import needs_zookeeper
from tests.integration.live_overlay import LiveOverlay
from tests.interop.mqtt_brokers import free_ports, program_or_skip

pytestmark = [pytest.mark.slow, pytest.mark.sockets, needs_zookeeper()]
BEFORE = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b2", "b4")])
AFTER = Topology.from_links([("b1", "b2"), ("b2", "b3")])
LEAVE_LIMIT_S = 8.0
"""Less than `clients_leave_s`: a broker whose sessions have gone does not wait for more."""
COUNT = 40
VERSIONS = {"old": "mqttv311", "new": "mqttv5"}


@pytest.fixture(params=["memory", "journal"])
def overlay(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[LiveOverlay, int]]:
    """With doors at a port and those behind it."""
    (port,) = free_ports(1)
    doors = ("--mqtt", f"127.0.0.1:{port}", "--durability", request.param)
    live = LiveOverlay(tmp_path, BEFORE, further=doors)
    yield live, port
    live.close()


def publish(port: int, payloads: range) -> None:
    command = [program_or_skip("mosquitto_pub", "mosquitto-clients"), "-p", str(port), "-q", "1"]
    lines = "".join(f"{payload}\n" for payload in payloads)
    subprocess.run([*command, "-t", "a/b", "-l"], input=lines, text=True, check=True, timeout=20)


def fetch(client: str, port: int, count: int) -> list[int]:
    """What a client gets that connects with its session, and goes."""
    version = VERSIONS[client]
    command = [program_or_skip("mosquitto_sub", "mosquitto-clients"), "-p", str(port)]
    command += ["-V", version, "-i", client, "-c", "-q", "1", "-t", "a/+", "-W", "3"]
    command += ["-x", "600"] if version == "mqttv5" else []
    command += ["-C", str(count)] if count else ["-E"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    return [int(line) for line in done.stdout.split()]


def test_absent_clients_find_their_sessions_elsewhere(overlay: tuple[LiveOverlay, int]) -> None:
    live, port = overlay
    for client in VERSIONS:
        fetch(client, port + 3, 0)  # subscribes at b4
    publish(port, range(COUNT))
    plan = live.directory / "plan.json"
    hashes = {"source_hash": topology_hash(BEFORE), "target_hash": topology_hash(AFTER)}
    write_plan(PlanRecord(Plan(((Detach("b4", "b2"),),)), **hashes), plan)
    began = time.monotonic()
    done = live.run("apply", str(plan), "--json")
    assert json.loads(done.stdout.splitlines()[-1])["state"] == "done", done.stderr
    assert time.monotonic() - began < LEAVE_LIMIT_S
    publish(port, range(COUNT, 2 * COUNT))
    for client, door in (("new", port), ("old", port + 2)):
        assert fetch(client, door, 2 * COUNT) == list(range(2 * COUNT)), client
