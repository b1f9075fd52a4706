"""What the store says of one overlay, looked at again and again over one session.

A reader only. What cannot change any more is read once: steps of a plan, decisions that have
ended. When ZooKeeper is away a look says so at once instead of waiting for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from pubweave.control.records import ControlError, decision_ids, read_autopilot, read_decision
from pubweave.dashboard.snapshot import ActionView, DeploymentView
from pubweave.deploy.commands import ActionStatus, read_progress
from pubweave.deploy.documents import (
    BrokerDocument,
    DeploymentDocument,
    DocumentError,
    DocumentT,
    Layout,
    PlanDocument,
    TopologyDocument,
    decode,
)
from pubweave.deploy.store import List, NodeChanged, Outcome, Path, Read, StoreAnswer, StoreNotice
from pubweave.model.decisions import AutopilotStatus, DecisionRecord, DecisionState
from pubweave.model.ids import BrokerId
from pubweave.model.topology import Topology
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.store.session import StoreUnreachable, run_command
from pubweave.runtime.store.zookeeper_store import ZooKeeperStore
from pubweave.runtime.store.zookeeper_target import Coordination

DECISIONS_READ = 100
ANSWER_LIMIT_S = 3.0
CONNECT_LIMIT_S = 0.5


@dataclass(frozen=True)
class StoreView:
    """What the store held at one look; ``decisions`` the latest first."""

    topology: Topology | None = None
    deployment: DeploymentView | None = None
    decisions: tuple[DecisionRecord, ...] = ()
    autopilot: AutopilotStatus | None = None
    addresses: Mapping[BrokerId, Address] = field(default_factory=dict)
    problem: str = ""
    """What could not be read of the decisions, in words; the others are there all the same."""


class StoreReader:
    """One session that reads: ``async with StoreReader(where) as reader``."""

    def __init__(self, where: Coordination) -> None:
        self.where = where
        self.layout = Layout(where.overlay)
        self.has_news = asyncio.Event()
        """A plan or a decision changed since this was last cleared."""
        self.store = ZooKeeperStore(where.target, self._take)
        self._ended_decisions: dict[str, DecisionRecord] = {}
        self._ended_deployment: tuple[DeploymentDocument, DeploymentView] | None = None
        self._plan: tuple[str, PlanDocument] | None = None

    async def look(self, *, with_addresses: bool = False) -> StoreView:
        """Everything at once; StoreUnreachable if ZooKeeper does not answer in time, ValueError
        for a document that is none of ours."""
        if not await self.store.wait_until_connected(CONNECT_LIMIT_S):
            raise StoreUnreachable(f"ZooKeeper at {self.where.target} does not answer")
        try:
            async with asyncio.timeout(ANSWER_LIMIT_S):
                return await self._look(with_addresses)
        except TimeoutError:
            raise StoreUnreachable(
                f"ZooKeeper at {self.where.target} does not answer within {ANSWER_LIMIT_S:g} s"
            ) from None

    def _take(self, event: StoreAnswer | StoreNotice) -> None:
        if isinstance(event, NodeChanged):
            self.has_news.set()

    async def _look(self, with_addresses: bool) -> StoreView:
        topology = await self._read(self.layout.topology, TopologyDocument)
        decisions, problem = await self._decisions()
        return StoreView(
            topology=None if topology is None else topology.topology(),
            deployment=await self._deployment(),
            decisions=decisions,
            problem=problem,
            autopilot=await run_command(self.store, read_autopilot(self.layout)),
            addresses=await self._addresses() if with_addresses else {},
        )

    async def _deployment(self) -> DeploymentView | None:
        current = await self._read(self.layout.plan, DeploymentDocument, watch=True)
        if current is None:
            return None
        if self._ended_deployment is not None and self._ended_deployment[0] == current:
            return self._ended_deployment[1]
        progress = await run_command(self.store, read_progress(self.layout))
        current = progress.deployment
        plan = await self._steps(current.deployment)
        view = DeploymentView(
            id=current.deployment,
            state=current.state,
            steps=() if plan is None else plan.plan().steps,
            steps_done=current.steps_done,
            actions=() if current.state.is_final else tuple(map(_action, progress.actions)),
            reason=current.reason,
            purpose=current.purpose,
            by=current.by,
            executor=progress.executor,
            missing=progress.missing,
        )
        if current.state.is_final:
            self._ended_deployment = current, view
        return view

    async def _steps(self, deployment: str) -> PlanDocument | None:
        if self._plan is None or self._plan[0] != deployment:
            found = await self._read(self.layout.steps(deployment), PlanDocument)
            if found is None:
                return None
            self._plan = deployment, found
        return self._plan[1]

    async def _decisions(self) -> tuple[tuple[DecisionRecord, ...], str]:
        await self.store.ask(List(self.layout.decisions, watch=True))
        ids = (await run_command(self.store, decision_ids(self.layout)))[-DECISIONS_READ:]
        self._ended_decisions = {i: r for i, r in self._ended_decisions.items() if i in ids}
        records: list[DecisionRecord] = []
        problem = ""
        for id_ in reversed(ids):
            try:
                records.append(await self._decision(id_))
            except (ControlError, DocumentError) as error:
                problem = str(error)
        return tuple(records), problem

    async def _decision(self, id_: str) -> DecisionRecord:
        if id_ in self._ended_decisions:
            return self._ended_decisions[id_]
        record = await run_command(self.store, read_decision(self.layout, id_))
        if _is_settled(record):
            self._ended_decisions[id_] = record
        return record

    async def _addresses(self) -> dict[BrokerId, Address]:
        found: dict[BrokerId, Address] = {}
        for broker in (await self.store.ask(List(self.layout.brokers))).children:
            document = await self._read(self.layout.broker(broker), BrokerDocument)
            if document is not None:
                found[broker] = Address.parse(document.address)
        return found

    async def _read(
        self, path: Path, kind: type[DocumentT], *, watch: bool = False
    ) -> DocumentT | None:
        answer = await self.store.ask(Read(path, watch))
        if answer.outcome is Outcome.MISSING:
            return None
        if answer.outcome is not Outcome.OK:
            raise StoreUnreachable(
                f"ZooKeeper at {self.where.target} does not tell of {path} ({answer.outcome.value})"
            )
        return decode(answer.data, kind, path)

    async def __aenter__(self) -> StoreReader:
        self.store.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.store.stop()


def _is_settled(record: DecisionRecord) -> bool:
    """Whether nothing can be added: what was deployed is still to be measured."""
    is_measured = record.state is not DecisionState.DEPLOYED or record.measured is not None
    return record.state.is_final and is_measured


def _action(action: ActionStatus) -> ActionView:
    return ActionView(
        text=action.text,
        state=action.state,
        reason=action.reason,
        held_messages=action.held_messages,
        waits_for=action.waits_for,
    )
