"""The scenario `churn`: seeds hold, a run is its seed, and a broken core is caught."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pubweave.core.routing.topic_connected.repair import OverlayRepair
from pubweave.core.routing.topic_connected.routing import TopicRouting
from pubweave.core.routing.topic_connected.subscribe_barrier import SubscribeBarrier
from pubweave.core.routing.topic_connected.topic_log import TopicLog
from pubweave.sim.kernel.trace import Trace
from pubweave.sim.kernel.world import World
from pubweave.sim.parts.run import Options
from pubweave.sim.scenarios.topics import churn, draw_churn
from pubweave.sim.simulate import run_seed, run_seeds


def _failed(seeds: range) -> dict[int, tuple[str, ...]]:
    runs = run_seeds("churn", seeds, jobs=1, max_brokers=8)
    return {run.seed: run.violations[:3] for run in runs if run.violations}


def _is_seen(words: str, seeds: range) -> bool:
    """Whether a run finds this fault; the first that does ends the search."""
    return any(
        words in text for seed in seeds for text in _failed(range(seed, seed + 1)).get(seed, ())
    )


def test_churn_breaks_nothing_for_long() -> None:
    assert not _failed(range(8)), "again with: pubweave simulate churn --max-brokers 8 --seed N"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 200, 20))
def test_churn_breaks_nothing_for_long_in_many_runs(first: int) -> None:
    assert not _failed(range(first, first + 20))


def test_the_runs_exercise_what_they_are_for() -> None:
    counts: dict[str, int] = {}
    for result in run_seeds("churn", range(20, 26), jobs=1, max_brokers=8):
        for name, count in result.counts.items():
            counts[name] = counts.get(name, 0) + count
    for name in ("broker_join", "broker_leave", "broker_crash", "links_opened", "deliveries"):
        assert counts[name], name
    assert counts["acknowledgements_checked"] > 60
    assert counts["wanted"] > 200 * counts["excused"]


def test_the_same_seed_is_the_same_run() -> None:
    digests = {run_seed("churn", 3, max_brokers=6, trace=Trace()).trace_digest for _ in range(2)}
    assert len(digests) == 1


def test_an_overlay_that_is_not_mended_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OverlayRepair, "_repair", lambda self, now: None)
    monkeypatch.setattr("pubweave.sim.parts.run.REST_LIMIT_S", 10.0)
    assert _failed(range(3))


def test_publications_that_are_not_sent_again_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopicLog, "beyond", lambda self, marks: [])
    found = [text for texts in _failed(range(4)).values() for text in texts]
    assert any("never got" in text for text in found)


def _is_on_the_map(self: SubscribeBarrier, topic: str) -> bool:
    return topic in self._map.records[self._map.own].topics and topic not in self._view().pieces


@pytest.mark.parametrize("sabotage", [lambda self, topic: True, _is_on_the_map])
def test_subscriptions_acknowledged_too_early_are_caught(
    monkeypatch: pytest.MonkeyPatch, sabotage: Callable[[SubscribeBarrier, str], bool]
) -> None:
    """At once, or without the neighbors' answers."""
    monkeypatch.setattr(SubscribeBarrier, "is_reached", sabotage)
    assert _is_seen("before it is connected", range(4))


def test_a_session_between_two_connections_is_no_gap() -> None:
    """The checker took it for one: b1 dialed b5, which had knocked, in the instant of the word."""
    assert not run_seed("churn", 91197).violations


def test_what_clients_without_a_broker_miss_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopicRouting, "_send_kept", lambda self, client, claim: None)
    assert _is_seen("never got", range(10))


def test_a_relay_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbors are sent what they did not ask for."""
    monkeypatch.setattr(
        TopicRouting,
        "route",
        lambda self, publication, origin: tuple(
            link for link in self.wanted if link is not origin and link.remote_epoch
        ),
    )
    world, options = World(1), Options(max_brokers=8)
    setting = draw_churn(world, options)
    setting.interests["b1"] = ()
    run = churn(world, options, setting)
    monkeypatch.setattr("pubweave.sim.parts.run.REST_LIMIT_S", 2.0)
    assert any("a relay" in text for text in run.run().violations)


def test_what_a_publisher_left_behind_reaches_its_topic() -> None:
    """Its broker was cut off, and left the topic too early: the publication was lost uncounted."""
    assert run_seed("churn", 110716).violations == ()


def test_a_subscription_waits_for_news_of_everybody() -> None:
    """Two brokers joined at once, one through the other; and a broker that had left a topic came
    back to it for a moment."""
    for seed in (140457, 140811):
        assert run_seed("churn", seed).violations == ()


def test_a_broker_that_leaves_takes_nothing_along_that_only_it_has() -> None:
    """It was asked to leave while the only other broker of a topic was cut off."""
    assert run_seed("churn", 160807).violations == ()


def test_a_broker_that_was_alone_keeps_what_its_publisher_left_behind() -> None:
    """It joined through a broker that crashed, so it knew of nobody; it left the topic before its
    first neighbor had said what it wants."""
    assert run_seed("churn", 2040290, durability="journal", max_brokers=14).violations == ()


def test_an_operator_introduces_a_broker_whose_only_acquaintance_crashed() -> None:
    """It took half a minute, and what is kept for links to come is not kept for longer."""
    assert run_seed("churn", 2040384, durability="journal", max_brokers=14).violations == ()


def test_a_broker_that_was_away_lingers_in_its_topics_for_as_much_longer() -> None:
    """The checker took what such a broker gets then for a relay."""
    assert run_seed("churn", 2140082, durability="journal", max_brokers=14).violations == ()
