"""Marked branches can be reached: some by hand, all by runs of the simulator."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from soak.count_marks import FIRST_SEED, count_marks, kinds, runs

from pubweave.core.config.session import SessionLimits
from pubweave.core.dataplane.publishing import EarlyLog
from pubweave.core.journal.engine import JournalEngine, JournalPolicy
from pubweave.core.mqtt.session.deduplicator import SessionDeduplicator
from pubweave.core.routing.publisher_gate import PublisherGate
from pubweave.core.routing.topic_connected.topic_log import TopicLogs
from pubweave.core.routing.tree.link_sync import LinkSync
from pubweave.core.session.backpressure import FlowControl
from pubweave.core.session.session import Session
from pubweave.core.vocabulary.rare_branches import Branch
from pubweave.model.messages.session import Role
from pubweave.model.publications import Publication, make_publication
from pubweave.sim.kernel.marks import MARKS, counted
from pubweave.sim.simulate import SCENARIOS, run_seed
from pubweave.wire.journal_files import JournalFiles, SnapshotHead
from tests.sim.shift_drill import Drill


def session(name: str = "a", *, is_client: bool = False, congested_bytes: int = 50) -> Session:
    limits = SessionLimits(congested_bytes=congested_bytes, relieved_bytes=10)
    return Session(name, own_epoch=1, is_client=is_client, limits=limits)


def publication(sequence: int, size: int = 300) -> Publication:
    return make_publication("p", sequence, "t", {}, b"x" * size, 0.0)


def synced(*links: Session) -> LinkSync:
    def send(link: Session, message: object) -> None:
        link.pending.append(message)  # type: ignore[arg-type]

    sync = LinkSync(lambda link: None, lambda link, stage: None, send)
    for link in links:
        sync.began(link)
        sync.was_asked(link)
    return sync


def fill_a_gate() -> None:
    link = session()
    sync = synced(link)
    sync.put_at_gate(link, [publication(sequence) for sequence in range(1, 5)])
    sync.gates[link].flush([])
    sync.open_full_gates()


def answer_while_the_gate_is_kept_shut() -> None:
    link = session()
    sync = synced(link)
    sync.keep_shut(link)
    sync.answered_by(link)


def wait_for_somebody_who_is_silent() -> None:
    near, far = session("near"), session("far")
    sync = synced(near, far)
    far.opened(1)
    far.take_hello(session("far").hello(Role.BROKER, "far"))
    sync.note_news(near)
    sync.asked_by(near, [far])
    sync.stop_waiting(near)
    sync.stop_waiting(near)


def restart_while_a_publisher_waits() -> None:
    client, link = session("p", is_client=True), session()
    sync = synced(link)
    sync.asked_for(client, [link])
    sync.began(link)


def wait_at_the_publisher_gate() -> None:
    client, gate = session("p", is_client=True), PublisherGate()
    gate.shut(client)
    gate.admit(client, [publication(1)])
    gate.greeted(client, is_returning=False)


def resume_in_the_window() -> None:
    near, far = session("far"), session("near")
    near.opened(1)
    far.opened(1)
    near.unacked.extend([publication(1), publication(2)])
    near.remote_epoch, far.remote_epoch, far.received = 1, 1, 1
    near.take_hello(far.hello(Role.BROKER, "far"))


def hold_up_a_link() -> None:
    FlowControl(ack_delay_s=0.0).hold(session("fed"), session("full"), 0.0)


def overflow_the_early_log() -> None:
    EarlyLog(10.0, 100, lambda client, p: True).note(publication(1), session(), 0.0)


def overflow_a_topic_log() -> None:
    logs = TopicLogs()
    logs.begin("t", 0.0)
    logs.append(logs["t"], publication(1), 0.0)
    logs.clean_up(1.0, 30.0, 100)


def give_an_mqtt_session_the_same_twice() -> None:
    given = SessionDeduplicator()
    given.learn([("p", "t", 1), ("p", "t", 1)])


def refuse_what_a_journal_writes() -> None:
    files = JournalFiles(SnapshotHead("b1", "test"), 0, [])
    engine = JournalEngine(files, JournalPolicy(lazy_bytes=1), lambda connection: False)
    engine.begin(b"snapshot", 0.0)
    while engine.done():
        pass
    engine.measured(10.0)
    engine.noted(b"record", [])
    engine.snapshot_taken(None, 0.0)
    engine.failed("the disk is full", 0.0)


def overflow_a_shift() -> None:
    drill = Drill(hold_limit_bytes=300)
    drill.run()
    assert not drill.is_committed


CRAFTED = {
    fill_a_gate: [Branch.FULL_GATE],
    answer_while_the_gate_is_kept_shut: [Branch.GATE_KEPT_SHUT],
    wait_for_somebody_who_is_silent: [
        Branch.ANSWER_IN_PART,
        Branch.UNHEARD_GETS_ALL,
        Branch.SILENT_GIVEN_UP,
    ],
    restart_while_a_publisher_waits: [
        Branch.RESTART_WHILE_AWAITED,
        Branch.RESTART_WHILE_PUBLISHER_WAITS,
    ],
    wait_at_the_publisher_gate: [Branch.PUBLISHER_WAITS, Branch.PUBLISHER_RECONNECTS],
    resume_in_the_window: [Branch.RESUMED_IN_WINDOW],
    hold_up_a_link: [Branch.LINK_HELD_UP],
    overflow_the_early_log: [Branch.EARLY_LOG_FULL],
    overflow_a_topic_log: [Branch.LOG_FULL],
    give_an_mqtt_session_the_same_twice: [Branch.MQTT_DUPLICATE],
    refuse_what_a_journal_writes: [Branch.SNAPSHOT_REFUSED, Branch.BATCH_REFUSED],
    overflow_a_shift: [Branch.HOLD_OVERFLOWS, Branch.ABORTED_WHILE_HOLDING],
}


@pytest.mark.parametrize("reach", CRAFTED, ids=lambda reach: reach.__name__)
def test_a_branch_is_marked_when_it_is_reached(reach: Callable[[], None]) -> None:
    with counted() as reached:
        reach()
    assert {branch.name for branch in CRAFTED[reach]} <= reached.keys()


def test_a_result_says_which_marks_its_run_has_reached() -> None:
    result = run_seed("routing", 3, max_brokers=4, durability="journal")
    assert result.marks
    assert result.marks.keys() <= MARKS.keys()


def test_marks_are_counted_over_every_scenario_with_brokers_and_no_seed_twice() -> None:
    drawn = list(runs(2000))
    assert {scenario for scenario, _, _ in drawn} == SCENARIOS.keys() - {"autopilot"}
    assert len({seed for _, _, seed in drawn}) == 2000
    assert drawn[0][2] == FIRST_SEED
    assert len({str(run[:2]) for run in drawn[: len(kinds())]}) == len(kinds())


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_no_marked_branch_is_out_of_reach_of_2000_runs() -> None:
    reached, _ = count_marks(2000, jobs=2, to_the_end=False)
    assert MARKS.keys() - reached.keys() == set()
