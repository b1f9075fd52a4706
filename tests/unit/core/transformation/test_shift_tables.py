"""What a shift does to tables, with three strategies joined by lists instead of sessions."""

from __future__ import annotations

from pubweave.core.config.session import SessionLimits
from pubweave.core.routing.tree.routing import TreeRouting
from pubweave.core.session.session import Session
from pubweave.core.transformation.shift_tables import (
    PART_ENTRIES,
    HandOver,
    prepare_old_peer,
    switch_mover,
    switch_new_peer,
    switch_old_peer,
    told_to_mover,
)
from pubweave.model.filters.text import parse_filter
from pubweave.model.messages.session import (
    Advertise,
    SequencedMessage,
    ShiftTables,
    Subscribe,
    Synced,
    SyncStage,
    Unadvertise,
    Unsubscribe,
)
from pubweave.model.publications import make_publication

Wire = tuple[str, str, SequencedMessage]


class Trio:
    """i - j - k; every broker has a client of its name in capitals."""

    def __init__(self, *, covering: bool) -> None:
        self.under_way: list[Wire] = []
        self.routing = {name: self._make(name, covering) for name in "ijk"}
        self.session = {
            (near, far): _session(far, is_client=False) for near in "ijk" for far in "ijk"
        }
        self.client = {name: _session(name.upper(), is_client=True) for name in "ijk"}
        for near, far in ("ij", "ji", "jk", "kj"):
            self.routing[near].link_added(self.session[near, far])

    def _make(self, name: str, covering: bool) -> TreeRouting:
        return TreeRouting(
            lambda session, message: self.under_way.append((name, session.remote, message)),
            covering=covering,
        )

    def say(self, name: str, *messages: SequencedMessage) -> None:
        """A client says something, and everything that follows from it happens."""
        for message in messages:
            self.routing[name].receive(self.client[name], message)  # type: ignore[arg-type]
        self.settle()

    def settle(self) -> None:
        while self.under_way:
            near, far, message = self.under_way.pop(0)
            self.routing[far].receive(self.session[far, near], message)  # type: ignore[arg-type]

    def shift(self, during: dict[str, list[SequencedMessage]] | None = None) -> None:
        """Hold, hand over, let clients talk meanwhile, switch, let go."""
        i, j, k = (self.routing[name] for name in "ijk")
        s = self.session
        stand_in = _session("held", is_client=False)
        given, prepared = prepare_old_peer(j, s["j", "i"], s["j", "k"])
        i.hold([s["i", "j"]], stand_in)
        j.hold([s["j", "i"], s["j", "k"]], stand_in)
        k.hold([s["k", "j"]], stand_in)
        received = HandOver()
        for part in given.parts("a"):
            received.add(part)
        told = told_to_mover(k, s["k", "j"], received)
        for name, messages in (during or {}).items():
            self.say(name, *messages)
        switch_mover(i, s["i", "j"], s["i", "k"])
        switch_old_peer(j, s["j", "i"], s["j", "k"], prepared, began=False)
        switch_new_peer(k, s["k", "i"], s["k", "j"], received, told, began=False)

    def resume(self) -> None:
        for near, fars in (("i", "k"), ("j", "k"), ("k", "ij")):
            routing = self.routing[near]
            routing.let_go()
            gone = [(far, routing.catch_up(self.session[near, far])) for far in fars]
            for far, withdrawn in gone:
                routing.tidy(self.session[near, far], withdrawn)
        self.settle()

    def reached(self, name: str, topic: str, **attributes: int) -> set[str]:
        """The clients that a publication of a broker's client gets to."""
        publication = make_publication(name.upper(), 1, topic, attributes, b"", 0.0)
        found: set[str] = set()
        queue: list[tuple[str, Session]] = [(name, self.client[name])]
        while queue:
            at, origin = queue.pop()
            for session in self.routing[at].route(publication, origin):
                if session.is_client:
                    found.add(session.remote)
                else:
                    queue.append((session.remote, self.session[session.remote, at]))
        return found

    def hops(self, id_: str) -> dict[str, str]:
        return {
            name: routing.subscriptions[id_].hop.remote
            for name, routing in self.routing.items()
            if id_ in routing.subscriptions
        }


def _session(name: str, *, is_client: bool) -> Session:
    return Session(name, own_epoch=1, is_client=is_client, limits=SessionLimits())


def advertise(id_: str, text: str) -> Advertise:
    return Advertise(id_, parse_filter(text))


def subscribe(id_: str, text: str) -> Subscribe:
    return Subscribe(id_, parse_filter(text))


def test_every_last_hop_points_along_the_new_links() -> None:
    trio = Trio(covering=False)
    for name in "ijk":
        trio.say(name, advertise(f"{name.upper()}:1", "class = 'T'"))
        trio.say(name, subscribe(f"{name.upper()}:2", "class = 'T'"))
    trio.shift()
    trio.resume()
    assert trio.hops("I:2") == {"i": "I", "k": "i", "j": "k"}
    assert trio.hops("J:2") == {"j": "J", "k": "j", "i": "k"}
    assert trio.hops("K:2") == {"k": "K", "j": "k", "i": "k"}
    for name in "ijk":
        assert trio.reached(name, "T") == {"I", "J", "K"}


def test_a_subscription_that_the_new_peer_never_saw_is_handed_over() -> None:
    """J's subscription matters only to I, so k lacks it; I's only to J."""
    trio = Trio(covering=False)
    trio.say("i", advertise("I:1", "class = 'FROM_I'"), subscribe("I:2", "class = 'FROM_J'"))
    trio.say("j", advertise("J:1", "class = 'FROM_J'"), subscribe("J:2", "class = 'FROM_I'"))
    assert "k" not in trio.hops("J:2") | trio.hops("I:2")
    trio.shift()
    assert trio.hops("J:2") == {"i": "k", "k": "j", "j": "J"}
    assert trio.hops("I:2") == {"i": "I", "k": "i", "j": "k"}
    trio.resume()
    assert trio.reached("i", "FROM_I") == {"J"}
    assert trio.reached("j", "FROM_J") == {"I"}


def test_with_covering_the_covered_is_in_place_at_the_switch_and_not_only_later() -> None:
    """At j, K's wide subscription stands in for J's narrow one towards i; behind k it cannot."""
    trio = Trio(covering=True)
    trio.say("i", advertise("I:1", "class = 'T'"))
    trio.say("k", subscribe("K:1", "class = 'T'"))
    trio.say("j", subscribe("J:1", "class = 'T' and n > 1"))
    assert "i" not in trio.hops("J:1")
    trio.shift()
    i, j, k = (trio.routing[name] for name in "ijk")
    i.let_go()
    i.catch_up(trio.session["i", "k"])
    k.let_go()
    k.catch_up(trio.session["k", "i"])
    k.catch_up(trio.session["k", "j"])
    assert trio.reached("i", "T", n=5) == {"K", "J"}
    j.let_go()
    j.catch_up(trio.session["j", "k"])


def test_what_clients_say_during_the_hold_is_told_afterwards() -> None:
    for covering in (False, True):
        trio = Trio(covering=covering)
        trio.say("i", advertise("I:1", "class = 'A'"), subscribe("I:2", "class = 'B'"))
        trio.say("k", advertise("K:1", "class = 'B'"), subscribe("K:2", "class = 'A'"))
        trio.say("j", advertise("J:1", "class = 'C'"))
        trio.shift(
            {
                "i": [Unadvertise("I:1"), advertise("I:3", "class = 'D'"), Unsubscribe("I:2")],
                "j": [subscribe("J:2", "class = 'D'"), Unadvertise("J:1")],
                "k": [Unsubscribe("K:2"), subscribe("K:3", "class = 'D'"), Unadvertise("K:1")],
            }
        )
        trio.resume()
        for name, routing in trio.routing.items():
            assert set(routing.advertisements) == {"I:3"}, name
        assert trio.reached("i", "D") == {"J", "K"}
        for id_ in ("I:2", "K:2"):
            assert trio.hops(id_) == {}


def test_a_new_peer_that_forgot_everything_has_to_tell_the_movers_entries_again() -> None:
    trio = Trio(covering=False)
    trio.say("i", advertise("I:1", "class = 'T'"), subscribe("I:2", "class = 'T'"))
    trio.say("j", advertise("J:1", "class = 'T'"))
    j, s = trio.routing["j"], trio.session
    _, prepared = prepare_old_peer(j, s["j", "i"], s["j", "k"])
    j.hold([s["j", "i"], s["j", "k"]], _session("held", is_client=False))
    j.link_began(s["j", "k"])
    switch_old_peer(j, s["j", "i"], s["j", "k"], prepared, began=True)
    j.let_go()
    j.tidy(s["j", "k"], j.catch_up(s["j", "k"]))
    told = [message for near, far, message in trio.under_way if (near, far) == ("j", "k")]
    assert advertise("J:1", "class = 'T'") in told
    trio.under_way.clear()
    j.receive(s["j", "k"], Synced(SyncStage.SUBSCRIPTIONS))
    j.forget_stale(s["j", "k"])
    assert set(j.advertisements) == {"J:1"}
    assert not j.subscriptions


def test_a_long_hand_over_comes_in_parts_and_is_whole_again() -> None:
    filter_ = parse_filter("class = 'T'")
    many = {f"s:{number}": filter_ for number in range(3 * PART_ENTRIES + 1)}
    given = HandOver(many, {"x:1": filter_}, many, dict.fromkeys(f"a:{n}" for n in range(1000)))
    parts = list(given.parts("plan/0/0"))
    assert all(isinstance(part, ShiftTables) for part in parts)
    assert [part.is_last for part in parts] == [False] * (len(parts) - 1) + [True]
    assert max(len(part.from_mover) for part in parts) == PART_ENTRIES
    again = HandOver()
    for part in parts:
        again.add(part)
    assert again == given
