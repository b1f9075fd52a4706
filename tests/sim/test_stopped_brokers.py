"""Brokers that are stopped for longer than publications are kept otherwise, under churn."""

from __future__ import annotations

import pytest

from pubweave.sim.simulate import run_seed

PAUSE_S = (35.0, 60.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "seed"),
    [
        ("churn", 7000438),  # all others joined while it slept, and none had met it
        ("churn", 7000111),
        ("rendezvous", 7000231),  # a publisher's broker was alone for so long
        ("rendezvous", 7000223),
        ("hybrid", 7001063),  # the only gateway of a cluster slept
        ("hybrid", 7010005),  # so did the ring's end of the border
        ("hybrid", 7100009),  # a client's broker died while no gateway reached the ring
        ("hybrid", 7100036),  # a client came from a ring to a cluster that was cut off
        ("hybrid", 7100051),  # no gateway was left, and the others kept nothing for the ring
        ("hybrid", 9100156),  # a publisher left while its cluster was cut off
        ("hybrid", 9100180),
        ("hybrid", 9100118),  # one that slept waited for a gateway that others had forgotten
        ("hybrid", 9110142),  # the same, and they forgot it later
        ("hybrid", 9110941),  # a publisher's broker joined a ring by one that slept
        ("placement", 7001069),  # a client was sent to one that slept
    ],
)
def test_nothing_is_missed_that_its_client_is_not_told_of(scenario: str, seed: int) -> None:
    """Each of these had lost publications, or did not come to rest."""
    result = run_seed(scenario, seed, max_brokers=14, pause_s=PAUSE_S)
    assert not result.violations
