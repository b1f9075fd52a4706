"""Keys of publications: the same everywhere, different for different publications."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

from pubweave.core.self_organizing.traffic_sides import PublicationKeys


def test_keys_tell_publishers_and_sequences_apart() -> None:
    publishers = [f"p{number % 50}" for number in range(5_000)]
    sequences = [number // 50 for number in range(5_000)]
    keys = PublicationKeys().make(publishers, sequences)
    assert len(np.unique(keys)) == 5_000
    again = PublicationKeys().make(publishers[::-1], sequences[::-1])
    assert np.array_equal(keys, again[::-1])


def test_no_publications_have_no_keys() -> None:
    assert len(PublicationKeys().make([], [])) == 0


def test_sequences_beyond_64_bits_count_by_their_low_bits() -> None:
    small, large = PublicationKeys().make(["p", "p"], [3, 2**70 + 3])
    assert small == large
    assert small == PublicationKeys().make(["p"], [3])[0]


def test_keys_are_the_same_in_another_process() -> None:
    program = (
        "from pubweave.core.self_organizing.traffic_sides import PublicationKeys;"
        "print(PublicationKeys().make(['p', 'q'], [1, 2]).tolist())"
    )
    told = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == str(PublicationKeys().make(["p", "q"], [1, 2]).tolist())
