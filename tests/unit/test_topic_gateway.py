"""A cluster that no gateway connects with the ring keeps what it publishes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pubweave.core.broker_config import BrokerConfig
from pubweave.core.topic_config import TopicConfig
from pubweave.core.topic_gateway import RingGateway
from pubweave.model.topic_messages import BrokerRecord

KEEP_S, FORGET_S = 30.0, 300.0


def gateway_of(*ring: str) -> RingGateway:
    topics = TopicConfig(ring=ring, keep_s=KEEP_S, forget_after_s=FORGET_S)
    inside: Any = SimpleNamespace(
        config=BrokerConfig("plain", strategy="topic_connected", topics=topics),
        sessions=SimpleNamespace(links={}, dialed={}, is_beyond=None),
        routing=SimpleNamespace(asked={}, beyond=None),
    )
    made = RingGateway(inside)
    made.links = SimpleNamespace(look=lambda now: None, excuse=lambda s: None)  # type: ignore[assignment]
    return made


def look(gateway: RingGateway, now: float, *, is_linked: bool) -> None:
    other = BrokerRecord("other", "", 1, 0, is_gateway=is_linked)
    gateway.look({"other": other}, is_leaving=False, now=now)


def test_everybody_keeps_for_the_ring_once_its_gateway_is_lost() -> None:
    plain = gateway_of()
    look(plain, 0.0, is_linked=True)
    assert not plain.keeps_all(0.0)
    look(plain, 10.0, is_linked=False)
    look(plain, 200.0, is_linked=False)
    assert plain.keeps_all(200.0)
    look(plain, 201.0, is_linked=True)
    assert plain.keeps_all(229.0), "the gateway that is back has time to ask for what it lacks"
    assert not plain.keeps_all(231.0)


@pytest.mark.parametrize(("ring", "keeps"), [((), False), (("r",), True)])
def test_who_is_told_of_a_ring_keeps_for_as_long_as_it_takes(
    ring: tuple[str, ...], keeps: bool
) -> None:
    gateway = gateway_of(*ring)
    look(gateway, 0.0, is_linked=True)
    look(gateway, FORGET_S + 1.0, is_linked=False)
    assert gateway.keeps_all(FORGET_S + 1.0) is keeps


def test_a_cluster_that_never_had_a_gateway_keeps_nothing_for_a_ring() -> None:
    plain = gateway_of()
    look(plain, 5.0, is_linked=False)
    assert not plain.keeps_all(5.0)


def test_a_sleep_does_not_shorten_what_is_kept() -> None:
    plain = gateway_of()
    look(plain, 0.0, is_linked=True)
    look(plain, 10.0, is_linked=False)
    plain.excuse(100.0)
    assert plain.keeps_all(139.0)
