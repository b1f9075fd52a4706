"""An overlay that is made up: the source of snapshots for tests of the dashboard.

Traffic follows the clients along the tree, so links near the middle carry more; everything comes
from a seed and from a count of looks, so a test knows what it will see.
"""

from __future__ import annotations

import asyncio
import math

import msgspec
import numpy as np

from pubweave.dashboard.documents import links_after, steps_of
from pubweave.dashboard.snapshot import (
    ActionView,
    Alert,
    BrokerView,
    CommandError,
    DeploymentView,
    LatencyView,
    LinkView,
    Snapshot,
)
from pubweave.generate.topologies.trees import hierarchical_tree
from pubweave.model.decisions import (
    Alternative,
    AutopilotPhase,
    AutopilotStatus,
    ControlMode,
    DecisionInputs,
    DecisionRecord,
    DecisionState,
    Measurement,
    Prediction,
    Verdict,
)
from pubweave.model.deployment import ActionState, DeploymentState
from pubweave.model.files.plan import PlanRecord, plan_to_json
from pubweave.model.ids import Link, natural_order
from pubweave.model.plans import Plan, Shift, Step
from pubweave.model.records.status import CounterStatus
from pubweave.model.topology import Topology

BEGAN_AT = 1_900_000_000.0
RATE_PER_S = 400.0
COST_NOW, COST_THEN = 812.0, 547.0


def make_steps(topology: Topology, step_count: int, rng: np.random.Generator) -> tuple[Step, ...]:
    """Steps of up to three shifts that share no broker; each leads from a tree to a tree."""
    steps = []
    for _ in range(step_count):
        step: list[Shift] = []
        used: set[str] = set()
        for pick in rng.permutation(sorted(topology.brokers)).tolist():
            if len(step) == 3 or pick in used:
                continue
            old = str(rng.choice(topology.neighbors[pick]))
            beyond = [b for b in topology.neighbors[old] if b != pick]
            if not beyond or used & {old, *beyond}:
                continue
            shift = Shift(pick, old, str(rng.choice(beyond)))
            step.append(shift)
            used.update(shift.brokers)
        steps.append(tuple(step))
        topology = Topology(topology.brokers, links_after(topology.links, [tuple(step)]))
    return tuple(steps)


class MadeOverlay:
    """A source of snapshots and a taker of commands. Every snapshot is one second later."""

    def __init__(self, broker_count: int, seed: int = 1, began_at: float = BEGAN_AT) -> None:
        rng = np.random.default_rng(seed)
        self.topology = hierarchical_tree(broker_count, 6, True, rng)
        self.rng = rng
        self.began_at = began_at
        self.looks = 0
        self.decisions: list[DecisionRecord] = []
        self.deployment: DeploymentView | None = None
        self.troubles: tuple[Alert, ...] = ()
        self.has_telemetry = True
        self.down: frozenset[str] = frozenset()
        self.moves_by_itself = True
        self.failure: Exception | None = None

    @property
    def now(self) -> float:
        return self.began_at + self.looks

    # --- as a source -------------------------------------------------------------------------

    async def snapshot(self) -> Snapshot:
        if self.failure is not None:
            raise self.failure
        self.looks += 1
        if self.moves_by_itself:
            self.move_on()
        links = tuple(self._link(link) for link in sorted(self.topology.links))
        per_broker = {b: 0.0 for b in self.topology.brokers}
        for view in links:
            per_broker[view.a] += view.messages_per_s
            per_broker[view.b] += view.messages_per_s
        brokers = tuple(
            self._broker(b, per_broker[b]) for b in sorted(per_broker, key=natural_order)
        )
        wave = self._wave(7.0)
        return Snapshot(
            taken_at=self.now,
            overlay="made",
            strategy="tree",
            brokers=brokers,
            links=links,
            latency=LatencyView(4000, 6 + 2 * wave, 5 + wave, 14 + 4 * wave, 31 + 9 * wave)
            if self.has_telemetry
            else None,
            cost_per_s=(COST_THEN if self._is_changed else COST_NOW) + 30 * wave
            if self.has_telemetry
            else None,
            totals=CounterStatus(publications_accepted=400 * self.looks),
            publications_per_s=RATE_PER_S + 40 * wave,
            deliveries_per_s=3800 + 300 * wave,
            deployment=self.deployment,
            decisions=tuple(reversed(self.decisions)),
            autopilot=AutopilotStatus(
                name="test",
                mode=ControlMode.APPROVE,
                started_at=self.began_at,
                phase=AutopilotPhase.RESTING,
                phase_since=self.began_at,
                next_look_at=self.now + 40,
            ),
            troubles=self.troubles,
        )

    async def wait_for_news(self, limit_s: float) -> None:
        await asyncio.sleep(limit_s)

    @property
    def _is_changed(self) -> bool:
        done = self.deployment
        return done is not None and done.state is DeploymentState.DONE

    def _wave(self, period: float, phase: float = 0.0) -> float:
        return math.sin(self.looks / period + phase)

    def _link(self, link: Link) -> LinkView:
        rest = Topology(self.topology.brokers, self.topology.links - {link})
        size = len(rest.hops_from(link.a))
        count = len(self.topology.brokers)
        place = sum(map(ord, str(link)))
        share = size * (count - size) / (count * count / 4)
        rate = RATE_PER_S * share * (1 + 0.25 * self._wave(5.0, place))
        is_up = not self.down & {link.a, link.b}
        return LinkView(
            link.a, link.b, is_up, rate * is_up, 0.4 + place % 7 * 0.3, int(rate) % 3, int(rate) * 9
        )

    def _broker(self, broker: str, rate: float) -> BrokerView:
        if broker in self.down:
            return BrokerView(broker, is_up=False)
        place = sum(map(ord, broker))
        return BrokerView(
            broker,
            is_up=True,
            clients=place % 9,
            subscriptions=place % 40,
            publications_per_s=rate,
            deliveries_per_s=rate / 2,
            queue_bytes=int(rate) * 30,
            queue_messages=place % 4,
            uptime_s=float(self.looks),
            counters=CounterStatus(publications_accepted=place * self.looks, deliveries=place),
        )

    # --- decisions and plans -----------------------------------------------------------------

    def decide(
        self, state: DecisionState, reason: str, step_count: int = 0, error: float | None = None
    ) -> DecisionRecord:
        """Put a decision on record; with steps it has a plan for the topology of now."""
        steps = make_steps(self.topology, step_count, self.rng)
        after = links_after(self.topology.links, steps)
        chosen = Alternative(
            name="global search",
            cost_ms_per_s=COST_THEN,
            benefit_ms=79_500,
            change_cost_ms=1_200,
            added_links=tuple(sorted(after - self.topology.links)),
            removed_links=tuple(sorted(self.topology.links - after)),
            step_count=step_count,
            action_count=sum(len(step) for step in steps),
        )
        measured = None
        if error is not None:
            measured = Measurement(
                profile_id="p2",
                measured_at=self.now,
                cost_ms_per_s=COST_THEN * (1 + error),
                cost_ms_per_notification=1.0,
                prediction_error=error,
            )
        record = DecisionRecord(
            id=f"{len(self.decisions) + 1:06d}",
            overlay="made",
            decided_at=self.now,
            mode=ControlMode.APPROVE,
            verdict=Verdict.CHANGE if steps else Verdict.STAY,
            reason=reason,
            state=state,
            inputs=DecisionInputs(
                profile_id="p1",
                window_started_at=self.now - 60,
                window_ended_at=self.now,
                topology_hash="sha256:0",
                notifications_per_s=RATE_PER_S,
                cost_ms_per_s=COST_NOW,
                cost_ms_per_notification=2.0,
            ),
            alternatives=(Alternative(name="stay", cost_ms_per_s=COST_NOW), chosen),
            chosen="global search" if steps else "stay",
            prediction=Prediction(
                cost_ms_per_s=COST_THEN,
                cost_ms_per_notification=1.0,
                saving_share=1 - COST_THEN / COST_NOW,
            )
            if steps
            else None,
            plan=plan_to_json(PlanRecord(Plan(steps))) if steps else "",
            expires_at=self.now + 600 if state is DecisionState.WAITING else None,
            measured=measured,
        )
        self.decisions.append(record)
        return record

    def deploy(self, steps: tuple[Step, ...]) -> None:
        """Begin to walk the overlay through the steps; `move_on` takes them."""
        self.deployment = DeploymentView(
            f"{len(self.decisions)}-5f0c2a91b3d84e77",
            DeploymentState.RUNNING,
            steps,
            0,
            tuple(ActionView(str(action), ActionState.RUNNING) for action in steps[0]),
            executor="test:1",
        )

    def move_on(self) -> None:
        """One action of the step under way gets one state further; then the next step."""
        plan = self.deployment
        if plan is None or plan.state is not DeploymentState.RUNNING:
            return
        order = (ActionState.RUNNING, ActionState.COMMITTED, ActionState.DONE)
        actions = list(plan.actions)
        at = next((i for i, a in enumerate(actions) if a.state is not ActionState.DONE), None)
        if at is not None:
            later = order[order.index(actions[at].state) + 1]
            held = 12 if later is ActionState.COMMITTED else 0
            actions[at] = msgspec.structs.replace(actions[at], state=later, held_messages=held)
            self.deployment = msgspec.structs.replace(plan, actions=tuple(actions))
            return
        done = plan.steps_done + 1
        links = links_after(self.topology.links, [plan.steps[plan.steps_done]])
        self.topology = Topology(self.topology.brokers, links)
        is_over = done == len(plan.steps)
        self.deployment = msgspec.structs.replace(
            plan,
            steps_done=done,
            state=DeploymentState.DONE if is_over else DeploymentState.RUNNING,
            actions=()
            if is_over
            else tuple(ActionView(str(a), ActionState.RUNNING) for a in plan.steps[done]),
            executor=None if is_over else plan.executor,
        )

    # --- as a taker of commands --------------------------------------------------------------

    async def approve(self, decision: str) -> str:
        record = self._answer(decision, DecisionState.APPROVED)
        self.deploy(steps_of(record))
        return f"decision {decision} is approved"

    async def reject(self, decision: str) -> str:
        self._answer(decision, DecisionState.REJECTED)
        return f"decision {decision} is rejected"

    async def pause(self, deployment: str) -> str:
        return self._end(DeploymentState.PAUSED)

    async def abort(self, deployment: str) -> str:
        return self._end(DeploymentState.ABORTED)

    def _answer(self, decision: str, state: DecisionState) -> DecisionRecord:
        for place, record in enumerate(self.decisions):
            if record.id == decision and record.state is DecisionState.WAITING:
                self.decisions[place] = record.moved_to(state, reviewed_by="a test")
                return self.decisions[place]
        raise CommandError(f"decision {decision} does not wait for an answer")

    def _end(self, state: DeploymentState) -> str:
        if self.deployment is None:
            raise CommandError("no plan is under way")
        self.deployment = msgspec.structs.replace(self.deployment, state=state, actions=())
        return f"the plan is {state.value}"


def with_history(overlay: MadeOverlay) -> MadeOverlay:
    """The same overlay after a few decisions, the last of which waits."""
    stay = "no alternative saves more over the coming hour than the change would cost"
    overlay.decide(DecisionState.CLOSED, stay)
    overlay.decide(
        DecisionState.DEPLOYED,
        "33% of the cost is saved; over the period that is 66 times what the change costs",
        step_count=2,
        error=0.043,
    )
    overlay.decide(DecisionState.REJECTED, "21% of the cost is saved by 2 links", step_count=1)
    overlay.decide(
        DecisionState.WAITING,
        "33% of the cost is saved; over the period that is 66 times what the change costs",
        step_count=4,
    )
    return overlay
