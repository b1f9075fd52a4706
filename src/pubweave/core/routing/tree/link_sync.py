"""When the two ends of a link know enough of each other after its session began anew.

Each end tells its advertisements and then *asks* (`Synced(ADVERTISEMENTS)`); the other *answers*
(`Synced(SUBSCRIPTIONS)`) when it has passed on every subscription that these advertisements call
for. A broker that has just restarted knows none of those yet: the advertisements were news to it,
so before it answers it asks its other neighbors, to whom it has flooded them. A broker to which
they are no news answers at once. On a tree these questions cannot run in a circle.

Until a link's far end has answered, publications for it wait at a *gate*: a session that is down
takes the link's place in routes. Else a restarted broker would drop what it gets before it knows
who wants it. Withdrawals of advertisements wait with them, for publications rest on these. A gate
holds nobody up, because an answer it waits for may be under way behind the publications of whom
it would hold up; a gate that is full opens before its time.

A broker that has waited long enough, perhaps for a neighbor that is down, answers in *part*
(`Synced(PART)`). That neighbor is *unheard* then, and gets every publication until it has answered:
it knows who wants what. Whoever was answered in part opens its gate, but forgets nothing that it
knew of before: the rest of the answer may bring it again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from pubweave.core.config.session import SessionLimits
from pubweave.core.session.session import Session
from pubweave.model.ids import AdvertisementId
from pubweave.model.messages.session import SequencedMessage, SyncStage, Unadvertise

GATE_BYTES = 4 << 20
"""How much may wait at a gate."""

ABSENT_S = 60.0
"""A neighbor that was not there once in so long after it became one is not waited for."""

NEVER = 1 << 62
"""The number of an answer that does not come."""

Wait = dict[Session, int]
"""Neighbors whose answer is missing, and the number that answer will have."""


class LinkSync:
    """Questions, answers and gates of all links of a broker.

    ``ask`` and ``answer`` send the two messages, or see to it that they are sent when an action
    lets the link go; `was_asked` tells of every question that was really sent."""

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
        """Who waits, and has been answered in part."""
        self.partial: dict[Session, None] = {}
        """Who has answered us in part."""
        self.unheard: dict[Session, int] = {}
        """Links that may want anything, and the number of the answer that will say what."""
        self.unlearned: dict[Session, None] = {}
        """Links that are new to us and have not answered yet; `unheard`, unless given up."""
        self._doubts: dict[Session, int] = {}
        """Those of which a migration says so, and how many do."""
        self._withdrawn: dict[Session, dict[AdvertisementId, None]] = {}
        self._keepers: dict[Session, int] = {}
        """Gates that stay shut for other reasons, and how many these are."""
        self._is_answered: dict[Session, bool] = {}
        """Whether there are no more reasons than those."""
        self.version = 0
        """Grows with every change of gates or of who is unheard: routes go by them."""

    def added(self, link: Session) -> None:
        """A link is new to us: it gets everything until it has answered for the first time. A
        broker that was restarted would else publish by empty tables, to nobody."""
        self.unlearned[link] = None
        self.unheard[link] = 1
        self.version += 1

    def give_up(self, link: Session, now: float) -> bool:
        """Too much waits for a link. If no broker ever answered on it, stop sending to it; True."""
        is_unknown = link in self.unlearned and link in self.unheard and not link.remote_epoch
        if not is_unknown or now - link.down_since <= ABSENT_S:
            return False
        del self.unheard[link]
        self.version += 1
        return True

    def began(self, link: Session) -> None:
        """A link's session began anew: whatever was asked or answered on it is void."""
        self._asked[link] = self._answers[link] = 0
        for known in (self._has_news, self._waits, self._answered_partly, self.partial):
            known.pop(link, None)
        self.shut_gate(link)
        if link in self._keepers:
            self._is_answered[link] = False
        for waits in self._waits.values():
            for wait in waits:
                if link in wait:
                    wait[link] = 1
        if self.unheard.get(link, NEVER) != NEVER:
            self.unheard[link] = 1

    def shut_gate(self, link: Session) -> None:
        """From here on publications for a link wait."""
        if link not in self.gates:
            limits = SessionLimits(congested_bytes=GATE_BYTES)
            self.gates[link] = Session(link.remote, own_epoch=0, is_client=False, limits=limits)
            self.version += 1

    def keep_shut(self, link: Session) -> None:
        """Whatever the far end says, a link's gate stays shut until it is released."""
        if link not in self._keepers:
            self._is_answered[link] = link not in self.gates
        self._keepers[link] = self._keepers.get(link, 0) + 1
        self.shut_gate(link)

    def doubt(self, link: Session) -> None:
        """The far end itself does not know yet what is wanted there: it gets everything."""
        self._doubts[link] = self._doubts.get(link, 0) + 1
        self.unheard[link] = NEVER
        self.version += 1

    def trust(self, link: Session) -> None:
        """One doubt less; without any, what the far end has answered counts again."""
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
        """Whatever waits at a gate, in order; nothing does afterwards."""
        self._withdrawn.pop(link, None)
        return self.gates[link].restart()

    def put_at_gate(self, link: Session, messages: Sequence[SequencedMessage]) -> None:
        """Publications, and withdrawals in their places between them, wait at a gate."""
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

    def note_news(self, link: Session) -> None:
        """An advertisement came over a link that was not known."""
        self._has_news[link] = None

    def was_asked(self, link: Session) -> None:
        self._asked[link] = self._asked.get(link, 0) + 1

    def asked_for(self, client: Session, links: Iterable[Session]) -> None:
        """An own client advertises: it is answered when all neighbors have told what that calls
        for; those that get everything anyway are not waited for."""
        self._has_news[client] = None
        self.asked_by(client, [link for link in links if link not in self.unheard])

    def forget_client(self, client: Session) -> None:
        for known in (self._has_news, self._waits, self._answered_partly):
            known.pop(client, None)

    def asked_by(self, hop: Session, others: Iterable[Session]) -> None:
        """A neighbor asks: answer when the other neighbors have told what its news call for, and
        what is awaited of them anyway."""
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
        self._send_ready_answers(hop)

    def answered_by(self, hop: Session) -> None:
        """A neighbor answered: its gate opens, and others may be answered."""
        self._answers[hop] = self._answers.get(hop, 0) + 1
        if hop in self.unheard and self._answers[hop] >= self.unheard[hop]:
            del self.unheard[hop]
            self.version += 1
        self.partial.pop(hop, None)
        self.unlearned.pop(hop, None)
        self.open_gate(hop)
        for asker in list(self._waits):
            self._send_ready_answers(asker)

    def answered_in_part_by(self, hop: Session) -> None:
        """A neighbor takes publications, and passes on more than it would if it knew all."""
        self.partial[hop] = None
        self.open_gate(hop)

    def is_unanswered(self, link: Session) -> bool:
        """Whether a neighbor that began anew has yet to answer, or to answer wholly."""
        is_asked = self._answers.get(link, 0) < self._asked.get(link, 0)
        return link in self.partial or (link in self.gates and is_asked)

    def open_gate(self, link: Session) -> None:
        if link in self._keepers:
            self._is_answered[link] = True
            return
        gate = self.gates.pop(link, None)
        self._withdrawn.pop(link, None)
        if gate is not None:
            self.version += 1
            for message in gate.restart():
                self._send(link, message)

    def withdraw(self, link: Session, id_: AdvertisementId) -> None:
        """Tell that an advertisement is gone, behind the publications that may rest on it."""
        gate = self.gates.get(link)
        if gate is not None:
            self._withdrawn.setdefault(link, {})[id_] = None
        self._send(gate or link, Unadvertise(id_))

    def forget_withdrawal(self, link: Session, id_: AdvertisementId) -> None:
        """An advertisement is told anew: a withdrawal of it that still waits is void."""
        if id_ not in self._withdrawn.get(link, ()):
            return
        del self._withdrawn[link][id_]
        gate = self.gates[link]
        kept = [m for m in gate.restart() if not (isinstance(m, Unadvertise) and m.id == id_)]
        gate.pending.extend(kept)
        gate.flush([])

    def open_full_gates(self) -> None:
        for link in [link for link, gate in self.gates.items() if gate.is_congested]:
            self._forget_keepers(link)
            self.open_gate(link)

    def _forget_keepers(self, link: Session) -> None:
        self._keepers.pop(link, None)
        self._is_answered.pop(link, None)

    def stop_waiting(self, hop: Session) -> None:
        """A neighbor has waited long enough: it is answered in part; if it has waited for as long
        again, only those who are away or have answered in part themselves are waited for."""
        waits = self._waits.get(hop)
        if not waits:
            return
        if hop in self._answered_partly:
            self._give_up_silent(hop)
            return
        for wait in waits:
            for link, number in wait.items():
                if self._answers.get(link, 0) < number:
                    self.unheard[link] = number
                    self.version += 1
        self._answered_partly[hop] = None
        self._answer(hop, SyncStage.PART)

    def _give_up_silent(self, hop: Session) -> None:
        """Who is there and says nothing for so long will not: a question of ours went astray."""
        for wait in self._waits[hop]:
            for link in [link for link in wait if link.is_established]:
                if link not in self.partial and self._answers.get(link, 0) < wait[link]:
                    del wait[link]
                    self.unheard.pop(link, None)
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
        return hop in self._waits
