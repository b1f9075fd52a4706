"""Brokers killed under MQTT QoS 1 load: a short run of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from soak.run_mqtt_kills import run

pytestmark = [pytest.mark.slow, pytest.mark.sockets]


def test_nothing_that_was_acknowledged_is_lost_with_a_broker(tmp_path: Path) -> None:
    given = {"kills": 4, "every_s": 1.0, "publishers": 2, "rate_per_s": 100.0, "seed": 5}
    figures = asyncio.run(run(tmp_path, **given))
    assert figures["acknowledged"] > 50
    assert figures["lost"] == {"s0": 0, "s1": 0}
    assert figures["disordered"] == {"s0": 0, "s1": 0}
    assert figures["sessions_lost"] == 0
