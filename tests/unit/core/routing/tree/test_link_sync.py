"""Questions and answers after a link began anew, and the gates before it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pubweave.core.config.session import SessionLimits
from pubweave.core.routing.tree.link_sync import GATE_SHARE, LinkSync
from pubweave.core.session.session import Session
from pubweave.core.session.states import SessionState
from pubweave.model.messages.session import SequencedMessage, SyncStage
from pubweave.model.publications import Publication, make_publication

GATE_BYTES = GATE_SHARE * SessionLimits().congested_bytes


class Setup:
    """A broker with three links; what it asks, answers and sends are lists."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answered: list[str] = []
        self.sent: list[tuple[str, int | str]] = []
        self.sync = LinkSync(self._ask, self._answer, self._send)
        self.a, self.b, self.c = (
            Session(name, own_epoch=1, is_client=False, limits=SessionLimits()) for name in "abc"
        )
        for link in (self.a, self.b, self.c):
            self.sync.began(link)
            self._ask(link)
        self.asked.clear()

    def _ask(self, link: Session) -> None:
        self.asked.append(link.remote)
        self.sync.was_asked(link)

    def _answer(self, link: Session, stage: SyncStage) -> None:
        self.answered.append(link.remote + ("..." if stage is SyncStage.PART else ""))

    def _send(self, link: Session, message: SequencedMessage) -> None:
        if link in self.sync.gates.values():
            link.pending.append(message)
            return
        said = message.sequence if isinstance(message, Publication) else getattr(message, "id", "")
        self.sent.append((link.remote, said))


def publication(sequence: int, size: int = 10) -> Publication:
    return make_publication("p", sequence, "t", {}, b"x" * size, 0.0)


def test_who_brings_no_news_is_answered_at_once() -> None:
    setup = Setup()
    setup.sync.asked_by(setup.a, [setup.b, setup.c])
    assert setup.answered == ["a"]
    assert setup.asked == []


def test_an_own_client_also_awaits_a_link_that_gets_everything() -> None:
    """What is behind it does not know the advertisement yet."""
    setup = Setup()
    client = Session("k", own_epoch=1, is_client=True, limits=SessionLimits())
    setup.sync.unheard[setup.b] = 2
    setup.sync.asked_for(client, [setup.a, setup.b])
    setup.sync.answered_by(setup.a)
    setup.sync.answered_by(setup.a)
    assert setup.answered == []
    setup.sync.answered_by(setup.b)
    setup.sync.answered_by(setup.b)
    assert setup.answered == ["k"]


def test_who_brings_news_is_answered_when_the_others_have_answered_a_later_question() -> None:
    setup = Setup()
    setup.sync.note_news(setup.a)
    setup.sync.asked_by(setup.a, [setup.b, setup.c])
    assert setup.asked == ["b", "c"]
    setup.sync.answered_by(setup.b)
    setup.sync.answered_by(setup.c)
    assert setup.answered == [], "those were the answers to the first questions"
    setup.sync.answered_by(setup.b)
    assert setup.answered == []
    setup.sync.answered_by(setup.c)
    assert setup.answered == ["a"]


def test_a_neighbor_that_begins_anew_or_goes_keeps_nobody_waiting_for_ever() -> None:
    setup = Setup()
    setup.sync.note_news(setup.a)
    setup.sync.asked_by(setup.a, [setup.b, setup.c])
    setup.sync.began(setup.b)
    setup.sync.answered_by(setup.b)
    assert setup.answered == []
    setup.sync.removed(setup.c)
    assert setup.answered == ["a"]


def test_whoever_waited_long_enough_is_answered_in_part_once_and_then_wholly() -> None:
    setup = Setup()
    setup.sync.answered_by(setup.b)
    setup.sync.note_news(setup.a)
    setup.sync.asked_by(setup.a, [setup.b])
    for _ in range(2):
        setup.sync.stop_waiting(setup.a)
        assert setup.answered == ["a..."]
        assert [*setup.sync.unheard] == [setup.b]
    setup.sync.answered_by(setup.b)
    assert (setup.answered, setup.sync.unheard) == (["a...", "a"], {})


def test_who_is_there_and_says_nothing_for_as_long_again_is_not_waited_for() -> None:
    """A question or an answer may go astray with an action; one that is away does not."""
    setup = Setup()
    setup.sync.answered_by(setup.b)
    setup.sync.answered_by(setup.c)
    setup.sync.note_news(setup.a)
    setup.sync.asked_by(setup.a, [setup.b, setup.c])
    setup.b.state = SessionState.ESTABLISHED
    for _ in range(3):
        setup.sync.stop_waiting(setup.a)
    assert (setup.answered, [*setup.sync.unheard]) == (["a..."], [setup.c])
    setup.c.state = SessionState.ESTABLISHED
    setup.sync.answered_in_part_by(setup.c)
    setup.sync.stop_waiting(setup.a)
    assert setup.answered == ["a..."]
    setup.sync.answered_by(setup.c)
    assert setup.answered == ["a...", "a"]


def test_who_asks_without_news_waits_for_those_who_are_unheard() -> None:
    setup = Setup()
    setup.sync.answered_by(setup.b)
    setup.sync.note_news(setup.a)
    setup.sync.asked_by(setup.a, [setup.b])
    setup.sync.stop_waiting(setup.a)
    setup.sync.asked_by(setup.c, [setup.a, setup.b])
    assert setup.answered == ["a..."]
    setup.sync.answered_by(setup.b)
    assert setup.answered == ["a...", "a", "c"]


def test_an_answer_in_part_opens_the_gate_and_is_no_answer() -> None:
    setup = Setup()
    setup.sync.answered_in_part_by(setup.a)
    assert (setup.a in setup.sync.gates, [*setup.sync.partial]) == (False, [setup.a])
    setup.sync.note_news(setup.b)
    setup.sync.asked_by(setup.b, [setup.a])
    setup.sync.answered_by(setup.a)
    assert (setup.answered, setup.sync.partial) == ([], {}), "this was the first question's"
    setup.sync.answered_by(setup.a)
    assert setup.answered == ["b"]


def test_an_answer_opens_the_gate_and_lets_what_waited_go_in_order() -> None:
    setup = Setup()
    gate = setup.sync.gates[setup.a]
    gate.pending += [publication(1)]
    gate.flush([])
    gate.pending += [publication(2)]
    setup.sync.answered_by(setup.a)
    assert setup.sent == [("a", 1), ("a", 2)]
    assert setup.a not in setup.sync.gates


def test_a_withdrawal_waits_behind_the_publications_unless_it_is_void_by_then() -> None:
    setup = Setup()
    gate = setup.sync.gates[setup.a]
    gate.pending.append(publication(1))
    setup.sync.withdraw(setup.a, "p:1")
    gate.pending.append(publication(2))
    setup.sync.withdraw(setup.a, "p:2")
    setup.sync.forget_withdrawal(setup.a, "p:2")
    setup.sync.forget_withdrawal(setup.b, "p:1")
    setup.sync.answered_by(setup.a)
    assert setup.sent == [("a", 1), ("a", "p:1"), ("a", 2)]


def test_a_full_gate_opens_before_its_time() -> None:
    setup = Setup()
    gate = setup.sync.gates[setup.b]
    gate.pending += [publication(1)]
    gate.flush([])
    setup.sync.open_full_gates()
    assert setup.b in setup.sync.gates
    gate.pending += [publication(2, size=GATE_BYTES)]
    gate.flush([])
    assert setup.sync.open_full_gates() == 0, "the far end was asked, and passes them on"
    assert setup.sent == [("b", 1), ("b", 2)]
    assert setup.b not in setup.sync.gates


def test_what_a_link_held_already_does_not_open_its_gate() -> None:
    setup = Setup()
    gate = setup.sync.gates[setup.b]
    setup.sync.put_at_gate(setup.b, [publication(1, 2 * GATE_BYTES)])
    gate.flush([])
    setup.sync.open_full_gates()
    assert setup.sent == []
    gate.pending += [publication(2, size=GATE_BYTES)]
    gate.flush([])
    setup.sync.open_full_gates()
    assert setup.sent == [("b", 1), ("b", 2)]


def test_a_gate_that_is_kept_shut_opens_when_all_who_keep_it_have_let_go() -> None:
    setup = Setup()
    setup.sync.keep_shut(setup.a)
    setup.sync.keep_shut(setup.a)
    setup.sync.put_at_gate(setup.a, [publication(1)])
    setup.sync.answered_by(setup.a)
    assert setup.sent == []
    assert not setup.sync.release(setup.a)
    assert setup.sync.release(setup.a)
    setup.sync.open_gate(setup.a)
    assert setup.sent == [("a", 1)]


def test_one_that_waits_for_its_answer_still_waits_when_it_is_let_go() -> None:
    setup = Setup()
    setup.sync.keep_shut(setup.a)
    assert not setup.sync.release(setup.a)
    assert setup.a in setup.sync.gates
    setup.sync.answered_by(setup.a)
    assert setup.a not in setup.sync.gates


def test_a_full_gate_opens_whoever_keeps_it() -> None:
    setup = Setup()
    setup.sync.keep_shut(setup.a)
    setup.sync.gates[setup.a].pending.append(publication(1, 2 * GATE_BYTES))
    setup.sync.gates[setup.a].flush([])
    assert setup.sync.open_full_gates() == 1, "a far end that is kept in the dark may lose it"
    assert setup.sent == [("a", 1)]
    assert not setup.sync.release(setup.a)


def test_a_question_that_a_restart_interrupts_is_asked_of_the_others_again() -> None:
    setup = Setup()
    setup.sync.note_news(setup.a)
    setup.sync.began(setup.a)  # before the question
    setup.sync.asked_by(setup.a, [setup.b, setup.c])
    assert setup.asked == ["b", "c"]
    setup.sync.began(setup.a)  # before the answer
    setup.sync.asked_by(setup.a, [setup.b, setup.c])
    assert setup.asked == ["b", "c", "b", "c"]
    assert setup.answered == []


def test_who_awaits_an_answer_awaits_it_of_both_links_when_brokers_move_behind_another() -> None:
    setup = Setup()
    setup.sync.note_news(setup.a)
    setup.sync.asked_by(setup.a, [setup.b])
    setup.sync.answered_by(setup.c)
    assert setup.sync.take_over(setup.b, setup.c)
    setup.sync.was_asked(setup.c)
    for _ in range(2):
        setup.sync.answered_by(setup.b)
    assert setup.answered == []
    setup.sync.answered_by(setup.c)
    assert setup.answered == ["a"]


def test_what_a_link_brings_that_takes_over_is_news() -> None:
    setup = Setup()
    assert not setup.sync.take_over(setup.b, setup.c)
    setup.sync.asked_by(setup.c, [setup.a])
    assert setup.asked == ["a"]


CHANGES = ("began", "shut_gate", "open_gate", "keep_shut", "release", "doubt", "trust", "note_news")
CHANGES += ("asked_by", "answered_by", "answered_in_part_by", "stop_waiting", "removed")


@given(st.lists(st.tuples(st.sampled_from(CHANGES), st.sampled_from("abc")), max_size=40))
def test_the_version_grows_with_every_change_that_routes_go_by(
    changes: list[tuple[str, str]],
) -> None:
    setup = Setup()
    sync, links = setup.sync, {"a": setup.a, "b": setup.b, "c": setup.c}
    for what, name in changes:
        before = sync.version, [*sync.gates], [*sync.unheard]
        others = [link for other, link in links.items() if other != name]
        getattr(sync, what)(links[name], *([others] if what == "asked_by" else []))
        assert before[1:] == ([*sync.gates], [*sync.unheard]) or sync.version > before[0]
