"""The agent by itself: what it asks, what it tells its core, and in which order."""

from __future__ import annotations

import pytest

from pubweave.core.vocabulary.effects import DecideAction, ReportAction
from pubweave.core.vocabulary.events import ActionDecided, ActionRequested, LinkAdded, LinkExpected
from pubweave.deploy.agent import (
    Agent,
    AgentConfig,
    AgentEffect,
    AgentEvent,
    StatusTaken,
    own_actions,
)
from pubweave.deploy.commands import create_topology, submit
from pubweave.deploy.documents import (
    ActionDocument,
    BrokerDocument,
    BrokerReport,
    DeploymentDocument,
    DocumentError,
    Layout,
    PartDocument,
    PlanDocument,
    UnusableNameError,
    decode,
    encode,
)
from pubweave.deploy.memory_store import MemoryStore
from pubweave.deploy.store import (
    Create,
    Delete,
    List,
    NodeChanged,
    Outcome,
    Read,
    SessionChanged,
    StoreAnswer,
    StoreRequest,
    StoreSessionState,
    Write,
)
from pubweave.model.deployment import ActionState, DeploymentState
from pubweave.model.files.plan import PlanRecord
from pubweave.model.plans import Append, Plan, Shift
from pubweave.model.records.status import RateStatus
from pubweave.model.topology import Topology

LAYOUT = Layout("demo")
CHAIN = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b3", "b4"), ("b4", "b5")])
FIRST, SECOND = Shift("b1", "b2", "b3"), Shift("b5", "b4", "b3")
REQUESTS = (Create, Read, Write, Delete, List)


class Bench:
    """One agent at a memory store that answers at once, with a hand in the store."""

    def __init__(self, broker: str, *steps: tuple[Shift | Append, ...]) -> None:
        self.store = MemoryStore()
        self.hand = self.store.open()
        self.run(create_topology(LAYOUT, CHAIN))
        self.deployment = ""
        if steps:
            self.deployment = self.run(submit(LAYOUT, PlanRecord(Plan(steps)))).deployment
            self.change_plan(DeploymentState.RUNNING)
            for number, step in enumerate(self.run_steps()):
                for place, action in enumerate(step):
                    self.ask(Create(self.path(number, place), encode(ActionDocument.of(action))))
        self.broker = broker
        self.start_agent(epoch=1)

    def start_agent(self, epoch: int) -> None:
        self.agent = Agent(AgentConfig(self.broker, "demo", f"{self.broker}:1", epoch))
        self.session = self.store.open()
        self.told: list[object] = []
        self._queue: list[object] = []

    def run(self, script):  # type: ignore[no-untyped-def]
        request = next(script)
        try:
            while True:
                request = script.send(self.ask(request))
        except StopIteration as end:
            return end.value

    def run_steps(self) -> list[tuple[Shift | Append, ...]]:
        data = self.ask(Read(LAYOUT.steps(self.deployment))).data
        return list(decode(data, PlanDocument, "").plan().steps)  # type: ignore[arg-type]

    def ask(self, request: StoreRequest) -> StoreAnswer:
        return self.store.handle(self.hand, request)

    def path(self, step: int, place: int) -> str:
        return LAYOUT.action(self.id(step, place))

    def id(self, step: int, place: int) -> str:
        return f"{self.deployment}/{step}/{place}"

    def change_plan(self, state: DeploymentState) -> None:
        seen = self.ask(Read(LAYOUT.plan))
        document = decode(seen.data, DeploymentDocument, "").moved_to(state)
        self.ask(Write(LAYOUT.plan, encode(document), seen.version))

    def move(self, place: int, *states: ActionState, step: int = 0) -> None:
        """Somebody else moves an action on; the agent hears of it."""
        for state in states:
            seen = self.ask(Read(self.path(step, place)))
            document = decode(seen.data, ActionDocument, "").moved_to(state, "somebody")
            self.ask(Write(self.path(step, place), encode(document), seen.version))
        self.settle()

    def state(self, place: int, step: int = 0) -> ActionState:
        data = self.ask(Read(self.path(step, place))).data
        return decode(data, ActionDocument, "").state

    def give(self, event: AgentEvent) -> None:
        self.settle(self.agent.handle(event, 0.0))

    def settle(self, effects: list[AgentEffect] | None = None) -> None:
        """Carry effects out, and deliver answers and notices, until nothing is left."""
        waiting: list[object] = list(effects or [])
        while True:
            for effect in waiting:
                if isinstance(effect, REQUESTS):
                    answer = self.store.handle(self.session, effect)  # type: ignore[arg-type]
                    self._notices()
                    self._queue.append(answer)
                else:
                    self.told.append(effect)
            waiting = []
            self._notices()
            if not self._queue:
                return
            waiting = list(self.agent.handle(self._queue.pop(0), 0.0))  # type: ignore[arg-type]

    def _notices(self) -> None:
        self._queue += [
            notice for session, notice in self.store.take_notices() if session == self.session
        ]

    def connect(self) -> list[object]:
        self.give(SessionChanged(StoreSessionState.CONNECTED))
        told, self.told = self.told, []
        return told


def test_a_broker_gets_its_links_and_is_registered() -> None:
    bench = Bench("b2")
    assert bench.connect() == [LinkAdded("b1"), LinkAdded("b3")]
    assert bench.agent.is_ready
    stored = decode(bench.ask(Read(LAYOUT.broker("b2"))).data, BrokerDocument, "")
    assert (stored.address, stored.epoch) == ("b2:1", 1)


def test_a_broker_the_topology_does_not_know_is_registered_without_links() -> None:
    bench = Bench("b9")
    assert bench.connect() == []
    assert bench.agent.is_ready


def test_a_foreign_document_stops_the_agent_only_until_it_is_gone() -> None:
    bench = Bench("b2")
    bench.ask(Create(LAYOUT.broker("b2"), b"not ours"))
    with pytest.raises(DocumentError, match="not a BrokerDocument"):
        bench.connect()
    bench.ask(Delete(LAYOUT.broker("b2")))
    bench.settle()
    assert bench.told == [LinkAdded("b1"), LinkAdded("b3")], "nothing was forgotten meanwhile"
    assert bench.agent.is_ready


def test_nothing_is_told_before_the_topology_is_there() -> None:
    bench = Bench("b2")
    bench.ask(Delete(LAYOUT.topology))
    assert bench.connect() == []
    assert not bench.agent.has_joined
    bench.run(create_topology(LAYOUT, CHAIN))
    bench.settle()
    assert bench.told == [LinkAdded("b1"), LinkAdded("b3")]


def test_the_leader_starts_an_action_once_it_runs() -> None:
    bench = Bench("b1", (FIRST,))
    bench.connect()
    assert bench.told == []
    bench.move(0, ActionState.RUNNING)
    assert bench.told == [ActionRequested(bench.id(0, 0), FIRST)]
    bench.give(NodeChanged(bench.path(0, 0)))
    assert len(bench.told) == 1


def test_a_follower_starts_nothing_except_its_own_joining() -> None:
    bench = Bench("b3", (FIRST,))
    bench.connect()
    bench.move(0, ActionState.RUNNING)
    assert bench.told == []
    joining = Bench("b9", (Append("b9", "b5"),))
    joining.connect()
    joining.move(0, ActionState.RUNNING)
    assert joining.told == [ActionRequested(joining.id(0, 0), Append("b9", "b5"))]


def test_an_action_waits_until_those_it_shares_a_broker_with_are_done() -> None:
    bench = Bench("b5", (FIRST, SECOND))
    bench.connect()
    bench.move(1, ActionState.RUNNING)
    bench.move(0, ActionState.RUNNING, ActionState.COMMITTED)
    assert ActionRequested(bench.id(0, 1), SECOND) not in bench.told
    bench.told.clear()
    bench.move(0, ActionState.DONE)
    assert bench.told == [ActionRequested(bench.id(0, 1), SECOND)]


def test_both_ends_of_the_link_that_a_waiting_shift_brings_expect_it_and_nobody_else() -> None:
    for broker, neighbor in ((SECOND.mover, SECOND.new_peer), (SECOND.new_peer, SECOND.mover)):
        bench = Bench(broker, (FIRST, SECOND))
        bench.connect()
        bench.told.clear()
        bench.move(1, ActionState.RUNNING)
        bench.give(NodeChanged(bench.path(0, 1)))
        assert bench.told == [LinkExpected(bench.id(0, 1), neighbor)]
    for broker in (SECOND.old_peer, FIRST.mover):
        bench = Bench(broker, (FIRST, SECOND))
        bench.connect()
        bench.told.clear()
        bench.move(1, ActionState.RUNNING)
        assert bench.told == []


def test_what_is_expected_when_the_plan_is_over_is_not_to_be() -> None:
    """The plan may be over before anybody has seen that the action was aborted."""
    bench = Bench("b5", (FIRST, SECOND))
    bench.connect()
    bench.move(1, ActionState.RUNNING)
    assert bench.told == [LinkExpected(bench.id(0, 1), SECOND.new_peer)]
    bench.told.clear()
    bench.change_plan(DeploymentState.ABORTING)
    bench.change_plan(DeploymentState.ABORTED)
    bench.settle()
    assert bench.told == [ActionDecided(bench.id(0, 1), committed=False)]


def test_after_an_aborted_one_it_never_starts() -> None:
    bench = Bench("b5", (FIRST, SECOND))
    bench.connect()
    bench.move(1, ActionState.RUNNING)
    bench.move(0, ActionState.RUNNING, ActionState.ABORTED)
    assert ActionRequested(bench.id(0, 1), SECOND) not in bench.told


@pytest.mark.parametrize("commit", [True, False])
def test_a_decision_is_recorded_and_told(commit: bool) -> None:
    bench = Bench("b1", (FIRST,))
    bench.connect()
    bench.move(0, ActionState.RUNNING)
    bench.told.clear()
    bench.give(DecideAction(bench.id(0, 0), commit, "because"))
    assert bench.told == [ActionDecided(bench.id(0, 0), commit)]
    assert bench.state(0) is (ActionState.COMMITTED if commit else ActionState.ABORTED)


def test_whoever_asks_second_is_told_what_stands_there() -> None:
    bench = Bench("b3", (FIRST,))
    bench.connect()
    bench.move(0, ActionState.RUNNING, ActionState.COMMITTED)
    bench.give(DecideAction(bench.id(0, 0), False, "too late"))
    assert bench.told == [ActionDecided(bench.id(0, 0), True)]
    assert bench.state(0) is ActionState.COMMITTED


def test_an_abort_is_told_unasked_and_once() -> None:
    bench = Bench("b3", (FIRST,))
    bench.connect()
    bench.move(0, ActionState.RUNNING, ActionState.ABORTED)
    bench.give(NodeChanged(bench.path(0, 0)))
    assert bench.told == [ActionDecided(bench.id(0, 0), False)]


def test_a_commit_is_told_only_when_asked_for() -> None:
    bench = Bench("b3", (FIRST,))
    bench.connect()
    bench.move(0, ActionState.RUNNING, ActionState.COMMITTED)
    assert bench.told == []


def test_an_action_of_a_swept_deployment_was_not_committed() -> None:
    bench = Bench("b3", (FIRST,))
    bench.connect()
    bench.give(DecideAction("0-old/0/0", True))
    assert bench.told == [ActionDecided("0-old/0/0", False)]


def test_parts_are_stored_and_the_leader_ends_the_action() -> None:
    bench = Bench("b1", (FIRST,))
    bench.connect()
    id_ = bench.id(0, 0)
    bench.move(0, ActionState.RUNNING, ActionState.COMMITTED)
    for broker in ("b2", "b3"):
        bench.ask(Create(LAYOUT.part(id_, broker), encode(PartDocument(done=True))))
    bench.settle()
    assert bench.state(0) is ActionState.COMMITTED
    bench.give(ReportAction(id_, True, held_messages=7, held_s=0.5))
    part = decode(bench.ask(Read(LAYOUT.part(id_, "b1"))).data, PartDocument, "")
    assert (part.done, part.held_messages, part.held_s) == (True, 7, 0.5)
    assert bench.state(0) is ActionState.DONE


# --- restarts ----------------------------------------------------------------------------------


def test_a_restarted_broker_aborts_what_it_has_forgotten() -> None:
    bench = Bench("b2", (FIRST,))
    bench.move(0, ActionState.RUNNING)
    assert bench.connect() == [LinkAdded("b1"), LinkAdded("b3")]
    assert bench.state(0) is ActionState.ABORTED


def test_a_restarted_broker_has_the_links_of_what_was_committed_and_reports_it() -> None:
    bench = Bench("b2", (FIRST,))
    bench.move(0, ActionState.RUNNING, ActionState.COMMITTED)
    assert bench.connect() == [LinkAdded("b3")]
    part = bench.ask(Read(LAYOUT.part(bench.id(0, 0), "b2")))
    assert decode(part.data, PartDocument, "").reason == "restarted"
    assert bench.told == []


def test_an_older_incarnation_s_node_is_replaced() -> None:
    bench = Bench("b2")
    old = BrokerDocument(address="old", epoch=0)
    bench.ask(Create(LAYOUT.broker("b2"), encode(old), ephemeral=True))
    bench.connect()
    assert bench.agent.is_ready


def test_a_newer_incarnation_s_node_is_left_alone_and_said() -> None:
    bench = Bench("b2")
    newer = BrokerDocument(address="elsewhere", epoch=5)
    bench.ask(Create(LAYOUT.broker("b2"), encode(newer), ephemeral=True))
    bench.connect()
    assert not bench.agent.is_ready
    assert bench.agent.problem == "another b2 at elsewhere has taken this one's place"


# --- reports and names -------------------------------------------------------------------------


def test_the_last_report_is_stored() -> None:
    bench = Bench("b2")
    bench.connect()
    for clients in (2, 3):
        bench.give(StatusTaken(_report(clients)))
        stored = decode(bench.ask(Read(LAYOUT.report("b2"))).data, BrokerReport, "")
        assert stored.client_count == clients


def _report(clients: int) -> BrokerReport:
    return BrokerReport(
        uptime_s=1.0,
        client_count=clients,
        subscriptions=3,
        advertisements=4,
        link_count=1,
        queue_messages=0,
        queue_bytes=0,
        notifications_lost=0,
        rates=RateStatus(),
    )


def test_a_name_that_cannot_be_a_path_is_refused() -> None:
    with pytest.raises(UnusableNameError, match="the broker's id 'b/2'"):
        Agent(AgentConfig("b/2", "demo", "", 1))


def test_own_actions_know_their_step_and_whom_they_wait_for() -> None:
    third = Shift("b1", "b3", "b4")
    plan = PlanDocument.of(Plan(((FIRST, SECOND), (third,))))
    found = own_actions(plan, "1-x", "b5")
    assert list(found) == ["1-x/0/1"]
    assert found["1-x/0/1"].waits_for == ("1-x/0/0",)
    followed = own_actions(plan, "1-x", "b3")
    assert [(id_, own.step, own.is_leader) for id_, own in followed.items()] == [
        ("1-x/0/0", 0, False),
        ("1-x/0/1", 0, False),
        ("1-x/1/0", 1, False),
    ]
    assert all(own.waits_for == () for own in followed.values())


def test_an_unsure_answer_is_asked_again_later() -> None:
    bench = Bench("b2")
    requests = bench.agent.handle(SessionChanged(StoreSessionState.CONNECTED), 0.0)
    for request in requests:
        assert isinstance(request, Read)
        again = bench.agent.handle(StoreAnswer(request, Outcome.UNSURE), 0.0)
        assert again == []
    assert bench.agent.next_deadline() == 0.5


def test_a_core_that_remembers_goes_on_with_what_runs() -> None:
    """It came back from its journal: nothing is aborted, and everything is told once more."""
    bench = Bench("b1", (FIRST,))
    bench.connect()
    bench.move(0, ActionState.RUNNING)
    config = AgentConfig("b1", "demo", "b1:1", 2, remembers=True)
    bench.start_agent(epoch=2)
    bench.agent = Agent(config)
    assert bench.connect() == [LinkAdded("b2"), ActionRequested(bench.id(0, 0), FIRST)]
    assert bench.state(0) is ActionState.RUNNING


def test_a_core_that_remembers_a_link_of_an_action_that_is_over_hears_of_that() -> None:
    bench = Bench("b1")
    bench.agent = Agent(
        AgentConfig("b1", "demo", "b1:1", 2, remembers=True, expecting=("gone/0/0",))
    )
    assert bench.connect() == [LinkAdded("b2"), ActionDecided("gone/0/0", committed=False)]


def test_what_a_core_said_last_is_said_again_where_it_matters() -> None:
    """The part of a committed action is reported; one that was given up is to be aborted."""
    bench = Bench("b3", (FIRST, SECOND))
    bench.connect()
    bench.move(0, ActionState.RUNNING, ActionState.COMMITTED)
    bench.move(1, ActionState.RUNNING)
    ended = (
        ReportAction(bench.id(0, 0), done=True),
        ReportAction(bench.id(0, 1), done=False, reason="no"),
        ReportAction("gone/0/0", done=True),
    )
    bench.start_agent(epoch=2)
    bench.agent = Agent(AgentConfig("b3", "demo", "b3:1", 2, remembers=True, ended=ended))
    bench.connect()
    assert bench.ask(Read(LAYOUT.part(bench.id(0, 0), "b3"))).outcome is Outcome.OK
    assert bench.state(1) is ActionState.ABORTED
    assert bench.ask(Read(LAYOUT.part("gone/0/0", "b3"))).outcome is Outcome.MISSING
