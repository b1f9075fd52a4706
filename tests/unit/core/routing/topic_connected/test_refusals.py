"""A broker that nobody can dial any more is lost at once, and one that lives says so."""

from __future__ import annotations

import asyncio

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.journal.recovery import event_of, record_of
from pubweave.core.routing.topic_connected.link_choice import needs_backups
from pubweave.core.routing.topic_connected.membership_map import MembershipMap
from pubweave.core.routing.topic_connected.repair import OverlayRepair
from pubweave.core.session.session import Session
from pubweave.core.vocabulary.effects import OpenLink, Transmit
from pubweave.core.vocabulary.events import (
    ConnectionClosed,
    ConnectionOpened,
    DeadlineReached,
    DialRefused,
    Event,
    LinkAdded,
    MessagesReceived,
)
from pubweave.model.messages.session import Message, Role
from pubweave.model.messages.topic_connected import TOPIC_PROTOCOL, BrokerRecord
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.dialer import Dialer
from pubweave.runtime.net.reserved_ports import ReservedPorts
from pubweave.wire.codec import DEFAULT_MAX_FRAME_BYTES

SOUTH = 7


class Setup:
    """Broker b5 with one neighbor; what it tells, and what it wants of its driver."""

    def __init__(self, neighbor: str) -> None:
        self.broker = Broker(BrokerConfig("b5", strategy="topic_connected"), epoch=1, now=0.0)
        self.neighbor = neighbor
        self.effects: list[object] = []
        self.handle(LinkAdded(neighbor), 0.0)

    def handle(self, event: Event, now: float) -> None:
        self.effects += self.broker.handle(event, now)

    def meet(self, now: float, *messages: Message) -> None:
        """The neighbor dials, says Hello and more."""
        far = Session("b5", own_epoch=9, is_client=False, limits=SessionLimits())
        hello = far.hello(Role.BROKER, self.neighbor, routing=TOPIC_PROTOCOL)
        self.handle(ConnectionOpened(SOUTH), now)
        self.handle(MessagesReceived(SOUTH, (hello, *messages), now), now)

    def wait_until(self, now: float) -> None:
        while (due := self.broker.next_deadline()) <= now:
            self.handle(DeadlineReached(), max(due, 0.0))

    @property
    def repair(self) -> OverlayRepair:
        assert self.broker.part(OverlayRepair) is not None
        return self.broker.part(OverlayRepair)

    def told(self) -> list[BrokerRecord]:
        """Its own records that it has sent."""
        sent = [m for e in self.effects if isinstance(e, Transmit) for m in e.messages]
        return [m for m in sent if isinstance(m, BrokerRecord) and m.broker == "b5"]


def test_a_neighbor_that_refuses_is_lost_without_waiting() -> None:
    setup = Setup("b9")
    setup.meet(0.1, BrokerRecord("b9", "", 3, 4))
    setup.wait_until(1.0)
    setup.handle(ConnectionClosed(SOUTH), 1.0)
    setup.handle(DialRefused("b9"), 1.01)
    setup.wait_until(1.02)
    assert setup.repair.own.lost == (("b9", 3, 4),)
    assert setup.repair.view.gone == {"b9"}


def test_without_a_word_it_takes_as_long_as_a_link_may_be_down() -> None:
    setup = Setup("b9")
    setup.meet(0.1, BrokerRecord("b9", "", 3, 4))
    setup.wait_until(1.0)
    setup.handle(ConnectionClosed(SOUTH), 1.0)
    setup.wait_until(1.3)
    assert not setup.repair.own.lost
    setup.wait_until(1.6)
    assert setup.repair.own.lost == (("b9", 3, 4),)


def test_who_may_yet_have_to_start_is_not_lost_by_refusing() -> None:
    setup = Setup("b9")
    setup.handle(DialRefused("b9"), 0.1)
    setup.wait_until(0.2)
    assert not setup.repair.own.lost
    setup.meet(0.3)
    setup.handle(DialRefused("b9"), 0.4)  # somebody else's refusal: the link stands
    assert not setup.repair.own.lost


def test_a_broker_that_is_to_be_dialed_knocks_as_soon_as_its_link_is_down() -> None:
    setup = Setup("b1")
    setup.wait_until(0.1)
    assert next(e for e in setup.effects if isinstance(e, OpenLink)).dial_once
    setup.meet(0.2, BrokerRecord("b1", "there:1", 1, 1))
    setup.wait_until(2.0)
    setup.effects.clear()
    setup.handle(ConnectionClosed(SOUTH), 2.0)
    setup.wait_until(2.0)
    assert OpenLink("b1", "there:1", dial_once=True) in setup.effects


def test_who_is_taken_for_lost_tells_of_itself_and_only_once() -> None:
    setup = Setup("b9")
    setup.meet(0.1)
    setup.wait_until(0.5)
    before = setup.repair.own
    loser = BrokerRecord("b3", "", 1, 1, links=("b9",), lost=(("b5", *before.age),))
    setup.handle(MessagesReceived(SOUTH, (loser,), 0.6), 0.6)
    assert setup.repair.own.age > before.age
    assert setup.told()[-1].age == setup.repair.own.age
    after = setup.repair.own
    again = BrokerRecord("b3", "", 1, 2, links=("b9",), lost=(("b5", *before.age),))
    setup.handle(MessagesReceived(SOUTH, (again,), 0.7), 0.7)
    assert setup.repair.own == after


def test_backups_are_renewed_when_the_repair_is_over() -> None:
    """b covered y, and is gone; x is covered enough by c."""
    own = BrokerRecord("a", "", 1, 1, ("x", "y"), ("c",), lost=(("b", 1, 1),), backups=("b", "c"))
    map_ = MembershipMap("a")
    for record in (
        own,
        BrokerRecord("b", "", 1, 1, ("y",)),
        BrokerRecord("c", "", 1, 1, ("x",), ("a", "d")),
        BrokerRecord("d", "", 1, 1, ("x",), ("c",)),
    ):
        map_.receive(record, 0.0)
    assert map_.view().is_connected
    assert needs_backups(map_.view(), own, 1)
    map_.receive(BrokerRecord("e", "", 1, 1, ("x",)), 0.0)
    assert not map_.view().is_connected
    assert not needs_backups(map_.view(), own, 2)
    map_.receive(BrokerRecord("f", "", 1, 1, ("y",)), 0.0)
    assert needs_backups(map_.view(), own, 2)  # nobody would be found for y


def test_a_refusal_goes_through_the_journal() -> None:
    assert event_of(record_of(DialRefused("b2"), 1.0)) == DialRefused("b2")


def test_a_dialer_tells_that_nobody_listens() -> None:
    async def refusals() -> None:
        ports = ReservedPorts({"a": Address("127.0.0.1", 0)})
        heard = asyncio.Event()
        dialer = Dialer(
            "a",
            (ports.addresses["a"],),
            None,  # type: ignore[arg-type]
            max_frame_bytes=DEFAULT_MAX_FRAME_BYTES,
        )
        dialer.on_refused = heard.set
        dialer.start()
        async with asyncio.timeout(5.0):
            for _ in range(2):  # it goes on to dial
                await heard.wait()
                heard.clear()
        await dialer.stop()
        ports.close()

    asyncio.run(refusals())
