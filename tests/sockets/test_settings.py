"""What a file says arrives in the processes that brokers are."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pubweave.model.files.topology import write_topology
from pubweave.model.ids import Link
from pubweave.model.topology import Topology
from pubweave.runtime.security.directory import SecurityDirectory
from pubweave.runtime.security.setup import SecuritySetup
from pubweave.runtime.settings.text import Keys, dotted, plain, to_toml
from tests.settings_values import changed

pytestmark = pytest.mark.sockets
LIVES_S = "2"


def values(folder: Path) -> dict[Keys, Any]:
    """Other values than the defaults, as far as one broker can have them all."""
    found = {keys: value for keys, value in changed().items() if keys[:2] != ("broker", "security")}
    secure = SecurityDirectory(folder / "secure")
    list(SecuritySetup(secure, datetime.datetime.now(datetime.UTC)).create(["b1", "b2"], ["ann"]))
    found["broker", "security", "directory"] = Path("secure")
    for table in ("store", "autopilot", "placement", "overlay", "output"):
        found = {keys: value for keys, value in found.items() if keys[0] != table}
    found["self_organizing", "enabled"] = False  # needs a store
    found["broker", "strategy"] = "tree_covering"
    for keys in (("self_organizing", "prices"), ("broker", "topics", "ring")):
        del found[keys]
    return found


def expected(values: dict[Keys, Any]) -> dict[str, Any]:
    return {dotted(keys): plain(value) for keys, value in values.items() if value is not False}


def run(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pubweave", *arguments]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PUBWEAVE_")}
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def switches(settings: dict[str, Any], given: dict[Keys, Any]) -> dict[str, Any]:
    """Without what is off: defaults among them are not reported."""
    off = {dotted(keys) for keys, value in given.items() if value is False}
    return {name: value for name, value in settings.items() if name not in off}


def test_a_broker_reports_every_setting_of_its_file(tmp_path: Path) -> None:
    given = values(tmp_path) | {
        ("broker", "id"): "b1",
        ("broker", "listen"): "127.0.0.1:0",
        ("broker", "mqtt", "listen"): "127.0.0.1:0",
        ("broker", "neighbors", "b.9"): "127.0.0.1:1",
    }
    (tmp_path / "broker.toml").write_text(to_toml(given))
    process = subprocess.Popen(
        [sys.executable, "-m", "pubweave", "broker", "--config", "broker.toml", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == 0
    wanted = expected(given) | {"output.json": True}
    assert switches(said["settings"], given) == wanted


def test_brokers_of_an_overlay_report_what_the_overlays_file_says(tmp_path: Path) -> None:
    pair = Topology(frozenset({"b1", "b2"}), frozenset({Link("b1", "b2")}))
    write_topology(pair, tmp_path / "pair.json")
    given = values(tmp_path)
    for key in ("id", "listen", "advertise", "neighbors", "rendezvous"):
        given = {keys: value for keys, value in given.items() if keys[:2] != ("broker", key)}
    given["broker", "mqtt", "listen"] = "127.0.0.1:0"
    own = {("brokers", "b2", "tick_s"): 7.25, ("brokers", "b2", "mqtt", "address"): "there:1"}
    (tmp_path / "overlay.toml").write_text(to_toml(given | own))
    limits = ["--duration", LIVES_S, "--port", "0", "--no-zookeeper", "-q"]
    run(tmp_path, "up", "pair.json", "--config", "overlay.toml", *limits)
    for broker in ("b1", "b2"):
        log = (tmp_path / f"runs/current/logs/{broker}.log").read_text()
        [line] = [line for line in log.splitlines() if " settings: " in line]
        said = json.loads(line.partition(" settings: ")[2])
        wanted = expected(given)
        if broker == "b2":
            wanted |= {"broker.tick_s": 7.25, "broker.mqtt.address": "there:1"}
        # These are worked out for each broker.
        worked_out = {"broker.mqtt.listen", "broker.journal.directory"}
        differing = {k for k, value in wanted.items() if said.get(k) != value} - worked_out
        assert not differing, {k: (said.get(k), wanted[k]) for k in differing}
        assert said["broker.journal.directory"] == f"some/file/{broker}"
        assert said["broker.id"] == broker
