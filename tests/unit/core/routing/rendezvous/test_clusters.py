"""What a broker of a ring does for a cluster whose gateway is away."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pubweave.core.config.session import SessionLimits
from pubweave.core.routing.rendezvous.clusters import SAID_WITHIN_S, AttachedClusters
from pubweave.core.routing.rendezvous.routing import RendezvousRouting
from pubweave.core.session.session import Session
from pubweave.core.session.states import SessionState


def session(name: str, *, stands: bool) -> Session:
    made = Session(name, own_epoch=1, is_client=False, limits=SessionLimits())
    made.state = SessionState.ESTABLISHED if stands else SessionState.DOWN
    return made


def test_what_a_gateway_wanted_is_held_and_kept_until_its_link_is_given_up() -> None:
    routing = RendezvousRouting(lambda to, message: None)
    sessions: Any = SimpleNamespace(links={})
    clusters = AttachedClusters(sessions, routing)
    clusters.gateways["g"] = None
    link = sessions.links["g"] = session("g", stands=True)
    routing.wanted[link] = {"x": {}}
    clusters.check(0.0)
    assert (list(routing.subscribed), list(clusters.missed)) == (["x"], [])

    del routing.wanted[link]
    link = sessions.links["g"] = session("g", stands=False)
    routing.wanted[link] = {}
    clusters.check(100.0)
    assert (list(routing.subscribed), list(clusters.missed)) == (["x"], ["x"])

    link.state = SessionState.ESTABLISHED
    clusters.check(100.0 + SAID_WITHIN_S)
    assert list(clusters.missed) == ["x"], "it is back, and has yet to say what it wants"
    clusters.check(100.1 + SAID_WITHIN_S)
    assert (list(routing.subscribed), list(clusters.missed)) == ([], [])

    sessions.links.clear()
    clusters.check(200.0)
    assert not clusters.gateways
