"""The verifier against the definition, on overlays that are connected and that are not."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.design.tco.interests import Subscriptions
from pubweave.design.tco.verify import verify
from tests.naive import topic_connected as naive

topic_sets = st.lists(st.sets(st.sampled_from("abcdef")), min_size=1, max_size=9)


@settings(max_examples=200, deadline=None)
@given(topic_sets, st.data())
def test_the_verdict_is_the_definitions(sets: list[set[str]], data: st.DataObject) -> None:
    wanted = Subscriptions.of({f"n{number}": each for number, each in enumerate(sets)})
    nodes = st.integers(0, len(sets) - 1)
    links = data.draw(st.lists(st.tuples(nodes, nodes).filter(lambda pair: pair[0] != pair[1])))
    verdict = verify(wanted, np.array(links, np.int32).reshape(-1, 2))
    topics = {f"n{number}": each for number, each in enumerate(sets)}
    named = [(f"n{a}", f"n{b}") for a, b in links]
    connected = True
    gaps = {gap.topic: gap for gap in verdict.gaps}
    for topic in wanted.topic_names:
        members = [node for node in topics if topic in topics[node]]
        label = naive.components(members, named)  # type: ignore[arg-type]
        assert (topic in gaps) == (len(set(label.values())) > 1)
        if topic in gaps:
            connected = False
            assert label[gaps[topic].one] != label[gaps[topic].other]  # type: ignore[index]
    assert verdict.is_connected == connected
    assert verdict.topics == wanted.topic_count


def test_a_path_through_others_does_not_count() -> None:
    """a and c want x; b between them does not."""
    wanted = Subscriptions.of({"a": ["x"], "b": ["y"], "c": ["x", "y"]})
    [gap] = verify(wanted, np.array([[0, 1], [1, 2]], np.int32)).gaps
    assert str(gap) == "topic 'x': no path of its subscribers from a to c"


def test_no_code_is_shared_with_the_builders() -> None:
    import ast
    from pathlib import Path

    import pubweave.design.tco as package

    folder = Path(package.__path__[0])
    for name in ("verify.py", "_kernels/verify.py"):
        tree = ast.parse((folder / name).read_text())
        modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        ours = {module for module in modules if module and module.startswith("pubweave")}
        assert ours <= {"pubweave.design.tco._kernels", "pubweave.design.tco.interests"}
