"""`Broker.handle` is the only way to change a broker: drivers read, and tell what they know.

Twice: the sources of drivers are searched for what writes or calls through a broker, and a broker
is watched in simulation: between two events nothing of its state changes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from pubweave.core.broker import Broker
from pubweave.core.journal.snapshot import take_snapshot
from pubweave.core.vocabulary.effects import Effect
from pubweave.core.vocabulary.events import Event
from pubweave.sim.simulate import run_seed

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "pubweave"
DRIVERS = ("runtime", "sim", "autopilot", "experiments", "cli")
BROKERS = {"broker", "_broker", "core", "known_core"}
"""Names of what is a broker, or in the simulator a broker's node or a client's core, too."""
NODES = {"encode", "journal", "links", "world"}
"""What a node of the simulation, or a broker's name, has and a broker has not."""
CLIENTS = {"advertisements", "answers", "session", "subscriptions"}
"""What a client's core has and a broker has not."""
READS = {
    *("contacts", "get", "handles", "has_stale", "items", "keys", "last_sequence", "may_go"),
    *("next_deadline", "of", "part", "status", "values"),
}
"""Methods that change nothing; what this says of them is checked by the watch below."""


def chain(node: ast.expr) -> list[str]:
    """`a.b[0].c()` as its names: a, b, c."""
    names: list[str] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
        elif not isinstance(node, ast.Subscript | ast.Call):
            return names[::-1]
        node = node.func if isinstance(node, ast.Call) else node.value
    return [node.id, *names[::-1]]


def through_broker(node: ast.expr) -> list[str]:
    """What is reached through something that a broker has; empty if nothing is. An attribute of a
    broker's own is none of it: there is no such method but `handle` that changes anything."""
    names = chain(node)
    while any(name in BROKERS for name in names):
        names = names[next(i for i, name in enumerate(names) if name in BROKERS) + 1 :]
        if len(names) > 1 and names[0] not in NODES | CLIENTS and names[0] not in BROKERS:
            return names
    return []


def intrusions(source: str) -> Iterator[tuple[int, str]]:
    """Lines of a driver that write to what a broker has, or call what may change it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            if through_broker(node):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Call):
            names = through_broker(node.func)
            if names and names[-1] not in READS:
                yield node.lineno, ast.unparse(node.func)


def test_drivers_change_a_broker_by_events_only() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {what}"
        for name in DRIVERS
        for path in sorted((PACKAGE / name).rglob("*.py"))
        for line, what in intrusions(path.read_text())
    ]
    assert not found, "tell the broker by an event (core/vocabulary/events.py):\n" + "\n".join(
        found
    )


@pytest.mark.parametrize(
    "line",
    [
        "self.broker.counters.protocol_errors += 1",
        "host.broker.sessions.address = 'x'",
        "node.core.sessions.links['b2'] = link",
        "del node.broker.sessions.clients['ann']",
        "broker.counters.refused = 0",
        "self.broker.sessions.access.count(refusal)",
        "core.part(Organizer).pause(True)",
        "node.core.sessions.clients.pop('ann')",
    ],
)
def test_an_intrusion_is_found(line: str) -> None:
    assert list(intrusions(line))


@pytest.mark.parametrize(
    "line",
    [
        "effects = self.broker.handle(event, now)",
        "links = list(node.core.sessions.links.values())",
        "status = host.broker.status(now)",
        "broker.crash_in = None",
        "self.broker.journal.disk.heal()",
        "client.core.publish('T', {}, b'', now)",
    ],
)
def test_reading_and_telling_are_none(line: str) -> None:
    assert not list(intrusions(line))


EVERY = 97
"""The state is compared around one event of so many."""


@pytest.mark.parametrize("scenario", ["churn", "mqtt", "rendezvous", "relocate", "routing"])
def test_nothing_changes_a_broker_between_events(
    scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = Broker.handle
    kept: dict[int, tuple[Broker, bytes]] = {}
    events = compared = 0

    def watched(broker: Broker, event: Event, now: float) -> list[Effect]:
        nonlocal events, compared
        events += 1
        if id(broker) in kept:
            same, before = kept.pop(id(broker))
            assert same is broker
            assert take_snapshot(broker) == before, f"changed before {event}"
            compared += 1
        effects = handle(broker, event, now)
        if events % EVERY == 0:
            kept[id(broker)] = broker, take_snapshot(broker)
        return effects

    monkeypatch.setattr(Broker, "handle", watched)
    result = run_seed(scenario, 0, max_brokers=6)
    assert not result.violations
    assert compared > 10
