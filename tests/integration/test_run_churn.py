"""`soak.run_churn` in small: brokers over sockets, killed and joining under traffic."""

from __future__ import annotations

import argparse

import pytest
import uvloop
from soak.run_churn import run


@pytest.mark.slow
@pytest.mark.sockets
def test_topics_are_connected_again_and_nothing_is_missing() -> None:
    given = argparse.Namespace(
        brokers=8, kills=2, joins=2, topics=6, rate=2.0, every=3.0, limit=3.0, settle=1.5, seed=3
    )
    figures = uvloop.run(run(given))
    assert figures["events_not_connected_in_time"] == 0
    assert figures["missing"] == figures["duplicates"] == figures["out_of_order"] == 0
    assert figures["delivered"] > 100
