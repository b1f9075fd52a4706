"""Synchronization of the two ends of a link after its session restarted.

Each end sends its advertisements and then *asks* (`Synced(ADVERTISEMENTS)`); the other *answers*
(`Synced(SUBSCRIPTIONS)`) when it has forwarded every subscription that matches these. A broker that
has just restarted has none of them yet: the advertisements are new to it, so it first asks its
other neighbors, to which it has flooded them. A broker that knows them answers at once. On a tree
these questions cannot form a cycle.

Until a link's far end has answered, publications for it wait at a *gate*: a session that is down
replaces the link in routes. Otherwise a restarted broker would drop publications before it has the
subscriptions. Withdrawals of advertisements wait, too, because publications depend on these. A gate
holds up no origin, because the answer may be on its way behind that origin's publications; a full
gate opens early.

A broker that has waited long enough, perhaps for a neighbor that is down, answers in *part*
(`Synced(PART)`). That neighbor is then *unheard*, and gets every publication until it has answered,
since it knows who wants what. A broker that was answered in part opens its gate, but keeps stale
entries: the rest of the answer may confirm them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from pubweave.core.config.session import SessionLimits
from pubweave.core.session.session import Session
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.model.ids import AdvertisementId
from pubweave.model.messages.session import SequencedMessage, SyncStage, Unadvertise
from pubweave.model.publications import Publication

GATE_SHARE = 4
"""So many times as much may wait at a gate as in a session before it is congested."""

ABSENT_S = 60.0
"""How long to wait for the first connection of a new neighbor."""

NEVER = 1 << 62
"""The number of an answer that will not arrive."""

Wait = dict[Session, int]
"""Neighbors whose answer is missing, and the number that answer will have."""


class LinkSync:
    """Questions, answers and gates of all links of a broker.

    ``ask`` and ``answer`` send the two messages, or defer them until an action releases the link;
    `was_asked` counts the questions that were really sent."""

    def __init__(
        self,
        ask: Callable[[Session], None],
        answer: Callable[[Session, SyncStage], None],
        send: Callable[[Session, SequencedMessage], None],
    ) -> None:
        self._ask = ask
        self._answer = answer
        self._send = send
        self.gates: dict[Session, Session] = {}
        self._asked: dict[Session, int] = {}
        self._answers: dict[Session, int] = {}
        self._has_news: dict[Session, None] = {}
        self._waits: dict[Session, deque[Wait]] = {}
        self._answered_partly: dict[Session, None] = {}
        """Waiting neighbors that were answered in part."""
        self.partial: dict[Session, None] = {}
        """Neighbors that have answered us in part."""
        self.unheard: dict[Session, int] = {}
        """Links that get every publication, and the number of the answer that ends this."""
        self.unlearned: dict[Session, None] = {}
        """New links that have not answered yet; `unheard`, unless given up."""
        self._doubts: dict[Session, int] = {}
        """Links that migrations made `unheard`, and how many did."""
        self._withdrawn: dict[Session, dict[AdvertisementId, None]] = {}
        self._keepers: dict[Session, int] = {}
        """Reference counts of gates kept shut for other reasons."""
        self._is_answered: dict[Session, bool] = {}
        """Whether only these reasons keep the gate shut."""
        self.version = 0
        """Grows with every change of gates or `unheard`, which routes depend on."""

    def added(self, link: Session) -> None:
        """A link is new: it gets everything until it has answered for the first time. Otherwise a
        restarted broker would route by empty tables."""
        self.unlearned[link] = None
        self.unheard[link] = 1
        self.version += 1

    def give_up(self, link: Session, now: float) -> bool:
        """A link is congested. If no broker ever answered on it, stop sending to it; True then."""
        is_unknown = link in self.unlearned and link in self.unheard and not link.remote_epoch
        if not is_unknown or now - link.down_since <= ABSENT_S:
            return False
        del self.unheard[link]
        self.version += 1
        return True

    def began(self, link: Session) -> None:
        """A link's session restarted: questions and answers on it are void. What came before is no
        news when it comes again, but the others have yet to answer it."""
        self._asked[link] = self._answers[link] = 0
        if self._waits.pop(link, None):
            self._has_news[link] = None
        for known in (self._answered_partly, self.partial):
            known.pop(link, None)
        self.shut_gate(link)
        if link in self._keepers:
            self._is_answered[link] = False
        for hop, waits in self._waits.items():
            for wait in waits:
                if link in wait:
                    wait[link] = 1
                    sometimes(Branch.RESTART_WHILE_AWAITED)
                    if hop.is_client:
                        sometimes(Branch.RESTART_WHILE_PUBLISHER_WAITS)
        if self.unheard.get(link, NEVER) != NEVER:
            self.unheard[link] = 1

    def shut_gate(self, link: Session) -> None:
        """From now on publications for a link wait at a gate."""
        if link not in self.gates:
            limits = SessionLimits(congested_bytes=GATE_SHARE * link.limits.congested_bytes)
            self.gates[link] = Session(link.remote, own_epoch=0, is_client=False, limits=limits)
            self.version += 1

    def keep_shut(self, link: Session) -> None:
        """Keep a link's gate shut until `release`, even if the far end answers."""
        if link not in self._keepers:
            self._is_answered[link] = link not in self.gates
        self._keepers[link] = self._keepers.get(link, 0) + 1
        self.shut_gate(link)

    def doubt(self, link: Session) -> None:
        """The far end does not know yet what is wanted there: it gets everything."""
        self._doubts[link] = self._doubts.get(link, 0) + 1
        self.unheard[link] = NEVER
        self.version += 1

    def trust(self, link: Session) -> None:
        """Take back one `doubt`; without any, the far end's answer counts again."""
        left = self._doubts.pop(link, 1) - 1
        if left:
            self._doubts[link] = left
        elif self.unheard.get(link) == NEVER:
            del self.unheard[link]
            self.version += 1

    def release(self, link: Session) -> bool:
        """One reason less; whether nothing keeps the gate shut any more."""
        self._keepers[link] = self._keepers.get(link, 0) - 1
        if self._keepers[link] > 0:
            return False
        del self._keepers[link]
        return self._is_answered.pop(link, False)

    def clear_gate(self, link: Session) -> list[SequencedMessage]:
        """Empty a gate; what waited there, in order."""
        self._withdrawn.pop(link, None)
        return self.gates[link].restart()

    def put_at_gate(self, link: Session, messages: Sequence[SequencedMessage]) -> None:
        """Let publications, and the withdrawals between them, wait at a gate. It gets room for what
        the link held already, within reason, or it would open at once."""
        congested, size = link.limits.congested_bytes, sum(m.size_bytes for m in messages)
        room = min(size + congested, GATE_SHARE * GATE_SHARE * congested)
        limits = SessionLimits(congested_bytes=max(GATE_SHARE * congested, room))
        self.gates[link].limits = limits
        for message in messages:
            if isinstance(message, Unadvertise):
                self._withdrawn.setdefault(link, {})[message.id] = None
            self._send(self.gates[link], message)

    def removed(self, link: Session) -> None:
        self.gates.pop(link, None)
        self.unheard.pop(link, None)
        self.version += 1
        for known in (self._asked, self._answers, self._has_news, self._waits, self._withdrawn):
            known.pop(link, None)
        for also in (self._doubts, self._answered_partly, self.partial, self.unlearned):
            also.pop(link, None)
        self._forget_keepers(link)
        for hop in list(self._waits):
            for wait in self._waits[hop]:
                wait.pop(link, None)
            self._send_ready_answers(hop)

    def take_over(self, old: Session, new: Session) -> bool:
        """An action moves brokers from behind one link to behind another: who awaits an answer of
        the one also awaits the other's next answer; whether anybody does. What comes over the other
        as known is news: brokers that are asked for the first time have yet to answer it."""
        self._has_news[new] = None
        number = self._asked.get(new, 0) + 1
        moved = [
            wait
            for hop, waits in self._waits.items()
            for wait in waits
            if hop is not new and self._answers.get(old, 0) < wait.get(old, 0)
        ]
        for wait in moved:
            wait[new] = number
        return bool(moved)

    def note_news(self, link: Session) -> None:
        """A new advertisement arrived over a link, or others have yet to answer a known one."""
        self._has_news[link] = None

    def was_asked(self, link: Session) -> None:
        self._asked[link] = self._asked.get(link, 0) + 1

    def asked_for(self, client: Session, links: Iterable[Session]) -> None:
        """An own client advertises: it is answered when all neighbors have sent the matching
        subscriptions; also those that get everything anyway, for what is behind them does not."""
        self._has_news[client] = None
        self.asked_by(client, links)

    def forget_client(self, client: Session) -> None:
        for known in (self._has_news, self._waits, self._answered_partly):
            known.pop(client, None)

    def asked_by(self, hop: Session, others: Iterable[Session]) -> None:
        """A neighbor asks: answer when the other neighbors have sent what matches its new
        advertisements, and what is awaited of them anyway."""
        wait: Wait = {}
        if not hop.is_client:
            for link, number in self.unheard.items():
                if number != NEVER and link is not hop and link not in self.unlearned:
                    wait[link] = number
        if hop in self._has_news:
            del self._has_news[hop]
            for link in others:
                wait[link] = self._asked.get(link, 0) + 1
                self._ask(link)
        self._waits.setdefault(hop, deque()).append(wait)
        self.version += 1
        self._send_ready_answers(hop)

    def awaited_by(self, hop: Session) -> list[Session]:
        """The links whose answer a neighbor waits for: what it sends meanwhile, perhaps under the
        advertisement that it asked about, goes to them, too."""
        return [
            link
            for wait in self._waits.get(hop, ())
            for link, number in wait.items()
            if self._answers.get(link, 0) < number
        ]

    def answered_by(self, hop: Session) -> None:
        """A neighbor answered: its gate opens, and others may be answered."""
        self._answers[hop] = self._answers.get(hop, 0) + 1
        if hop in self.unheard and self._answers[hop] >= self.unheard[hop]:
            del self.unheard[hop]
            self.version += 1
        self.partial.pop(hop, None)
        self.unlearned.pop(hop, None)
        self.open_gate(hop)
        self.version += bool(self._waits)
        for asker in list(self._waits):
            self._send_ready_answers(asker)

    def answered_in_part_by(self, hop: Session) -> None:
        """A neighbor accepts publications, and forwards more than it would if it knew all."""
        self.partial[hop] = None
        self.open_gate(hop)

    def is_unanswered(self, link: Session) -> bool:
        """Whether a restarted neighbor has not answered yet, or only in part."""
        is_asked = self._answers.get(link, 0) < self._asked.get(link, 0)
        return link in self.partial or (link in self.gates and is_asked)

    def open_gate(self, link: Session) -> None:
        if link in self._keepers:
            self._is_answered[link] = True
            sometimes(Branch.GATE_KEPT_SHUT)
            return
        gate = self.gates.pop(link, None)
        self._withdrawn.pop(link, None)
        if gate is not None:
            self.version += 1
            for message in gate.restart():
                self._send(link, message)

    def withdraw(self, link: Session, id_: AdvertisementId) -> None:
        """Withdraw an advertisement, behind the publications that may depend on it."""
        gate = self.gates.get(link)
        if gate is not None:
            self._withdrawn.setdefault(link, {})[id_] = None
        self._send(gate or link, Unadvertise(id_))

    def forget_withdrawal(self, link: Session, id_: AdvertisementId) -> None:
        """An advertisement is sent again: a waiting withdrawal of it is void."""
        if id_ not in self._withdrawn.get(link, ()):
            return
        del self._withdrawn[link][id_]
        gate = self.gates[link]
        kept = [m for m in gate.restart() if not (isinstance(m, Unadvertise) and m.id == id_)]
        gate.pending.extend(kept)
        gate.flush([])

    def open_full_gates(self) -> int:
        """Open them early; how many publications may be lost by that. A far end that has been asked
        passes on what comes before its answer (`awaited_by`); one that a migration keeps in the
        dark does not."""
        count = 0
        for link in [link for link, gate in self.gates.items() if gate.is_congested]:
            sometimes(Branch.FULL_GATE)
            if link in self._keepers:
                waiting = self.gates[link].waiting
                count += sum(type(message) is Publication for message in waiting)
            self._forget_keepers(link)
            self.open_gate(link)
        return count

    def _forget_keepers(self, link: Session) -> None:
        self._keepers.pop(link, None)
        self._is_answered.pop(link, None)

    def stop_waiting(self, hop: Session) -> None:
        """A neighbor has waited long enough: answer it in part; if it has waited for as long again,
        await only neighbors that are down or have answered in part themselves."""
        waits = self._waits.get(hop)
        if not waits:
            return
        if hop in self._answered_partly:
            self._give_up_silent(hop)
            return
        if hop.is_client:
            del self._waits[hop]
        for wait in waits:
            for link, number in wait.items():
                if self._answers.get(link, 0) < number:
                    self.unheard[link] = number
                    sometimes(Branch.UNHEARD_GETS_ALL)
                    self.version += 1
        if not hop.is_client:
            self._answered_partly[hop] = None
        self._answer(hop, SyncStage.PART)
        sometimes(Branch.ANSWER_IN_PART)

    def _give_up_silent(self, hop: Session) -> None:
        """A connected neighbor that has not answered for this long will not: stop awaiting it."""
        for wait in self._waits[hop]:
            for link in [link for link in wait if link.is_established]:
                if link not in self.partial and self._answers.get(link, 0) < wait[link]:
                    del wait[link]
                    self.unheard.pop(link, None)
                    sometimes(Branch.SILENT_GIVEN_UP)
                    self.version += 1
        self._send_ready_answers(hop)

    def _send_ready_answers(self, hop: Session) -> None:
        waits = self._waits.get(hop)
        while waits and all(self._answers.get(link, 0) >= n for link, n in waits[0].items()):
            waits.popleft()
            self._answer(hop, SyncStage.SUBSCRIPTIONS)
        if not waits:
            self._waits.pop(hop, None)
            self._answered_partly.pop(hop, None)

    def is_waiting(self, hop: Session) -> bool:
        return bool(self._waits.get(hop))
