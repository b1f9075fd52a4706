"""Names and rights in the core: who may attach, and what they may do then."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.entry_limits import EntryLimits
from pubweave.core.session.access import EARLY_MESSAGES_MAX
from pubweave.core.vocabulary.effects import Effect, Transmit, VerifyPassword
from pubweave.core.vocabulary.events import (
    ConnectionClosed,
    ConnectionOpened,
    DeadlineReached,
    LoginReceived,
    MessagesReceived,
    PasswordVerified,
)
from pubweave.model.files.access import AccessFileError, parse_access, read_access_file
from pubweave.model.filters.filter import Filter, Operator, Predicate
from pubweave.model.messages.session import (
    PROTOCOL_VERSION,
    Advertise,
    Answer,
    Disconnect,
    Hello,
    Message,
    Query,
    Refused,
    Role,
    Subscribe,
)
from pubweave.model.publications import make_publication
from pubweave.model.records.access import (
    ANONYMOUS,
    EVERYBODY,
    AccessRules,
    Certified,
    UserRules,
    validate_user_name,
)

ALL = UserRules((Filter(),), (Filter(),))


def hello(id_: str, role: Role = Role.CLIENT) -> Hello:
    return Hello(PROTOCOL_VERSION, role, id_, 5, 0, 0, 1 << 20, routing="tree")


class Door:
    """A broker with rules, and whoever dial_once."""

    def __init__(self, rules: AccessRules | None, **config: Any) -> None:
        self.broker = Broker(BrokerConfig("b1", access=rules, **config), epoch=9, now=0.0)

    def come(self, connection: int, *messages: Message, certified: str = "") -> list[Effect]:
        self.broker.handle(ConnectionOpened(connection, None, certified), 0.0)
        return self.say(connection, *messages)

    def say(self, connection: int, *messages: Message) -> list[Effect]:
        return self.broker.handle(MessagesReceived(connection, messages, 0.0), 0.0)

    @property
    def refused(self) -> dict[str, int]:
        return self.broker.sessions.access.refused


def told(effects: list[Effect], kind: type) -> list[Any]:
    sent = [m for effect in effects if isinstance(effect, Transmit) for m in effect.messages]
    return [message for message in sent if isinstance(message, kind)]


def test_what_a_client_says_behind_its_login_waits_for_the_verdict() -> None:
    door = Door(AccessRules({"al": ALL}))
    door.come(1)
    assert door.broker.handle(LoginReceived(1, "al"), 0.0) == [VerifyPassword(1, "al")]
    assert door.say(1, hello("al/1")) == []
    welcomed = door.broker.handle(PasswordVerified(1, "al"), 0.0)
    assert told(welcomed, Hello)
    assert list(door.broker.sessions.clients) == ["al/1"]


def test_a_wrong_password_is_the_end_of_its_connection() -> None:
    door = Door(AccessRules({"al": ALL}))
    door.come(1)
    door.broker.handle(LoginReceived(1, "al"), 0.0)
    door.say(1, hello("al/1"))
    effects = door.broker.handle(PasswordVerified(1, None), 0.0)
    assert told(effects, Disconnect) == [Disconnect("wrong user or password")]
    assert door.refused == {"password": 1}
    assert door.broker.handle(PasswordVerified(1, "al"), 0.0) == []
    assert not door.broker.sessions.clients


def test_a_connection_that_is_gone_before_the_verdict_leaves_nothing() -> None:
    door = Door(AccessRules({"al": ALL}), entry=EntryLimits(logins_at_once=1))
    door.come(1)
    door.broker.handle(LoginReceived(1, "al"), 0.0)
    door.broker.handle(ConnectionClosed(1), 0.0)
    assert door.broker.handle(PasswordVerified(1, "al"), 0.0) == []
    door.come(2)
    assert door.broker.handle(LoginReceived(2, "al"), 0.0) == [VerifyPassword(2, "al")]


def test_only_so_many_logins_wait_at_once() -> None:
    door = Door(AccessRules({"al": ALL}), entry=EntryLimits(logins_at_once=2))
    effects: list[Effect] = []
    for connection in (1, 2, 3):
        door.come(connection)
        effects = door.broker.handle(LoginReceived(connection, "al"), 0.0)
    assert "2 logins wait, the limit" in told(effects, Disconnect)[0].reason
    assert door.refused == {"logins_at_once": 1}
    assert told(door.broker.handle(PasswordVerified(1, "al"), 0.0), Hello) == []
    assert told(door.say(1, hello("al")), Hello)


def test_a_flood_behind_a_login_is_cut_off() -> None:
    door = Door(AccessRules({"al": ALL}))
    door.come(1)
    door.broker.handle(LoginReceived(1, "al"), 0.0)
    flood = [hello("al")] * (EARLY_MESSAGES_MAX + 1)
    assert told(door.say(1, *flood), Disconnect)


def test_without_rules_a_login_is_passed_over() -> None:
    door = Door(None)
    door.come(1)
    assert door.broker.handle(LoginReceived(1, "al"), 0.0) == []
    assert told(door.say(1, hello("whoever")), Hello)


def test_with_tls_and_no_rules_every_certified_user_may_do_everything() -> None:
    door = Door(None, certified=True)
    uri = Certified(Role.CLIENT, "al").uri
    assert told(door.come(1, hello("al/1"), Query(1, "status"), certified=uri), Answer)
    assert "anonymous" in told(door.come(2, hello("bob")), Disconnect)[0].reason


def test_anonymous_clients_have_their_own_rules_and_no_ones_name() -> None:
    rules = AccessRules({"al": ALL, ANONYMOUS: UserRules((), (Filter(),))}, anonymous=True)
    door = Door(rules)
    assert told(door.come(1, hello("x")), Hello)
    effects = door.say(1, Advertise("x:1", Filter()))
    assert "may not publish" in told(effects, Refused)[0].reason
    assert not told(door.say(1, Subscribe("x:2", Filter())), Refused)
    assert "cannot be client" in told(door.come(2, hello("al/1")), Disconnect)[0].reason


def test_rules_of_everybody_hold_for_named_users_besides_their_own() -> None:
    stocks = Filter((Predicate("class", Operator.EQ, "STOCK"),))
    rules = AccessRules({"al": UserRules(), EVERYBODY: UserRules((), (stocks,))})
    found = rules.of("al")
    assert found is not None
    assert found.subscribe == (stocks,)
    assert rules.of("unknown") is None


def test_a_client_that_lets_too_much_pile_up_is_let_go() -> None:
    door = Door(None, entry=EntryLimits(queue_bytes_per_client=1000))
    door.come(1, hello("p"), Advertise("p:1", Filter()))
    door.come(2, hello("s"), Subscribe("s:1", Filter()))
    door.say(1, make_publication("p", 1, "x", {}, b"x" * 2000, 0.0))
    effects = door.broker.handle(DeadlineReached(), 2.0)
    assert "1000 bytes queued, the limit" in told(effects, Disconnect)[0].reason
    assert door.refused == {"queue_bytes_per_client": 1}


def test_entries_are_counted_anew_when_a_client_begins_anew() -> None:
    door = Door(None, entry=EntryLimits(entries_per_client=1))
    door.come(1, hello("s"), Subscribe("s:1", Filter()))
    assert not told(door.say(1, Subscribe("s:1", Filter())), Refused)
    assert told(door.say(1, Subscribe("s:2", Filter())), Refused)
    again = Hello(PROTOCOL_VERSION, Role.CLIENT, "s", 6, 0, 0, 1 << 20)
    assert not told(door.come(2, again, Subscribe("s:3", Filter())), Refused)


def test_who_asks_too_often_in_vain_or_too_much_at_once_is_let_go() -> None:
    entry = EntryLimits(refusals_per_connection=3, questions_at_once=5)
    door = Door(AccessRules({"al": UserRules()}), entry=entry)
    uri = Certified(Role.CLIENT, "al").uri
    door.come(1, hello("al"), certified=uri)
    forbidden = [Subscribe(f"al:{n}", Filter()) for n in range(3)]
    assert "3 requests were refused" in told(door.say(1, *forbidden), Disconnect)[0].reason
    door.come(2, hello("al/2"), certified=uri)
    questions = [Query(n, "status") for n in range(6)]
    assert "5 questions at once" in told(door.say(2, *questions), Disconnect)[0].reason
    assert door.refused["refusals_per_connection"] == door.refused["questions_at_once"] == 1


# --- rights --------------------------------------------------------------------------------

PREDICATES = st.one_of(
    st.builds(Predicate, st.just("class"), st.just(Operator.EQ), st.sampled_from(["a", "ab", "b"])),
    st.builds(Predicate, st.just("class"), st.just(Operator.PREFIX), st.sampled_from(["a", "b"])),
    st.builds(
        Predicate,
        st.sampled_from(["v", "w"]),
        st.sampled_from([Operator.LT, Operator.GE, Operator.EQ]),
        st.integers(0, 3),
    ),
)
FILTERS = st.builds(lambda ps: Filter(tuple(ps)), st.lists(PREDICATES, max_size=3))
RIGHTS = st.lists(FILTERS, max_size=3).map(tuple)
CONTENT = st.tuples(
    st.sampled_from(["a", "ab", "b", "c"]),
    st.dictionaries(st.sampled_from(["v", "w"]), st.integers(0, 3)),
)


@settings(max_examples=50)
@given(RIGHTS, FILTERS, st.lists(CONTENT, min_size=1, max_size=5))
def test_a_publication_passes_only_if_a_right_matches_it(
    rights: tuple[Filter, ...], advertised: Filter, contents: list[tuple[str, dict[str, Any]]]
) -> None:
    door = Door(AccessRules({"al": UserRules(rights, ()), "bob": ALL}))
    uri = {name: Certified(Role.CLIENT, name).uri for name in ("al", "bob")}
    door.come(2, hello("bob"), Subscribe("bob:1", Filter()), certified=uri["bob"])
    door.come(1, hello("al"), Advertise("al:1", advertised), certified=uri["al"])
    for number, (topic, attributes) in enumerate(contents, 1):
        publication = make_publication("al", number, topic, dict(attributes), b"", 0.0)
        is_delivered = bool(told(door.say(1, publication), type(publication)))
        if is_delivered:
            assert advertised.matches(publication)
            assert any(right.matches(publication) for right in rights)
        elif advertised in rights:
            assert not advertised.matches(publication)


def test_rights_that_were_taken_away_stop_what_was_advertised_before() -> None:
    """As after a restart with other rules, where the journal has brought the tables back."""
    stocks = Filter((Predicate("class", Operator.EQ, "STOCK"),))
    door = Door(AccessRules({"al": UserRules()}))
    uri = Certified(Role.CLIENT, "al").uri
    door.come(1, hello("al"), certified=uri)
    client = door.broker.sessions.clients["al"]
    door.broker.routing.receive(client, Advertise("al:1", stocks))
    effects = door.say(1, make_publication("al", 1, "STOCK", {}, b"", 0.0))
    assert "may not publish this on 'STOCK'" in told(effects, Refused)[0].reason
    assert door.refused == {"publish": 1}


# --- files ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("users = 3", "users"),
        ("[users.al]\npublish = ['class =']", "users.al.publish"),
        ("[users.al]\npublsh = ['*']", "publsh"),
        ("[users.'a/b']\npublish = ['*']", "'a/b' cannot be a user"),
        ("anonymous = true", "needs \\[users.anonymous\\]"),
        ("[users", "table declaration"),
    ],
)
def test_rules_that_cannot_be_are_named(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        parse_access(text)


def test_rules_can_be_json_and_a_missing_file_is_named(tmp_path: Any) -> None:
    path = tmp_path / "access.json"
    path.write_text('{"users": {"al": {"publish": ["*"]}}, "limits": {"connections": 7}}')
    rules, limits = read_access_file(path)
    assert rules.users["al"].publish == (Filter(),)
    assert limits == {"connections": 7}
    with pytest.raises(AccessFileError, match=r"none.toml: No such file"):
        read_access_file(tmp_path / "none.toml")


@settings(max_examples=50)
@given(st.text(min_size=1, max_size=20), st.sampled_from(Role))
def test_what_a_certificate_names_survives_its_uri(name: str, role: Role) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    assert Certified.parse(Certified(role, name).uri) == Certified(role, name)


@pytest.mark.parametrize("uri", ["", "urn:pubweave:", "urn:pubweave:boss:al", "urn:other:user:al"])
def test_other_uris_name_nobody(uri: str) -> None:
    assert Certified.parse(uri) is None


def test_names_of_users_are_plain() -> None:
    assert validate_user_name("al.b@c-d_1") == "al.b@c-d_1"
    for name in ("", "a/b", "$al", "a b", "x" * 65, "-al"):
        with pytest.raises(ValueError, match="cannot be a user"):
            validate_user_name(name)
