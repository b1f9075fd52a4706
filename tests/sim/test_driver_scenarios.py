"""The drivers of runtime on a virtual event loop (``pubweave simulate NAME --drivers``)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from pubweave.cli.lab.simulate import simulate as simulate_verb
from pubweave.drivers.scenarios import DRIVEN
from pubweave.runtime.broker.host import BrokerHost
from pubweave.runtime.entrance.gatekeeper import Gatekeeper
from pubweave.runtime.journal.host import BrokerJournal
from pubweave.runtime.net.connection import Connection
from pubweave.runtime.net.dialer import Dialer
from pubweave.runtime.net.mqtt_connection import UNREAD_FACTOR, MqttSocket
from pubweave.sim.kernel.results import RunResult
from pubweave.sim.simulate import run_seed

DURABILITIES = ("memory", "journal")


def runs(name: str, seeds: range, **options: Any) -> list[RunResult]:
    return [run_seed(DRIVEN[name], seed, **options) for seed in seeds]


def violated(results: list[RunResult]) -> list[tuple[int, tuple[str, ...]]]:
    return [(r.seed, r.violations[:3]) for r in results if r.violations]


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("name", sorted(DRIVEN))
def test_a_few_seeds_hold_and_something_happens(name: str, durability: str) -> None:
    results = runs(name, range(4), durability=durability)
    assert not violated(results)
    for count in ("due", "deliveries", "resets", "cuts", "pauses"):
        assert sum(result.counts.get(count, 0) for result in results) > 0
    if durability == "journal":
        assert sum(result.counts["excused"] for result in results) == 0


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("mqtt", 5),  # a resumed session was cut off for what was in flight, for ever
    ],
)
def test_seeds_that_found_something(name: str, seed: int) -> None:
    assert not violated(runs(name, range(seed, seed + 1)))


@pytest.mark.slow
@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("name", sorted(DRIVEN))
def test_many_seeds_hold(name: str, durability: str) -> None:
    results = runs(name, range(100, 200), durability=durability)
    assert not violated(results)
    assert sum(result.counts.get("crashes", 0) for result in results) > 20


@pytest.mark.parametrize("name", sorted(DRIVEN))
def test_another_process_with_other_hashes_writes_the_same_trace(name: str) -> None:
    code = (
        "from pubweave.drivers.scenarios import DRIVEN; "
        "from pubweave.sim.simulate import run_seed; "
        "from pubweave.sim.kernel.trace import Trace; "
        f"run_seed(DRIVEN[{name!r}], 3); "  # what ran before must not matter
        f"print(run_seed(DRIVEN[{name!r}], 5, durability='journal', trace=Trace()).trace_digest)"
    )
    digests = set()
    for hash_seed, before in (("1", True), ("2", False)):
        run = subprocess.run(
            [sys.executable, "-c", code if before else code.replace(", 3)", ", 4)")],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(run.stdout)
    assert len(digests) == 1


def test_the_verb_runs_them() -> None:
    runner = CliRunner()
    found = runner.invoke(
        simulate_verb, ["routing", "--drivers", "--seeds", "1", "--jobs", "1", "--json"]
    )
    document = json.loads(found.output.splitlines()[-1])
    assert (document["runs"], document["failed_runs"]) == (1, 0)
    traced = runner.invoke(simulate_verb, ["mqtt", "--drivers", "--seed", "1", "--trace"])
    assert "dials 10.0.0." in traced.output
    refused = runner.invoke(simulate_verb, ["churn", "--drivers"])
    assert refused.exit_code == 2
    assert "--drivers is there for mqtt and routing" in refused.output


# --- mistakes in drivers that they must find -------------------------------------------------


def drop_the_second_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that ends within a frame loses what was read."""
    feed = Connection.data_received

    def data_received(self: Connection, data: bytes) -> None:
        feed(self, data)
        if self._decoder.is_unfinished:
            self._decoder._pieces = []

    monkeypatch.setattr(Connection, "data_received", data_received)


def dial_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dialer does not wake up when its connection is lost."""

    def connection_closed(self: Dialer, connection: Connection) -> None:
        self._owner.connection_closed(connection)

    monkeypatch.setattr(Dialer, "connection_closed", connection_closed)


def leave_connections_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that stops leaves connections to themselves."""
    monkeypatch.setattr(Connection, "close", lambda self, reason: None)


def go_on_listening(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gatekeeper, "close", lambda self: None)


def let_effects_go_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for the journal."""

    def noted(self: BrokerJournal, event: Any, now: float, effects: list[Any]) -> list[Any]:
        before(self, event, now, [])
        return effects

    before = BrokerJournal.noted
    monkeypatch.setattr(BrokerJournal, "noted", noted)


def count_publications_as_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 5 of mqtt: a client is cut off for what it is resumed with."""
    write = MqttSocket.write

    def writes(self: MqttSocket, packets: Any) -> None:
        write(self, packets)
        transport = self._transport
        if transport and transport.get_write_buffer_size() > UNREAD_FACTOR * self._unread_bytes:
            self.abort()

    monkeypatch.setattr(MqttSocket, "write", writes)


def raise_sometimes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A callback that fails where nobody waits for it."""
    before = BrokerHost._on_deadline

    def on_deadline(self: BrokerHost) -> None:
        before(self)
        if len(self._connections) > 1:
            raise KeyError("a bug")

    monkeypatch.setattr(BrokerHost, "_on_deadline", on_deadline)


Mistake = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize(
    ("name", "seeds", "durability", "mistake"),
    [
        ("routing", range(3), "memory", drop_the_second_read),
        ("routing", range(3), "memory", dial_no_more),
        ("routing", range(3), "memory", leave_connections_open),
        ("routing", range(1), "memory", go_on_listening),
        ("routing", range(20), "journal", let_effects_go_too_early),
        ("routing", range(1), "memory", raise_sometimes),
        ("mqtt", range(5, 6), "memory", count_publications_as_unread),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_mistake_of_a_driver_is_found(
    name: str,
    seeds: range,
    durability: str,
    mistake: Mistake,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mistake(monkeypatch)
    assert any(run_seed(DRIVEN[name], seed, durability=durability).violations for seed in seeds)
