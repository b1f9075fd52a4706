"""Random problems of mapping brokers to positions, and their naive twins."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from pubweave.design.dynatops.mapping.problem import MappingProblem
from pubweave.design.dynatops.mapping.ring import RING_SIZE, Ring
from pubweave.design.tco.interests import Subscriptions
from tests.naive import dynatops as naive


@st.composite
def problems(draw: st.DrawFn, most: int = 10, topics: int = 6) -> tuple[MappingProblem, np.ndarray]:
    """Any ring, any subscriptions; weights and counts whose sums are exact, so that ties are."""
    count = draw(st.integers(1, most))
    names = [f"t{number}" for number in range(draw(st.integers(1, topics)))]
    wanted = Subscriptions.of({
        f"b{number}": draw(st.sets(st.sampled_from(names))) for number in range(count)
    })  # fmt: skip
    counts = {name: draw(st.sampled_from([0, 1, 1, 2, 3.5, 100])) for name in names}
    ids = st.lists(st.integers(0, RING_SIZE - 1), min_size=count, max_size=count, unique=True)
    ring = draw(st.one_of(st.none(), ids.map(lambda drawn: Ring(np.array(sorted(drawn))))))
    weight = draw(st.sampled_from([0.0, 0.5, 1.0, 2.0]))
    mapping = np.array(draw(st.permutations(range(count))), np.int64)
    return MappingProblem.of(wanted, counts, ring, weight), mapping


def instance_of(problem: MappingProblem) -> naive.Instance:
    wanted = problem.wanted
    return naive.Instance(
        problem.ring.ids.tolist(),
        [set(wanted.topics_of(b).tolist()) for b in range(problem.broker_count)],
        problem.roots.tolist(),
        problem.publications.tolist(),
        problem.delay_weight,
    )
