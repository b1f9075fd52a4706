"""A moment of `fuzz/fuzz_mqtt.py`, which runs for minutes by itself."""

from __future__ import annotations

import random

from fuzz.fuzz_mqtt import change, check, seeds


def test_real_packets_pass_and_changed_ones_are_refused_at_worst() -> None:
    known = seeds()
    assert all(check(seed) > 0 for seed in known)
    rng = random.Random(3)
    packets = 0
    for _ in range(1500):
        data = bytearray(rng.choice(known))
        for _ in range(rng.randrange(1, 4)):
            change(rng, data, known)
        packets += check(bytes(data))
    assert packets > 300
