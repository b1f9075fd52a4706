"""Latencies: drawn within their range, or half of a measured round trip."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from pubweave.generate.topologies.latencies import assign_latencies, draw_latencies, read_rtt_matrix
from pubweave.generate.topologies.trees import chain
from pubweave.model.ids import Link
from tests.shared_data import shared_data

SQUARE = "0,10,20\n10,0,0\n20,30,0\n"
SLICES = "slice,node,n0,n1\n1,0,0,4\n1,1,6,0\n9,1,8,0\n9,0,0,0\n"


def test_drawn_latencies_do_not_depend_on_the_order_of_the_links() -> None:
    links = [Link("b1", "b2"), Link("b2", "b3"), Link("b3", "b4")]
    forward = draw_latencies(links, np.random.default_rng(1))
    backward = draw_latencies(reversed(links), np.random.default_rng(1))
    assert forward == backward
    assert len(set(forward.values())) == 3


@pytest.mark.parametrize("packed", [False, True])
def test_a_bare_square_is_read_and_zeros_become_gaps(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "rtt.csv"
    path.write_bytes(gzip.compress(SQUARE.encode()) if packed else SQUARE.encode())
    expected = [[0, 10, 20], [10, 0, np.nan], [20, 30, 0]]
    np.testing.assert_array_equal(read_rtt_matrix(path), expected)


def test_one_time_slice_is_read_with_its_nodes_in_order(tmp_path: Path) -> None:
    path = tmp_path / "rtt.csv"
    path.write_text(SLICES)
    np.testing.assert_array_equal(read_rtt_matrix(path), [[0, 4], [6, 0]])
    np.testing.assert_array_equal(read_rtt_matrix(path, 9), [[0, np.nan], [8, 0]])
    with pytest.raises(ValueError, match=r"rtt\.csv: no time slice 2; there are 2 from 1 to 9"):
        read_rtt_matrix(path, 2)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "the file is empty"),
        (b"0,1\n1,x\n", "not a matrix of numbers"),
        (b"0,1,2\n1,0,2\n", "2 rows of 3 columns, not square"),
        (b"0,-1\n1,0\n", "must not be negative"),
        (b"\x1f\x8bnonsense", "cannot be read"),
        (b"\xff\xfe", "not a CSV file of numbers"),
    ],
)
def test_a_bad_matrix_is_told_with_its_name(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "rtt.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"rtt\.csv: .*{complaint}"):
        read_rtt_matrix(path)


def test_a_slice_of_a_bare_square_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rtt.csv"
    path.write_text(SQUARE)
    with pytest.raises(ValueError, match="has no time slices"):
        read_rtt_matrix(path, 1)


def test_a_latency_is_half_the_mean_of_what_was_measured() -> None:
    matrix = np.array([[0.0, 10.0], [30.0, 0.0]])
    assigned = assign_latencies(chain(2), matrix, np.random.default_rng(0))
    assert assigned.latency_ms == {Link("b1", "b2"): 10.0}
    matrix[0, 1] = np.nan
    assigned = assign_latencies(chain(2), matrix, np.random.default_rng(0))
    assert assigned.latency_ms == {Link("b1", "b2"): 15.0}


def test_an_unmeasured_link_gets_the_median() -> None:
    matrix = np.full((40, 40), 8.0)
    matrix[:20, 20:] = matrix[20:, :20] = np.nan
    assigned = assign_latencies(chain(40), matrix, np.random.default_rng(0))
    assert set(assigned.latency_ms.values()) == {4.0}
    with pytest.raises(ValueError, match="no measurement"):
        assign_latencies(chain(2), np.full((2, 2), np.nan), np.random.default_rng(0))


def test_no_two_brokers_share_a_row() -> None:
    """In a matrix of distinct entries each link of a chain then has a latency of its own."""
    one_way = np.triu(np.arange(1.0, 401.0).reshape(20, 20), 1)
    assigned = assign_latencies(chain(20), one_way + one_way.T, np.random.default_rng(0))
    assert len(set(assigned.latency_ms.values())) == 19
    with pytest.raises(ValueError, match="21 brokers need a larger RTT matrix than 20 rows"):
        assign_latencies(chain(21), one_way, np.random.default_rng(0))


@pytest.mark.data
def test_the_measured_matrices_can_be_read() -> None:
    planetlab = read_rtt_matrix(shared_data("latency/planetlab490_rtt_ms_median.csv.gz"))
    assert planetlab.shape == (490, 490)
    assert not np.isnan(planetlab).any()
    seattle = read_rtt_matrix(shared_data("latency/seattle99_rtt_ms_86slices.csv.gz"), 681)
    assert seattle.shape == (99, 99)
    assert 0 < np.isnan(seattle).mean() < 0.05
    assigned = assign_latencies(chain(99), seattle, np.random.default_rng(0))
    assert min(assigned.latency_ms.values()) >= 0.1
