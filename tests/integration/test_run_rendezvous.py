"""`soak.run_rendezvous` in small: broker processes change places on a ring under traffic."""

from __future__ import annotations

import argparse

import pytest
import uvloop
from soak.run_rendezvous import run


@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.parametrize("kill", [False, True])
def test_brokers_are_remapped_and_nothing_is_missing(kill: bool) -> None:
    given = argparse.Namespace(brokers=6, topics=10, rate=4.0, seconds=3.0, kill=kill, seed=2)
    figures = uvloop.run(run(given))
    assert figures["missing"] == figures["duplicates"] == figures["out_of_order"] == 0
    assert figures["exit_code"] == 0
    if not kill:  # the clients of one that was killed are elsewhere
        assert figures["cost_after"] == figures["cost_after_predicted"] < figures["cost_before"]
    assert figures["delivered"] > 100
