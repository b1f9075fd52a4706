"""A small overlay for tests of the control loop: evidence, settings, a store, records."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import msgspec
import numpy as np

from pubweave.control.alternatives import Allowed, Option, weigh
from pubweave.control.evidence import Evidence
from pubweave.control.settings import ControlSettings
from pubweave.deploy.commands import create_topology
from pubweave.deploy.documents import Layout
from pubweave.deploy.memory_store import MemoryStore
from pubweave.design.tree.traffic import Prices, Traffic
from pubweave.model.decisions import (
    Alternative,
    ControlMode,
    DecisionRecord,
    DecisionState,
    Verdict,
)
from pubweave.model.ids import Link
from pubweave.model.topology import Topology
from pubweave.sim.autopilot.day import plan_quickly

LAYOUT = Layout("demo")
BROKERS = ("b1", "b2", "b3", "b4", "b5", "b6")
CHAIN = Topology.from_links(pairwise(BROKERS))
PROCESSING = dict.fromkeys(BROKERS, 1.0)
LATENCY = {Link.between(a, b): 10.0 for a, b in combinations(BROKERS, 2)}
FAR = [(("b1", "b6"), 3000.0), (("b2", "b3"), 300.0)]
"""Most notifications go from one end of the chain to the other."""


def evidence(**changed: Any) -> Evidence:
    """A minute of traffic that the chain carries badly."""
    known = Evidence(
        profile_id="run@0-60",
        window_started_at=0.0,
        window_ended_at=60.0,
        topology=CHAIN,
        traffic=Traffic.of(BROKERS, FAR),
        prices=Prices.of(PROCESSING, LATENCY),
        entries=dict.fromkeys(BROKERS, 10.0),
    )
    return replace(known, **changed)


def options_for(
    seen: Evidence, settings: ControlSettings, allowed: Allowed | None = None
) -> tuple[Option, ...]:
    return weigh(
        seen,
        settings,
        plan_quickly,
        allowed=allowed or Allowed(),
        stop=lambda: False,
        rng=np.random.default_rng(0),
    )


def record(id_: str, state: DecisionState, **known: Any) -> DecisionRecord:
    """A decision as the store may hold it."""
    made = DecisionRecord(
        id=id_,
        overlay="demo",
        decided_at=100.0,
        mode=ControlMode.APPROVE,
        verdict=Verdict.STAY if state is DecisionState.CLOSED else Verdict.CHANGE,
        reason="because",
        state=state,
    )
    return msgspec.structs.replace(made, **known)


def with_links(count: int) -> dict[str, Any]:
    """What a record knows of a change of so many links."""
    links = tuple((f"x{n}", f"y{n}") for n in range(count))
    chosen = Alternative(name="global", cost_ms_per_s=1.0, added_links=links)
    return {"alternatives": (chosen,), "chosen": "global"}


class Store:
    """The memory store with one user who runs scripts."""

    def __init__(self, topology: Topology = CHAIN) -> None:
        self.memory = MemoryStore()
        self.session = self.memory.open()
        self.run(create_topology(LAYOUT, topology))

    def run(self, script: Any) -> Any:
        try:
            request = next(script)
            while True:
                request = script.send(self.memory.handle(self.session, request))
        except StopIteration as finished:
            return finished.value
