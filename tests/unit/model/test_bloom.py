"""Bloom filters: nothing added is ever missed, and what is too much can be reckoned."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubweave.model.bloom import (
    LEAST_BITS,
    LEAST_SIDE_BITS,
    MOST_BITS,
    BloomFilter,
    Keys,
    adapted_parameters,
    adapted_side_bits,
    corrected_count,
    mix,
)

KEYS = st.lists(st.integers(0, 2**64 - 1), max_size=200)


def keys_of(numbers: list[int]) -> Keys:
    return np.array(numbers, dtype=np.uint64)


@given(KEYS, st.integers(LEAST_BITS, 5_000), st.integers(1, 8))
def test_what_was_added_is_found_also_after_the_wire(
    numbers: list[int], bits: int, hashes: int
) -> None:
    made = BloomFilter(bits, hashes)
    made.add(keys_of(numbers))
    again = BloomFilter.from_bytes(made.to_bytes(), bits, hashes)
    assert made.contains(keys_of(numbers)).all()
    assert again.contains(keys_of(numbers)).all()
    assert again.false_positive_rate == made.false_positive_rate


def test_an_empty_filter_contains_nothing() -> None:
    assert not BloomFilter().contains(mix(np.arange(1000, dtype=np.uint64))).any()


def test_false_positives_are_as_rare_as_the_filter_says() -> None:
    made = BloomFilter(20_000, 5)
    made.add(mix(np.arange(4_000, dtype=np.uint64)))
    strangers = mix(np.arange(10_000, 110_000, dtype=np.uint64))
    share = np.count_nonzero(made.contains(strangers)) / len(strangers)
    assert 0.05 < made.false_positive_rate < 0.2
    assert share == pytest.approx(made.false_positive_rate, rel=0.05)


def test_the_count_of_common_entries_is_corrected_for_false_positives() -> None:
    mine = mix(np.arange(3_000, dtype=np.uint64))
    theirs = mix(np.arange(2_000, 6_000, dtype=np.uint64))
    made = BloomFilter(20_000, 5)
    made.add(theirs)
    hits = int(np.count_nonzero(made.contains(mine)))
    assert hits > 1_100  # the 1,000 that are common, and a good many that are not
    assert corrected_count(hits, 3_000, made.false_positive_rate) == pytest.approx(1_000, rel=0.04)
    assert corrected_count(0, 100, 0.1) == 0.0
    assert corrected_count(50, 100, 1.0) == 0.0


def test_positions_are_the_same_in_another_process() -> None:
    program = (
        "import numpy as np; from pubweave.model.bloom import BloomFilter, mix;"
        "f = BloomFilter(4096, 3); f.add(mix(np.arange(50, dtype=np.uint64)));"
        "print(f.to_bytes().hex())"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1] != ""


def test_adapted_parameters_keep_false_positives_rare_with_few_bits() -> None:
    for entries in (100, 1_000, 8_192):
        bits, hashes = adapted_parameters(entries)
        made = BloomFilter(bits, hashes)
        made.add(mix(np.arange(entries, dtype=np.uint64)))
        assert made.false_positive_rate < 0.015
        assert bits <= 12 * entries + LEAST_BITS
    assert adapted_parameters(10**9)[0] == MOST_BITS


@pytest.mark.parametrize(
    ("data", "bits", "hashes"),
    [
        (b"", 1024, 3),
        (b"no filter", 1024, 3),
        (BloomFilter(2048, 3).to_bytes(), 1024, 3),
        (BloomFilter(1024, 3).to_bytes(), 2048, 3),
        (BloomFilter(1024, 3).to_bytes(), MOST_BITS + 1, 3),
        (BloomFilter(1024, 3).to_bytes(), 1024, 0),
    ],
)
def test_foreign_bytes_are_refused(data: bytes, bits: int, hashes: int) -> None:
    with pytest.raises(ValueError, match="Bloom filter"):
        BloomFilter.from_bytes(data, bits, hashes)


@pytest.mark.parametrize("hashes", [1, 4])
def test_the_entries_of_a_union_are_counted_by_its_bits(hashes: int) -> None:
    keys = mix(np.arange(3_000, dtype=np.uint64))
    one, other = BloomFilter(100_000, hashes), BloomFilter(100_000, hashes)
    one.add(keys[:2_000])
    other.add(keys[1_000:])
    both = one | other
    assert one.count == pytest.approx(2_000, rel=0.02)
    assert both.count == pytest.approx(3_000, rel=0.02)
    assert one.count == pytest.approx(2_000, rel=0.02)  # unchanged by the union
    assert both.contains(keys).all()


def test_an_empty_filter_counts_nothing_and_a_full_one_cannot_count() -> None:
    made = BloomFilter(LEAST_BITS, 1)
    assert made.count == 0
    made.add(mix(np.arange(100_000, dtype=np.uint64)))
    assert made.count == math.inf


def test_filters_of_sides_grow_with_the_load_within_bounds() -> None:
    assert adapted_side_bits(0) == LEAST_SIDE_BITS
    assert adapted_side_bits(50_000) == 100_000
    assert adapted_side_bits(10**9) == MOST_BITS
