"""Enhanced authentication as the core sees it: a login whose verdict comes later."""

from __future__ import annotations

import pytest

from pubweave.core.mqtt.connect import AUTHENTICATION_METHOD
from pubweave.core.vocabulary.events import LoginReceived, PasswordVerified
from pubweave.model.filters.text import parse_filter
from pubweave.model.mqtt_packets import (
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    FromClient,
    PingReq,
    PingResp,
    Reason,
)
from pubweave.model.records.access import AccessRules, UserRules
from tests.mqtt_world import MqttPeer, MqttWorld

EVERYTHING = UserRules((parse_filter("*"),), (parse_filter("*"),))
CONNECT = Connect("ann", authentication_method=AUTHENTICATION_METHOD)


def asking(world: MqttWorld) -> MqttPeer:
    """A client whose proof is under way."""
    peer = world.peer()
    world.handle("b1", LoginReceived(peer.number, "ann"))
    assert peer.say(CONNECT) == []
    return peer


def secured() -> MqttWorld:
    return MqttWorld(access=AccessRules({"ann": EVERYTHING}))


def reason(peer: MqttPeer) -> int:
    (answer,) = peer.heard()
    assert isinstance(answer, ConnAck | Disconnect)
    assert not peer.is_open
    return answer.reason


def test_a_client_that_has_proven_itself_is_let_in_and_told_by_which_method() -> None:
    world = secured()
    peer = asking(world)
    world.handle("b1", PasswordVerified(peer.number, "ann"))
    (answer,) = peer.heard()
    assert isinstance(answer, ConnAck)
    assert (answer.reason, answer.authentication_method) == (0, AUTHENTICATION_METHOD)
    assert peer.say(PingReq()) == [PingResp()]


def test_a_client_that_has_not_is_refused() -> None:
    world = secured()
    peer = asking(world)
    world.handle("b1", PasswordVerified(peer.number, None))
    assert reason(peer) == Reason.BAD_USER_NAME_OR_PASSWORD


@pytest.mark.parametrize("method", ["SCRAM-SHA-1", "GS2-KRB5"])
def test_a_method_that_is_not_spoken_is_refused_whatever_was_proven(method: str) -> None:
    world = secured()
    peer = world.peer()
    world.handle("b1", LoginReceived(peer.number, "ann"))
    world.handle("b1", PasswordVerified(peer.number, "ann"))
    answer = peer.connect("ann", authentication_method=method)
    assert answer.reason == Reason.BAD_AUTHENTICATION_METHOD


def test_the_method_is_refused_where_no_proof_is_asked_for_or_possible() -> None:
    for world in (MqttWorld(), secured()):
        peer = world.peer()
        peer.say_nothing_back(CONNECT)
        assert reason(peer) == Reason.BAD_AUTHENTICATION_METHOD


@pytest.mark.parametrize("packet", [PingReq(), Auth(Reason.CONTINUE, "GS2-KRB5"), CONNECT])
def test_nothing_else_may_come_before_the_proof(packet: FromClient) -> None:
    peer = asking(secured())
    peer.say_nothing_back(packet)
    assert reason(peer) == Reason.PROTOCOL_ERROR


def test_a_client_may_leave_before_the_proof() -> None:
    peer = asking(secured())
    assert peer.say(Disconnect()) == []
    assert not peer.is_open


def test_a_proof_that_never_comes_is_not_waited_for() -> None:
    world = secured()
    peer = asking(world)
    world.pass_time(11)
    assert reason(peer) == Reason.NOT_AUTHORIZED


def test_a_proof_that_fails_later_ends_the_connection() -> None:
    world = secured()
    peer = asking(world)
    world.handle("b1", PasswordVerified(peer.number, "ann"))
    peer.heard()
    peer.say_nothing_back(Auth(Reason.NOT_AUTHORIZED))
    assert reason(peer) == Reason.NOT_AUTHORIZED
