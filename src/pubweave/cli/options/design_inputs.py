"""The profile, topology and prices that ``cost`` and ``design`` read, as options."""

from __future__ import annotations

from pathlib import Path

import click

from pubweave.cli.errors import blaming
from pubweave.cli.kinds import DIRECTORY, FILE, NOT_NEGATIVE, together
from pubweave.design.tree.problem import DesignProblem
from pubweave.design.tree.profile_inputs import topology_of
from pubweave.design.tree.traffic import Floats
from pubweave.generate.topologies.latencies import read_rtt_matrix
from pubweave.model.files.profile import WorkloadProfile
from pubweave.model.files.topology import read_topology
from pubweave.model.topology import Topology, validate_tree

_TOPOLOGY_ENDINGS = {".json", ".graphml"}

profile_option = click.option(
    "--profile",
    "profile_dir",
    required=True,
    type=DIRECTORY,
    help="The workload profile, made by 'pubweave profile'.",
)


price_options = together(
    click.option(
        "--latency",
        type=FILE,
        help="Round trips between all brokers: a CSV matrix, rows in the order of the ids "
        "(may be gzipped), or a topology file with latency_ms.",
    ),
    click.option(
        "--assume-latency",
        type=NOT_NEGATIVE,
        metavar="MS",
        help="One-way latency of links that nobody has measured.",
    ),
)
"""Where prices of links come from that the profile has not measured."""


def read_inputs(
    profile_dir: Path, topology_file: Path | None, latency: Path | None, assume: float | None
) -> DesignProblem:
    """Traffic and prices for a topology; without a file, for the profile's own."""
    from pubweave.design.methods import problem_of

    profile = WorkloadProfile(profile_dir)
    topology = topology_of(profile) if topology_file is None else read_topology(topology_file)
    with blaming(str(topology_file or profile_dir)):
        validate_tree(topology)
    matrix, mesh = read_latency(latency)
    return problem_of(profile, topology, matrix_ms=matrix, mesh=mesh, assumed_ms=assume)


def read_latency(path: Path | None) -> tuple[Floats | None, Topology | None]:
    """What ``--latency`` names: a matrix of round trips, or a topology with latencies."""
    if path is None:
        return None, None
    if path.suffix.lower() in _TOPOLOGY_ENDINGS:
        return None, read_topology(path)
    with blaming("--latency"):
        return read_rtt_matrix(path), None
