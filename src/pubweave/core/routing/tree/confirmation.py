"""Confirms subscriptions: are they in place wherever their publications may come from?

A subscription travels towards the publishers, and until it is there publications are missed. So a
question follows it (`ConfirmRequest`), also where one that covers it was passed on before and may
still be under way. A broker asks on along every link from which an intersecting advertisement came,
and answers (`ConfirmReply`) when all of those have answered; the client's broker then tells it
(`Confirmed`). Links are first in, first out: what a question follows is there before it.

```
 client -Subscribe-> home -Subscribe, ConfirmRequest-> ... -> the publishers' brokers
        <-Confirmed-      <------ConfirmReply-------------
```

A broker that does not know all advertisements yet must not answer, or a subscription would be
confirmed past publishers. So each tells its neighbors when it knows all that are reached through it
(`Synced(COMPLETE)`): a leaf at once, others when all other neighbors have said so. An advertisement
that comes later does no harm: its publisher waits until the tree has answered it (`link_sync`).

Questions are soft state. The home asks again after a while; brokers in between forget one that is
not asked again. What a link was asked is void when its session restarts; then it is asked anew. A
confirmation stays right over restarts: a broker that has lost its tables is sent them again, its
neighbors keep what it told them, and until they know its new ones they send it everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pubweave.core.routing.strategy import Send
from pubweave.core.routing.tree.link_table import LinkTable
from pubweave.core.session.session import Session
from pubweave.model.filters.filter import Filter
from pubweave.model.ids import SubscriptionId
from pubweave.model.messages.session import (
    Confirmed,
    ConfirmReply,
    ConfirmRequest,
    Synced,
    SyncStage,
)

AGAIN_TICKS = 5
"""A question that is not answered after so many ticks is asked again."""
FORGET_TICKS = 4 * AGAIN_TICKS
"""A neighbor's question that was not asked again for so long is forgotten."""


class Question:
    """Whether one subscription is in place beyond this broker, as seen from ``hop``."""

    def __init__(
        self, hop: Session, id_: SubscriptionId, filter_: Filter, asked: int, number: int
    ) -> None:
        self.hop = hop
        self.id = id_
        self.filter = filter_
        self.asked = asked
        """The number by which ``hop`` asked; 0 if it is the subscriber itself."""
        self.number = number
        """By which this broker asks on."""
        self.awaited: dict[Session, None] = {}
        """Links that were asked and have not answered."""
        self.answered: dict[Session, None] = {}
        self.ticks = 0
        """Since it was asked, or asked again."""


class SubscriptionConfirmation:
    """The open questions of one broker. ``has`` says whether a subscription, or one that covers it,
    came from a session."""

    def __init__(
        self,
        links: Mapping[Session, LinkTable],
        has: Callable[[Session, SubscriptionId, Filter], bool],
        send: Send,
    ) -> None:
        self._links = links
        self._has = has
        self._send = send
        self._numbers = 0
        self._questions: dict[int, Question] = {}
        self._of: dict[Session, dict[SubscriptionId, Question]] = {}
        self.incomplete: dict[Session, None] = {}
        """Links whose far end may not know all advertisements that are reached through it."""
        self._owed: dict[Session, None] = {}
        """Links that were not told yet that we know all others' advertisements."""

    # --- links -----------------------------------------------------------------------------

    def link_began(self, link: Session) -> None:
        """A link is new, or its session began anew: the far end may know nothing."""
        self.incomplete[link] = self._owed[link] = None
        self._forget_link(link)

    def link_removed(self, link: Session) -> None:
        self.incomplete.pop(link, None)
        self._owed.pop(link, None)
        self._forget_link(link)

    def _forget_link(self, link: Session) -> None:
        self.forget_hop(link)
        for question in self._questions.values():
            question.awaited.pop(link, None)
            question.answered.pop(link, None)

    def completed_by(self, link: Session) -> None:
        """The far end of a link knows all advertisements that are reached through it."""
        self.incomplete.pop(link, None)
        self.check()

    def tell_complete(self) -> None:
        """Tell neighbors that we know all advertisements that are reached through us."""
        for link in list(self._owed):
            is_open = link.is_established and not self._links[link].is_held
            if not is_open or any(other is not link for other in self.incomplete):
                continue
            del self._owed[link]
            self._send(link, Synced(SyncStage.COMPLETE))

    # --- questions -------------------------------------------------------------------------

    def subscribed(self, client: Session, id_: SubscriptionId, filter_: Filter) -> None:
        """An own client subscribes, or came here with this subscription."""
        self._begin(client, id_, filter_, 0)

    def forget(self, hop: Session, id_: SubscriptionId) -> None:
        """A subscription was withdrawn, or comes from elsewhere now."""
        question = self._of.get(hop, {}).pop(id_, None)
        if question is not None:
            del self._questions[question.number]

    def forget_hop(self, hop: Session) -> None:
        """A client has left, or a neighbor has forgotten what it asked."""
        for question in self._of.pop(hop, {}).values():
            del self._questions[question.number]

    def asked_by(self, link: Session, request: ConfirmRequest) -> None:
        """A neighbor asks, perhaps again."""
        if link not in self._links:
            return  # an action is about to add it; the neighbor asks again
        known = self._of.get(link, {}).get(request.id)
        if known is None or known.asked != request.number:
            self._begin(link, request.id, request.filter, request.number)
            return
        known.ticks = 0
        self._ask_again(known)

    def answered_by(self, link: Session, reply: ConfirmReply) -> None:
        question = self._questions.get(reply.number)
        if question is not None and link in question.awaited:
            del question.awaited[link]
            question.answered[link] = None
            self._check(question)

    def advertised_less(self, link: Session) -> None:
        """An advertisement from a link was withdrawn, and so was what only it made needed: the
        far end has forgotten questions about that. O(questions)"""
        for question in list(self._questions.values()):
            if link in question.awaited and not self._links[link].is_needed(question.filter):
                del question.awaited[link]
                self._check(question)

    def on_tick(self) -> None:
        """Once per tick: something may have changed, or an answer is overdue."""
        self.check()
        for question in list(self._questions.values()):
            question.ticks += 1
            if question.hop.is_client and question.ticks >= AGAIN_TICKS:
                question.ticks = 0
                self._ask_again(question)
            elif question.ticks >= FORGET_TICKS:
                self.forget(question.hop, question.id)

    def check(self) -> None:
        """Answer what can be answered by now. O(questions x links)."""
        self.tell_complete()
        for question in list(self._questions.values()):
            self._check(question)

    def _begin(self, hop: Session, id_: SubscriptionId, filter_: Filter, asked: int) -> None:
        self.forget(hop, id_)
        self._numbers += 1
        question = Question(hop, id_, filter_, asked, self._numbers)
        self._questions[question.number] = self._of.setdefault(hop, {})[id_] = question
        self._check(question)

    def _check(self, question: Question) -> None:
        """Ask the links that are to be asked, and answer if there are none, or all have answered.
        O(links)."""
        hop, id_, filter_ = question.hop, question.id, question.filter
        if not self._has(hop, id_, filter_):
            return
        is_in_place = True
        for link, table in self._links.items():
            if link is hop or link in question.answered:
                continue
            if link in self.incomplete:
                is_in_place = False
            elif table.is_needed(filter_):
                is_in_place = False
                if link not in question.awaited and table.has_passed_on(id_, filter_):
                    question.awaited[link] = None
                    self._send(link, ConfirmRequest(id_, filter_, question.number))
        if is_in_place and (hop.is_client or not self._links[hop].is_held):
            self.forget(hop, id_)
            self._send(hop, Confirmed((id_,)) if hop.is_client else ConfirmReply(question.asked))

    def _ask_again(self, question: Question) -> None:
        self._check(question)
        for link in question.awaited:
            if link.is_established and not self._links[link].is_held:
                self._send(link, ConfirmRequest(question.id, question.filter, question.number))
