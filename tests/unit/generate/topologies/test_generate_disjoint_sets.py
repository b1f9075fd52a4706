"""Union-find against the topology's own idea of connectedness."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pubweave.generate.topologies.trees import DisjointSets
from pubweave.model.ids import Link
from pubweave.model.topology import Topology

BROKERS = [f"b{number}" for number in range(8)]
PAIRS = [Link(a, b) for a in BROKERS for b in BROKERS if a < b]


@given(st.lists(st.sampled_from(PAIRS), max_size=12))
def test_parts_are_the_connected_components(links: list[Link]) -> None:
    parts = DisjointSets(BROKERS)
    joined = [link for link in links if parts.join(link)]
    components = Topology.from_links(links, brokers=BROKERS).components
    assert len(joined) == len(BROKERS) - len(components), "each join makes one part less"
    home = {broker: index for index, part in enumerate(components) for broker in part}
    for pair in PAIRS:
        assert parts.together(*pair) == (home[pair.a] == home[pair.b])
