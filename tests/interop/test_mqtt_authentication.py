"""SCRAM-SHA-256 over MQTT 5's AUTH, at a broker with certificates and rules."""

from __future__ import annotations

import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mqtt5
import pytest
from mqtt5 import AuthPacket, AuthReasonCode, ConnAckPacket, DisconnectPacket

from pubweave.model.mqtt_packets import Reason
from pubweave.runtime.security.scram import METHOD
from tests.interop.mqtt_brokers import broker_chain
from tests.interop.raw_mqtt import RawClient
from tests.naive.scram_client import ScramClient

RULES = "anonymous = false\n" + "".join(
    f"[users.{user}]\npublish = ['*']\nsubscribe = ['*']\n" for user in ("ann", "bob")
)
Door = tuple[int, Path]


def run(*arguments: str) -> None:
    command = [sys.executable, "-m", "pubweave", "security", *arguments]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A port, and where the certificates are."""
    folder = tmp_path_factory.mktemp("scram")
    secure = folder / "secure"
    run("init", str(secure), "--broker", "b1", "--user", "bob")
    run("add", str(secure), "--user", "ann", "--scram")
    (secure / "access.toml").write_text(RULES)
    with broker_chain(folder, 1, "--security", str(secure)) as (broker,):
        yield broker.port, secure


class AuthClient(RawClient):
    """A client that proves its password."""

    def __init__(self, door: Door, user: str = "ann", password: str | None = None) -> None:
        super().__init__(door[0])
        context = ssl.create_default_context(cafile=str(door[1] / "ca.crt"))
        context.check_hostname = False
        self.sock = context.wrap_socket(self.sock)
        if password is None:
            password = (door[1] / "users" / f"{user}.password").read_text().strip()
        self.scram = ScramClient(user, password, "n0nce")

    def begin(self, method: str = METHOD, **fields: Any) -> Any:
        first = self.scram.first()
        self.send(
            mqtt5.ConnectPacket(
                "x", authentication_method=method, authentication_data=first, **fields
            )
        )
        return self.receive()

    def step(self, reason: int, data: bytes, method: str = METHOD) -> Any:
        code = AuthReasonCode(reason)
        self.send(
            AuthPacket(reason_code=code, authentication_method=method, authentication_data=data)
        )
        return self.receive()

    def enter(self) -> ConnAckPacket:
        challenge = self.begin()
        assert isinstance(challenge, AuthPacket)
        assert int(challenge.reason_code) == Reason.CONTINUE
        answer = self.step(Reason.CONTINUE, self.scram.final(challenge.authentication_data or b""))
        assert isinstance(answer, ConnAckPacket)
        return answer


def test_who_knows_the_password_is_let_in_and_hears_that_the_broker_does(door: Door) -> None:
    with AuthClient(door) as ann:
        answer = ann.enter()
        assert int(answer.reason_code) == 0
        assert answer.authentication_method == METHOD
        assert answer.authentication_data == ann.scram.expected
        assert ann.publish("a", b"x", 1) is not None


@pytest.mark.parametrize("user", ["ann", "bob", "nobody"])
def test_who_does_not_know_it_is_not_let_in(door: Door, user: str) -> None:
    """bob's password is kept as a hash that proves nothing; he has to send it."""
    with AuthClient(door, user, "wrong") as client:
        answer = client.enter()
        assert int(answer.reason_code) == Reason.BAD_USER_NAME_OR_PASSWORD
        assert answer.authentication_data is None


def test_the_same_password_may_be_sent(door: Door) -> None:
    for user in ("ann", "bob"):
        with AuthClient(door, user) as client:
            password = client.scram.password.encode()
            assert int(client.connect("x", username=user, password=password).reason_code) == 0


def test_a_client_proves_itself_again_and_goes_on(door: Door) -> None:
    with AuthClient(door) as ann:
        ann.enter()
        ann.subscribe("a")
        challenge = ann.step(Reason.RE_AUTHENTICATE, ann.scram.first())
        final = ann.scram.final(challenge.authentication_data)
        done = ann.step(Reason.CONTINUE, final)
        assert int(done.reason_code) == Reason.SUCCESS
        assert done.authentication_data == ann.scram.expected
        ann.publish("a", b"still here", 1)
        assert ann.take().payload == b"still here"


@pytest.mark.parametrize(("user", "password"), [("ann", "wrong"), ("bob", "wrong")])
def test_a_second_proof_that_fails_ends_the_connection(
    door: Door, user: str, password: str
) -> None:
    with AuthClient(door) as ann:
        ann.enter()
        again = ScramClient(user, password, "other")
        challenge = ann.step(Reason.RE_AUTHENTICATE, again.first())
        end = ann.step(Reason.CONTINUE, again.final(challenge.authentication_data))
        assert isinstance(end, DisconnectPacket)
        assert int(end.reason_code) == Reason.NOT_AUTHORIZED


def test_steps_out_of_place_are_a_protocol_error(door: Door) -> None:
    with AuthClient(door) as ann:
        ann.enter()
        end = ann.step(Reason.CONTINUE, b"whatever")
        assert int(end.reason_code) == Reason.PROTOCOL_ERROR
    with AuthClient(door) as ann:
        ann.enter()
        end = ann.step(Reason.RE_AUTHENTICATE, ann.scram.first(), "GS2-KRB5")
        assert int(end.reason_code) == Reason.PROTOCOL_ERROR
    with AuthClient(door) as ann:
        ann.begin()
        ann.send(mqtt5.PingReqPacket())
        assert int(ann.receive().reason_code) == Reason.PROTOCOL_ERROR


def test_another_method_and_broken_beginnings_are_refused(door: Door) -> None:
    with AuthClient(door) as ann:
        answer = ann.begin("GS2-KRB5")
        assert int(answer.reason_code) == Reason.BAD_AUTHENTICATION_METHOD
    with AuthClient(door) as ann:
        ann.scram.bare = "nonsense"
        assert int(ann.begin().reason_code) == Reason.BAD_USER_NAME_OR_PASSWORD
    with AuthClient(door) as ann:
        answer = ann.begin(max_packet_size=60)  # no room for the challenge
        assert int(answer.reason_code) == Reason.BAD_USER_NAME_OR_PASSWORD
