"""Executors and agents on the memory store in virtual time, with brokers that only pretend.

`Deployment` is a world of one overlay: agents with a `PretendedCore` each, executors, one store.
Every write that reaches the store is checked: states of a deployment and of an action change
only along their tables, and only by compare-and-set.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from pubweave.core.vocabulary.effects import DecideAction, ReportAction
from pubweave.core.vocabulary.events import ActionDecided, ActionRequested, LinkAdded
from pubweave.deploy.agent import Agent, AgentConfig
from pubweave.deploy.commands import create_topology
from pubweave.deploy.documents import (
    ActionDocument,
    DeploymentDocument,
    Layout,
    TopologyDocument,
    decode,
)
from pubweave.deploy.executor import Executor, ExecutorConfig, ExecutorReport, ExecutorRole
from pubweave.deploy.memory_store import MemoryStore
from pubweave.deploy.store import (
    ANY_VERSION,
    Create,
    Outcome,
    Read,
    SessionChanged,
    StoreAnswer,
    StoreRequest,
    StoreSessionState,
    TimerFired,
    Write,
)
from pubweave.deploy.topology_state import leader_of, neighbors_after
from pubweave.model.deployment import (
    ACTION_CHANGES,
    DEPLOYMENT_CHANGES,
    ActionState,
    DeploymentState,
)
from pubweave.model.plans import Action
from pubweave.model.topology import Topology

LAYOUT = Layout("demo")
STORE_S = 0.003
MESSAGE_S = 0.02
SWITCH_S = 0.05
ASK_AFTER_S = 2.0
T = TypeVar("T")


class User:
    """Somebody at the store: an executor or an agent, with a session that can break."""

    def __init__(self, world: Deployment, name: str, machine: Any) -> None:
        self.world = world
        self.name = name
        self.machine = machine
        self.is_alive = True
        self.is_connected = True
        self.connection = 0
        self.asked = 0
        self.under_way: list[StoreRequest] = []
        self.session = world.open(self)
        self.on_effect: Callable[[Any], None] = lambda effect: None
        self.fault: Callable[[User], bool] | None = None
        """Looked at before each request; True: the request is not made any more."""
        world.after(STORE_S, self.give, SessionChanged(StoreSessionState.CONNECTED))

    def give(self, event: Any) -> None:
        if not self.is_alive:
            return
        for effect in self.machine.handle(event, self.world.now):
            if not self.is_alive:
                return
            if isinstance(effect, StoreRequest):
                self._ask(effect)
            else:
                self.on_effect(effect)
        deadline = self.machine.next_deadline()
        if deadline < self.world.end:
            assert deadline > self.world.now
            self.world.at(deadline, self._timer, deadline)

    def _timer(self, deadline: float) -> None:
        if self.is_alive and self.machine.next_deadline() == deadline:
            self.give(TimerFired())

    def _ask(self, request: StoreRequest) -> None:
        self.asked += 1
        if self.fault is not None and self.fault(self):
            return
        if not self.is_connected:
            self.world.after(STORE_S, self.give, StoreAnswer(request, Outcome.UNSURE))
            return
        self.under_way.append(request)
        self.world.after(STORE_S, self._arrive, request, self.connection)

    def _arrive(self, request: StoreRequest, connection: int) -> None:
        if connection != self.connection:
            return
        answer = self.world.carry_out(self, request)
        self.world.after(STORE_S, self._hear, answer, connection)

    def _hear(self, event: Any, connection: int) -> None:
        if connection == self.connection:
            if isinstance(event, StoreAnswer):
                self.under_way.remove(event.request)
            self.give(event)

    def notify(self, notice: Any) -> None:
        self.world.after(STORE_S, self._hear, notice, self.connection)

    def break_connection(self, *, loses: bool, arrives: bool, lasts_s: float = 0.2) -> None:
        """The connection goes; what is under way has arrived or not. Back with the same session,
        or, if that ``loses``, with a new one."""
        world = self.world
        self.connection += 1
        self.is_connected = False
        open_requests, self.under_way = self.under_way, []
        if arrives:
            for request in open_requests:
                world.carry_out(self, request)
        world.store.forget_watches(self.session)
        self.give(SessionChanged(StoreSessionState.SUSPENDED))
        for request in open_requests:
            self.give(StoreAnswer(request, Outcome.UNSURE))
        world.after(lasts_s, self._come_back, loses)

    def _come_back(self, loses: bool) -> None:
        if not self.is_alive:
            return
        if loses:
            self.world.store.expire(self.session)
            self.world.spread()
            self.give(SessionChanged(StoreSessionState.LOST))
            self.session = self.world.open(self)
        self.is_connected = True
        self.give(SessionChanged(StoreSessionState.CONNECTED))

    def die(self, session_s: float = 1.0) -> None:
        """Gone in the middle of what it does; the store learns of it when the session expires."""
        self.is_alive = False
        self.connection += 1
        self.world.after(session_s, self._expire, self.session)

    def _expire(self, session: int) -> None:
        self.world.store.expire(session)
        self.world.spread()


class PretendedCore:
    """A broker that takes part in actions and changes nothing but its set of links.

    The leader asks for the decision after the brokers have heard of the action; everybody who
    hears of no decision in time asks for it to be aborted, as the real core does."""

    def __init__(self, world: Deployment, name: str, epoch: int) -> None:
        self.world = world
        self.name = name
        self.epoch = epoch
        self.links: frozenset[str] = frozenset()
        self.active: dict[str, Action] = {}
        self.refuses = False
        self.hangs = False
        self.user = User(
            world, name, Agent(AgentConfig(name, LAYOUT.overlay, f"{name}:1", epoch, 0.1))
        )
        self.user.on_effect = self._on_event

    def _on_event(self, event: Any) -> None:
        match event:
            case LinkAdded(neighbor):
                self.links = self.links | {neighbor}
            case ActionRequested(id_, action) if leader_of(action) == self.name:
                assert id_ not in self.world.started, f"{id_} was started twice"
                self.world.started[id_] = self.world.now
                for name in action.brokers:
                    self.world.after(MESSAGE_S, self.world.tell, name, "take_part", id_, action)
                self.world.after(SWITCH_S, self._propose, id_)
            case ActionDecided(id_, committed):
                self.end(id_, committed)

    def take_part(self, id_: str, action: Action) -> None:
        if not self.user.machine.has_joined:
            return
        assert not self.active, f"{self.name} is in {self.active} and is asked for {action}"
        self.active[id_] = action
        self.world.after(ASK_AFTER_S, self._ask, id_)
        if self.refuses:
            self.user.give(DecideAction(id_, commit=False, reason=f"{self.name} refuses"))

    def _propose(self, id_: str) -> None:
        if id_ in self.active and self.user.is_alive and not self.hangs:
            self.user.give(DecideAction(id_, commit=True))

    def _ask(self, id_: str) -> None:
        if id_ in self.active and self.user.is_alive:
            self.user.give(DecideAction(id_, commit=False, reason=f"{self.name} timed out"))

    def end(self, id_: str, committed: bool) -> None:
        action = self.active.pop(id_, None)
        if action is None:
            return
        if committed:
            self.links = neighbors_after(self.links, self.name, [action])
        if leader_of(action) == self.name:
            for name in action.brokers:
                self.world.after(MESSAGE_S, self.world.tell, name, "end", id_, committed)
        self.world.ended.setdefault(id_, {})[self.name] = self.world.now
        self.user.give(ReportAction(id_, done=committed, held_messages=2, held_s=0.1))


class Deployment:
    """One overlay, one store, virtual time."""

    def __init__(self, topology: Topology, *, joining: tuple[str, ...] = ()) -> None:
        self.now = 0.0
        self.end = 600.0
        self.store = MemoryStore()
        self.started: dict[str, float] = {}
        self.ended: dict[str, dict[str, float]] = {}
        self.reports: list[tuple[str, ExecutorReport]] = []
        self.states: list[str] = []
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0
        self._users: dict[int, User] = {}
        self._operator = self.store.open()
        self.run(create_topology(LAYOUT, topology))
        self.brokers = {
            name: PretendedCore(self, name, 1) for name in sorted({*topology.brokers, *joining})
        }

    # --- time ------------------------------------------------------------------------------

    def at(self, instant: float, what: Callable[..., None], *args: Any) -> None:
        self._number += 1
        heapq.heappush(self._heap, (instant, self._number, what, args))

    def after(self, delay_s: float, what: Callable[..., None], *args: Any) -> None:
        self.at(self.now + delay_s, what, *args)

    def run_for(self, seconds: float) -> None:
        until = self.now + seconds
        while self._heap and self._heap[0][0] <= until:
            self.now, _, what, args = heapq.heappop(self._heap)
            what(*args)
        self.now = until

    def run_until_final(self, limit_s: float = 120.0) -> DeploymentDocument:
        return self.run_until(lambda d: d.state.is_final, limit_s)

    def run_until(
        self, is_it: Callable[[DeploymentDocument], bool], limit_s: float = 120.0
    ) -> DeploymentDocument:
        until = self.now + limit_s
        while self.now < until:
            self.run_for(0.01)
            deployment = self.deployment()
            if is_it(deployment):
                return deployment
        raise AssertionError(f"still {self.deployment()}; {self.reports[-1:]}")

    # --- the store -------------------------------------------------------------------------

    def open(self, user: User) -> int:
        session = self.store.open()
        self._users[session] = user
        return session

    def carry_out(self, user: User, request: StoreRequest) -> StoreAnswer:
        before = self.store.handle(self._operator, Read(request.path))
        answer = self.store.handle(user.session, request)
        if isinstance(request, Write | Create) and answer.outcome is Outcome.OK:
            self._check(request, before)
        self.spread()
        return answer

    def spread(self) -> None:
        for session, notice in self.store.take_notices():
            if session in self._users:
                self._users[session].notify(notice)

    def _check(self, request: Write | Create, before: StoreAnswer) -> None:
        """No state changes but along its table, and none blindly."""
        path = request.path
        if path == LAYOUT.plan:
            new = decode(request.data, DeploymentDocument, path)
            old = decode(before.data, DeploymentDocument, path)
            if new.state is not old.state:
                assert new.state in DEPLOYMENT_CHANGES[old.state]
                self.states.append(new.state.value)
        elif path.startswith(LAYOUT.plans) and path.count("/") == 6 and isinstance(request, Write):
            action = decode(request.data, ActionDocument, path)
            assert action.state in ACTION_CHANGES[decode(before.data, ActionDocument, path).state]
        elif path != LAYOUT.topology:
            return
        assert isinstance(request, Create) or request.version != ANY_VERSION, "a blind write"

    def run(self, script: Generator[StoreRequest, StoreAnswer, T]) -> T:
        """Run an operator's script at once."""
        request = next(script)
        try:
            while True:
                answer = self.store.handle(self._operator, request)
                self.spread()
                request = script.send(answer)
        except StopIteration as end:
            value: T = end.value
            return value

    # --- who is there ----------------------------------------------------------------------

    def tell(self, name: str, what: str, *args: Any) -> None:
        core = self.brokers[name]
        if core.user.is_alive:
            getattr(core, what)(*args)

    def crash(self, name: str, down_s: float, session_s: float = 1.0) -> None:
        self.brokers[name].user.die(session_s)
        self.after(down_s, self._restart, name)

    def _restart(self, name: str) -> None:
        self.brokers[name] = PretendedCore(self, name, self.brokers[name].epoch + 1)

    def start_executor(self, name: str, **config: Any) -> User:
        machine = Executor(ExecutorConfig(LAYOUT.overlay, name, retry_s=0.1, **config))
        user = User(self, name, machine)
        user.on_effect = lambda report: self.reports.append((name, report))
        return user

    def roles(self, name: str) -> list[ExecutorRole]:
        return [report.role for who, report in self.reports if who == name]

    # --- what came of it -------------------------------------------------------------------

    def deployment(self) -> DeploymentDocument:
        answer = self.store.handle(self._operator, Read(LAYOUT.plan))
        return decode(answer.data, DeploymentDocument, LAYOUT.plan)

    def topology(self) -> Topology:
        answer = self.store.handle(self._operator, Read(LAYOUT.topology))
        return decode(answer.data, TopologyDocument, LAYOUT.topology).topology()

    def action_states(self) -> dict[str, ActionState]:
        found = {}
        for path in self.store.paths():
            if path.startswith(LAYOUT.plans + "/") and path.count("/") == 6:
                answer = self.store.handle(self._operator, Read(path))
                id_ = path.removeprefix(LAYOUT.plans + "/").partition("/")[2]
                found[id_] = decode(answer.data, ActionDocument, path).state
        return found

    def assert_settled(self) -> None:
        """Every broker has exactly the links of the stored topology, which is a tree, and none
        is still in an action."""
        self.run_for(5.0)
        topology = self.topology()
        assert topology.is_tree
        for name, core in self.brokers.items():
            expected = frozenset(topology.neighbors.get(name, ()))
            assert core.links == expected, name
            assert not core.active, name
        assert self.deployment().state in (DeploymentState.DONE, DeploymentState.ABORTED)
