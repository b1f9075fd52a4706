"""`soak.run_hybrid` and `run_placement` in small, over sockets."""

from __future__ import annotations

import argparse

import pytest
import uvloop
from soak import run_hybrid, run_placement
from soak.topic_traffic import FAULTS


@pytest.mark.slow
@pytest.mark.sockets
def test_gateways_are_killed_and_nothing_is_missing() -> None:
    given = argparse.Namespace(
        brokers=9, clusters=2, topics=8, rate=4.0, seconds=2.0, seed=5
    )  # fmt: skip
    figures = uvloop.run(run_hybrid.run(given))
    assert not any(figures[name] for name in FAULTS)
    assert len(figures["take_overs"]) == 2
    assert figures["delivered"] > 100


@pytest.mark.slow
@pytest.mark.sockets
def test_users_are_sent_elsewhere_and_nothing_is_missing() -> None:
    given = argparse.Namespace(
        brokers=4, cluster=4, users=16, modes=3, load=0.5, rule="lasting", rate=4.0, seconds=3.0,
        seed=5,
    )  # fmt: skip
    figures = uvloop.run(run_placement.run(given))
    assert not any(figures[name] for name in FAULTS)
    assert figures["sent_elsewhere"] > 3
    assert figures["topics_of_brokers"] < figures["topics_of_brokers_if_all_had_stayed"]
