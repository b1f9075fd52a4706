"""Latencies for links: drawn at random, or taken from a measured matrix of round-trip times.

A matrix is square, in milliseconds, with NaN where nothing was measured. Latencies in a topology
are one-way, so half of a round trip.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pubweave.model.ids import Link
from pubweave.model.topology import Topology

LATENCY_RANGE_MS = (10.0, 50.0)
"""IPITT VI-A: link latencies are uniform between 10 and 50 ms."""

LEAST_LATENCY_MS = 0.1
"""Measured and computed latencies are at least this much: no link is instantaneous."""

Matrix = npt.NDArray[np.float64]


def draw_latencies(links: Iterable[Link], rng: np.random.Generator) -> dict[Link, float]:
    """A uniform latency for each link, to the microsecond; depends on the set, not its order."""
    ordered = sorted(links)
    drawn = rng.uniform(*LATENCY_RANGE_MS, size=len(ordered))
    return {link: round(float(ms), 3) for link, ms in zip(ordered, drawn, strict=True)}


def read_rtt_matrix(path: str | Path, time_slice: int | None = None) -> Matrix:
    """Round-trip times in ms from a CSV file, plain or gzipped.

    Two layouts are known: a bare square of numbers, or a header ``slice,node,n0,n1,...`` with one
    square per time slice (``time_slice`` names it; the first by default). Off the diagonal a zero
    stands for no measurement and becomes NaN. Raises ValueError naming the file.
    """
    path = Path(path)
    rows, has_slices = _numbers(path)
    if time_slice is not None and not has_slices:
        raise ValueError(f"{path}: has no time slices, leave out the slice {time_slice}")
    return _with_gaps(path, _one_slice(path, rows, time_slice) if has_slices else rows)


def read_rtt_slices(path: str | Path) -> list[Matrix]:
    """All squares of a file with time slices, in their order. Raises ValueError naming the file."""
    path = Path(path)
    rows, has_slices = _numbers(path)
    if not has_slices:
        raise ValueError(f"{path}: has no time slices")
    numbers = np.unique(rows[:, 0]).astype(int).tolist()
    return [_with_gaps(path, _one_slice(path, rows, number)) for number in numbers]


def assign_latencies(topology: Topology, rtt_ms: Matrix, rng: np.random.Generator) -> Topology:
    """The topology with each broker at a random row of the matrix, no two at the same.

    A link's latency is half the mean of what was measured in the two directions; where neither
    was, half the median of the matrix.
    """
    brokers = sorted(topology.brokers)
    if len(brokers) > len(rtt_ms):
        raise ValueError(f"{len(brokers)} brokers need a larger RTT matrix than {len(rtt_ms)} rows")
    rows = rng.permutation(len(rtt_ms))[: len(brokers)]
    row_of = dict(zip(brokers, rows.tolist(), strict=True))
    off_diagonal = rtt_ms[~np.eye(len(rtt_ms), dtype=bool)]
    known = off_diagonal[~np.isnan(off_diagonal)]
    if topology.links and not known.size:
        raise ValueError("the RTT matrix holds no measurement at all")
    latency_ms = {}
    for link in sorted(topology.links):
        i, j = row_of[link.a], row_of[link.b]
        measured = [ms for ms in (rtt_ms[i, j], rtt_ms[j, i]) if not np.isnan(ms)]
        rtt = float(np.mean(measured)) if measured else float(np.median(known))
        latency_ms[link] = max(LEAST_LATENCY_MS, round(rtt / 2, 3))
    return replace(topology, latency_ms=latency_ms)


def _numbers(path: Path) -> tuple[Matrix, bool]:
    """The rows of a file, and whether they are of time slices."""
    try:
        content = path.read_bytes()
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
        lines = content.decode("ascii").splitlines()
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a CSV file of numbers") from error
    if not lines:
        raise ValueError(f"{path}: the file is empty")
    has_slices = lines[0].lower().startswith("slice,")
    try:
        rows = np.loadtxt(lines[1:] if has_slices else lines, delimiter=",", ndmin=2)
    except ValueError as error:
        raise ValueError(f"{path}: not a matrix of numbers: {error}") from error
    return rows, has_slices


def _one_slice(path: Path, rows: Matrix, time_slice: int | None) -> Matrix:
    wanted = rows[0, 0] if time_slice is None else time_slice
    chosen = rows[rows[:, 0] == wanted]
    if not len(chosen):
        slices = np.unique(rows[:, 0]).astype(int)
        raise ValueError(
            f"{path}: no time slice {time_slice}; there are {len(slices)} "
            f"from {slices[0]} to {slices[-1]}"
        )
    matrix: Matrix = chosen[np.argsort(chosen[:, 1], kind="stable"), 2:]
    return matrix


def _with_gaps(path: Path, matrix: Matrix) -> Matrix:
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{path}: {matrix.shape[0]} rows of {matrix.shape[1]} columns, not square")
    if (matrix < 0).any():
        raise ValueError(f"{path}: round-trip times must not be negative")
    missing = (matrix == 0) & ~np.eye(len(matrix), dtype=bool)
    return np.where(missing, np.nan, matrix)
