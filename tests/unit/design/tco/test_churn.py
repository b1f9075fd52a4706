"""Maintained overlays: rounds against the printed algorithms, and any sequence of batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.design.tco import churn as churn_module
from pubweave.design.tco.changes import (
    Backups,
    Change,
    ChurnError,
    ChurnSettings,
    DegreeRule,
    Join,
    Leave,
    Method,
    Resubscribe,
)
from pubweave.design.tco.churn import MaintainedOverlay
from pubweave.design.tco.interests import Subscriptions
from pubweave.design.tco.low_oda import build_overlay
from pubweave.design.tco.state import OverlayArrays
from tests.naive import topic_connected as naive

TOPICS = [f"t{number:02d}" for number in range(12)]
topic_sets = st.lists(
    st.sets(st.sampled_from(TOPICS), min_size=1, max_size=8), min_size=2, max_size=14
)
PAPERS_RULES = [DegreeRule.ALL, DegreeRule.SHADOWS]


def maintained(sets: list[set[str]], seed: int = 1, **options: Any) -> MaintainedOverlay:
    wanted = Subscriptions.of({f"n{number}": each for number, each in enumerate(sets)})
    links = build_overlay(wanted)
    rng = np.random.default_rng(seed)
    return MaintainedOverlay(wanted, links, ChurnSettings(**options), rng)


class View:
    """What an overlay says of itself, by the numbers that settle its ties."""

    def __init__(self, overlay: MaintainedOverlay) -> None:
        number = overlay.state.number_of
        topic_number = {name: place for place, name in enumerate(overlay.state.topic_names)}
        self.topics = {
            number[node]: {topic_number[topic] for topic in topics}
            for node, topics in overlay.topics().items()
        }
        self.links = [(number[a], number[b]) for a, b in overlay.links()]
        self.backups = {
            number[node]: [number[other] for other in backups]
            for node, backups in overlay.backups().items()
        }
        self.degrees = {node: sum(node in link for link in self.links) for node in self.topics}
        self.primaries = {
            node: sum(node in backups for backups in self.backups.values()) for node in self.topics
        }

    def neighbors(self, node: int) -> set[int]:
        return {end for link in self.links if node in link for end in link} - {node}


def as_pairs(view: View, added: tuple[tuple[str, str], ...], number: dict[str, int]) -> Any:
    return [frozenset((number[a], number[b])) for a, b in added]


def check(overlay: MaintainedOverlay) -> None:
    """Everything that must hold between rounds."""
    view = View(overlay)
    assert naive.is_topic_connected(view.topics, view.links)
    assert len(set(map(frozenset, view.links))) == len(view.links) == overlay.link_count
    assert max(view.degrees.values(), default=0) == overlay.max_degree
    state = overlay.state
    for node in view.topics:
        assert sorted(state.listed(state.neighbors, node)) == sorted(view.neighbors(node))
    for topic, name in enumerate(state.topic_names):
        wanting = {node for node in view.topics if topic in view.topics[node]}
        assert set(state.listed(state.nodes_of, topic).tolist()) == wanting, name


def check_coverage(overlay: MaintainedOverlay, names: Iterable[str]) -> None:
    """Every topic is covered lambda times, or as often as others want it."""
    view = View(overlay)
    for name in names:
        node = overlay.state.number_of[name]
        for topic in view.topics[node]:
            others = sum(topic in topics for topics in view.topics.values()) - 1
            covered = sum(topic in view.topics[other] for other in view.backups[node])
            assert covered >= min(overlay.settings.coverage, others)


def check_backups(overlay: MaintainedOverlay) -> None:
    """Backups are others that are there, each once, and they know their primaries."""
    view = View(overlay)
    for node, backups in view.backups.items():
        assert len(set(backups)) == len(backups)
        assert set(backups) <= set(view.topics) - {node}
        held = overlay.state.listed(overlay.state.primaries, node).tolist()
        assert sorted(held) == sorted(p for p in view.backups if node in view.backups[p])


@settings(max_examples=60, deadline=None)
@given(topic_sets, st.sampled_from(PAPERS_RULES), st.sampled_from(list(Method)), st.data())
def test_a_leave_is_mended_as_printed(
    sets: list[set[str]], rule: DegreeRule, method: Method, data: st.DataObject
) -> None:
    overlay = maintained(sets, rule=rule, method=method)
    if method is Method.NAIVE and rule is DegreeRule.SHADOWS:
        return
    before = View(overlay)
    gone = data.draw(st.integers(0, len(sets) - 1))
    number = dict(overlay.state.number_of)
    outcome = overlay.apply([Leave(f"n{gone}")])
    topics = {node: each for node, each in before.topics.items() if node != gone}
    rest = [link for link in before.links if gone not in link]
    shadows = set(topics)
    if method is Method.SHADOW:
        shadows = before.neighbors(gone) | set(before.backups[gone])
    expected = naive.construct_low_edges(
        topics,
        rest,
        naive.shadow_pairs(topics, shadows),
        considered=before.topics[gone],
        max_degree_of=shadows if rule is DegreeRule.SHADOWS and shadows else None,
    )
    assert as_pairs(before, outcome.added, number) == [frozenset(pair) for pair in expected]
    assert len(outcome.removed) == before.degrees[gone]
    check(overlay)


@settings(max_examples=60, deadline=None)
@given(
    topic_sets,
    st.sets(st.sampled_from(TOPICS), min_size=1),
    st.sampled_from(PAPERS_RULES),
    st.sampled_from(list(Method)),
)
def test_a_join_is_attached_as_printed(
    sets: list[set[str]], topics: set[str], rule: DegreeRule, method: Method
) -> None:
    if method is Method.NAIVE and rule is DegreeRule.SHADOWS:
        return
    overlay = maintained(sets, rule=rule, method=method)
    before = View(overlay)
    outcome = overlay.apply([Join("new", tuple(topics))])
    after, number = View(overlay), overlay.state.number_of
    node = number["new"]
    shadows = set(before.topics) if method is Method.NAIVE else set(after.backups[node])
    expected = naive.construct_low_edges(
        after.topics,
        before.links,
        naive.joining_pairs(after.topics, node, shadows),
        considered=after.topics[node],
        max_degree_of={node, *shadows} if rule is DegreeRule.SHADOWS else None,
    )
    assert as_pairs(after, outcome.added, number) == [frozenset(pair) for pair in expected]
    check(overlay)
    if method is Method.SHADOW:
        check_backups(overlay)
        check_coverage(overlay, ["new"])


def splitmix(state: int) -> Callable[[int], int]:
    """The generator of the kernels, in Python's integers."""
    held = [state]
    mask = (1 << 64) - 1

    def below(bound: int) -> int:
        held[0] = (held[0] + 0x9E3779B97F4A7C15) & mask
        mixed = held[0]
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & mask
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
        return ((mixed ^ (mixed >> 31)) >> 33) % bound

    return below


@settings(max_examples=60, deadline=None)
@given(
    topic_sets,
    st.sampled_from(list(Backups)),
    st.integers(1, 4),
    st.integers(0, 99),
    st.sampled_from([4, 256]),
)
def test_backups_are_chosen_as_printed(
    sets: list[set[str]], way: Backups, coverage: int, seed: int, window: int
) -> None:
    """Node by node from the first: each choice weighs the primaries of those before it."""
    overlay = maintained(sets, seed, backups=way, coverage=coverage, window=window)
    view = View(overlay)
    below = splitmix(int(np.random.default_rng(seed).integers(0, 1 << 63)))
    primaries = dict.fromkeys(view.topics, 0)
    for node in view.topics:
        weights = {other: view.degrees[other] + primaries[other] for other in view.topics}
        if way is Backups.GREEDY:
            expected = naive.greedy_backups(view.topics, weights, node, coverage)
        else:
            expected = naive.primal_dual_backups(
                view.topics, weights, node, coverage, below, window
            )
        assert view.backups[node] == expected
        for other in expected:
            primaries[other] += 1
    check_backups(overlay)
    if window > len(sets):
        check_coverage(overlay, overlay.topics())


def draw_round(data: st.DataObject, overlay: MaintainedOverlay, number: int) -> list[Change]:
    """Some leaves, changes of topics and joins of different nodes."""
    changes: list[Change] = []
    for node, held in overlay.topics().items():
        what = data.draw(st.sampled_from(["stay"] * 5 + ["leave", "change"]))
        if what == "leave":
            changes.append(Leave(node))
        elif what == "change":
            wanted = data.draw(st.sets(st.sampled_from(TOPICS)))
            begun, ended = wanted - set(held), set(held) - wanted
            changes.append(Resubscribe(node, tuple(sorted(begun)), tuple(sorted(ended))))
    for place in range(data.draw(st.integers(0, 3))):
        topics = data.draw(st.sets(st.sampled_from([*TOPICS, "fresh"]), max_size=8))
        changes.append(Join(f"j{number}-{place}", tuple(sorted(topics))))
    return data.draw(st.permutations(changes))


@settings(max_examples=60, deadline=None)
@given(
    topic_sets,
    st.sampled_from(list(Method)),
    st.sampled_from(list(DegreeRule)),
    st.booleans(),
    st.data(),
)
def test_any_batches_keep_every_topic_connected(
    sets: list[set[str]], method: Method, rule: DegreeRule, in_time: bool, data: st.DataObject
) -> None:
    """Whether or not backups are updated between the rounds."""
    overlay = maintained(sets, method=method, rule=rule)
    truth = {f"n{number}": set(each) for number, each in enumerate(sets)}
    for number in range(3):
        changes = draw_round(data, overlay, number)
        before = set(map(frozenset, overlay.links()))
        outcome = overlay.apply(changes)
        for change in changes:
            if isinstance(change, Leave):
                del truth[change.node]
            elif isinstance(change, Join):
                truth[change.node] = set(change.topics)
            else:
                truth[change.node] = truth[change.node] - set(change.ended) | set(change.begun)
        assert {node: set(topics) for node, topics in overlay.topics().items()} == truth
        after = set(map(frozenset, overlay.links()))
        assert after == before - set(map(frozenset, outcome.removed)) | set(
            map(frozenset, outcome.added)
        )
        check(overlay)
        overlay.tidy()
        check(overlay)
        if method is Method.SHADOW:
            check_backups(overlay)
        if in_time and method is Method.SHADOW:
            bereft = [overlay.state.names[node] for node in overlay.outdated]
            overlay.update_backups()
            check_backups(overlay)
            check_coverage(overlay, bereft)


@settings(max_examples=40, deadline=None)
@given(topic_sets, st.sets(st.sampled_from(TOPICS), min_size=3))
def test_tidying_leaves_no_needless_link_near_a_change(
    sets: list[set[str]], topics: set[str]
) -> None:
    overlay = maintained(sets, rule=DegreeRule.LEAN)
    outcome = overlay.apply([Join("new", tuple(topics))])
    overlay.tidy()
    view = View(overlay)
    near = {overlay.state.number_of[node] for pair in outcome.added for node in pair}
    left = naive.needless_links(view.topics, view.links)
    assert [link for link in left if set(link) & near] == []


def test_a_hub_is_relieved_without_cutting_a_topic() -> None:
    """A star of 30 where a ring would do, kept to a low level."""
    wanted = Subscriptions.of({f"n{number}": ["x"] for number in range(30)})
    links = np.array([[0, other] for other in range(1, 30)], np.int32)
    overlay = MaintainedOverlay(wanted, links, ChurnSettings(), np.random.default_rng(1))
    overlay._base_level = 4
    for _ in range(24):
        outcome = overlay.tidy()
        assert len(outcome.removed) >= len(outcome.added) > 0
        check(overlay)
    assert overlay.max_degree < 10


def test_sets_too_large_for_a_matrix_are_mended_by_low_oda(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sets = [set(np.random.default_rng(n).choice(TOPICS, 5).tolist()) for n in range(40)]
    changes = [Leave(f"n{number}") for number in (0, 3, 7)]
    plain = maintained(sets, rule=DegreeRule.ALL)
    expected = plain.apply(changes)
    monkeypatch.setattr(churn_module, "MATRIX_ROWS_MAX", 0)
    overlay = maintained(sets, rule=DegreeRule.ALL)
    assert overlay.apply(changes) == expected
    check(overlay)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Join("n0", ("x",)), "node 'n0' joins but is there already"),
        (Leave("who"), "node 'who' leaves but is not there"),
        (Resubscribe("who"), "node 'who' changes its topics but is not there"),
        (Resubscribe("n0", begun=("t00",)), "begins topic 't00', which it has already"),
        (Resubscribe("n0", ended=("t05",)), "ends topic 't05', which it does not have"),
    ],
)
def test_a_change_that_cannot_be_is_named_and_nothing_changes(change: Change, words: str) -> None:
    overlay = maintained([{"t00", "t01"}, {"t01"}])
    links = overlay.links()
    with pytest.raises(ChurnError, match=words):
        overlay.apply([Join("good", ("t00",)), change])
    assert (overlay.links(), overlay.node_count) == (links, 2)


def test_a_node_changes_only_once_in_a_round() -> None:
    overlay = maintained([{"t00", "t01"}, {"t01"}])
    with pytest.raises(ChurnError, match="changed twice"):
        overlay.apply([Leave("n0"), Leave("n0")])


def test_everybody_may_leave_and_others_come() -> None:
    overlay = maintained([{"t00", "t01"}, {"t01"}, {"t00"}])
    overlay.apply([Leave("n0"), Leave("n1"), Leave("n2")])
    assert (overlay.node_count, overlay.link_count, overlay.max_degree) == (0, 0, 0)
    for number in range(40):
        overlay.apply([Join(f"m{number}", ("t00", f"t{number % 7}x"))])
        overlay.update_backups()
    check(overlay)
    check_backups(overlay)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(30, 70))
def test_pieces_are_the_components_however_far_the_searches_went(seed: int, count: int) -> None:
    """Sparse random overlays that are not connected: most shadows are reached by no search."""
    rng = np.random.default_rng(seed)
    topics = [f"t{number}" for number in range(70)]
    wanted = Subscriptions.of(
        {f"n{node}": rng.choice(topics[::10] if node % 3 else topics, 3) for node in range(count)}
    )
    pairs = {frozenset(pair) for pair in rng.integers(0, count, (count, 2)).tolist()}
    links = np.array([sorted(pair) for pair in pairs if len(pair) == 2], np.int32)
    state = OverlayArrays(wanted, links)
    topic = int(wanted.topics[0])
    members = [node for node in range(count) if topic in wanted.topics_of(node)]
    label = naive.components(members, [(a, b) for a, b in links.tolist()])
    # Seeds in different components, the largest last, so that it is never searched to its end.
    by_size = sorted(set(label.values()), key=lambda part: list(label.values()).count(part))
    seeds = np.array([part for part in by_size], np.int32)
    everyone = np.arange(count, dtype=np.int32)
    starts = np.array([0, len(seeds)])
    found = state.labels_of_cut(np.array([topic], np.int32), starts, seeds, everyone)
    assert found.shape[1] == (len(seeds) > 1)
    for column in found.T:
        assert [node for node in range(count) if column[node] >= 0] == members
        for one in members:
            for other in members:
                assert (column[one] == column[other]) == (label[one] == label[other])


def test_whom_no_search_has_reached_is_in_the_rest() -> None:
    """A pair and a path of 20: the search along the path ends when the pair's is exhausted."""
    wanted = Subscriptions.of({f"n{node}": ["x"] for node in range(22)})
    path = [(node, node + 1) for node in range(2, 21)]
    state = OverlayArrays(wanted, np.array([(0, 1), *path], np.int32))
    everyone = np.arange(22, dtype=np.int32)
    for seeds in ([0, 2], [2, 0], [21, 2, 1]):
        found = state.labels_of_cut(
            np.zeros(1, np.int32), np.array([0, len(seeds)]), np.array(seeds, np.int32), everyone
        )
        [column] = found.T
        assert len(set(column[:2].tolist())) == len(set(column[2:].tolist())) == 1
        assert column[0] != column[2]


@pytest.mark.parametrize("cut", [5, 300, 999])
def test_a_long_search_that_marks_the_subscribers_finds_the_same_pieces(cut: int) -> None:
    """A path of 2,000, every second node on it wants another topic, too: 1,000 of it make a path
    by links of their own, cut once. The search is long unless the cut is near the seed."""
    count = 2_000
    wanted = Subscriptions.of(
        {f"n{node}": ["x", "y"] if node % 2 else ["y"] for node in range(count)}
    )
    odd = [(node, node + 2) for node in range(1, count - 2, 2) if node != 2 * cut - 1]
    links = np.array([*((node, node + 1) for node in range(count - 1)), *odd], np.int32)
    state = OverlayArrays(wanted, links)
    topic = np.array([wanted.topic_names.index("x")], np.int32)
    everyone = np.arange(count, dtype=np.int32)
    seeds = np.array([1, 2 * cut + 1], np.int32)
    for _ in range(2):  # and again: what was marked is gone
        [column] = state.labels_of_cut(topic, np.array([0, 2]), seeds, everyone).T
        assert (column[::2] == -1).all()
        assert column[1::2].tolist() == [column[1]] * cut + [column[-1]] * (count // 2 - cut)
        assert column[1] != column[-1]
        assert not state.wishes.bits.any()
