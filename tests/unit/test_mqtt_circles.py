"""Circles that no probe finds end, and who says the same again and again loses nothing."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from pubweave.core.journal_snapshot import restore_broker, take_snapshot
from pubweave.core.mqtt_config import MqttConfig
from pubweave.core.mqtt_evidence import PROVEN_BITS
from pubweave.core.mqtt_returns import EXPECTED_MAX, Expected, Returns
from pubweave.core.mqtt_trials import LAST_QUIET_S, Experiment, Phase
from pubweave.model.mqtt_packets import VERSION_3, PubAck, Publish
from tests.circling import Connection, Outside, both
from tests.mqtt_world import MqttPeer, MqttWorld

MOST = 3000
"""Publications that bridges may bring because of one."""
SITES = 40
"""Made-up overlays with sites that repeat themselves."""
SOURCES = 2000


def same(*topics: str) -> dict[str, str]:
    return {topic: topic for topic in topics}


def echoes(world: MqttWorld) -> int:
    return sum(b.door.status().echoes for b in world.brokers.values() if b.door is not None)


def hearer(world: MqttWorld, *topics: str) -> MqttPeer:
    peer = world.client("hearer", "b1")
    for number, topic in enumerate(topics, 1):
        peer.subscribe(topic, 0, packet_id=number)
    return peer


# --- rings -----------------------------------------------------------------------------------


def check_ends(
    world: MqttWorld, outside: Outside, topics: list[str], within_s: float, *, copies: int = 1
) -> None:
    """One publication circles for a while; those after it are heard as often as there are ways to
    a name, and no more."""
    peer, ann = hearer(world, *topics), world.client("ann", "b1")
    ann.publish(topics[0], b"first", 1)
    outside.run(within_s, most=MOST)
    brought, heard = outside.passed, len(peer.payloads())
    print(f"{brought} brought, {heard} heard")  # noqa: T201
    for number in range(3):
        ann.publish(topics[0], b"%d" % number, 1, packet_id=number + 10)
        outside.run(15.0, most=MOST + 200)
        found = Counter(packet.topic for packet in peer.published())
        assert set(found) == set(topics), found
        assert found[topics[0]] == 1, found
        assert max(found.values()) <= copies, found


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("bridges", "delay_s", "within_s"),
    [
        (2, (0.001, 0.003), 25.0),
        (3, (0.001, 0.003), 40.0),
        (4, (0.001, 0.003), 60.0),
        (2, (0.05, 0.1), 60.0),
        (3, (0.05, 0.15), 120.0),
        (2, (0.2, 0.4), 200.0),
    ],
)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_exact_topics(
    bridges: int, delay_s: tuple[float, float], within_s: float, qos: int, seed: int
) -> None:
    world = MqttWorld(bridges)
    outside = Outside(world, seed)
    ends = [both(f"b{n + 1}", "t", delay_s=delay_s) for n in range(bridges)]
    outside.site(*ends, qos=qos)
    check_ends(world, outside, ["t"], within_s)


def test_bridges_to_one_door() -> None:
    world = MqttWorld(1)
    outside = Outside(world)
    outside.site(both("b1", "t"), both("b1", "t"), both("b1", "t"))
    check_ends(world, outside, ["t"], 60.0)


def test_a_bridge_that_only_takes() -> None:
    world = MqttWorld(3)
    outside = Outside(world)
    outside.site(
        Connection("b1", same("t"), {}),
        Connection("b2", {}, same("t")),
        Connection("b3", {}, same("t")),
    )
    check_ends(world, outside, ["t"], 60.0)


def test_names_that_are_exchanged() -> None:
    world = MqttWorld(2)
    outside = Outside(world)
    outside.site(
        Connection("b1", {"a": "m", "b": "n"}, {}), Connection("b2", {}, {"m": "b", "n": "a"})
    )
    check_ends(world, outside, ["a", "b"], 60.0)


def test_names_that_are_exchanged_over_two_bridges() -> None:
    names = {"a": "m", "b": "n"}, {"m": "b", "n": "a"}
    world = MqttWorld(2)
    outside = Outside(world)
    outside.site(Connection("b1", *names), Connection("b2", *names))
    check_ends(world, outside, ["a", "b"], 60.0, copies=2)


def test_three_names_in_a_circle() -> None:
    world = MqttWorld(2)
    outside = Outside(world)
    gives = {"m": "b", "n": "c", "o": "a"}
    outside.site(Connection("b1", {"a": "m", "b": "n", "c": "o"}, {}), Connection("b2", {}, gives))
    check_ends(world, outside, ["a", "b", "c"], 60.0)


def test_many_that_circle_at_once() -> None:
    world = MqttWorld(2)
    outside = Outside(world)
    outside.site(both("b1", "t"), both("b2", "t"))
    peer, ann = hearer(world, "t"), world.client("ann", "b1")
    for number in range(200):
        ann.publish("t", b"%d" % number, 1, packet_id=number + 1)
    outside.run(30.0, most=200 * 40)
    heard = Counter(peer.payloads())
    assert len(heard) == 200
    brought = outside.passed
    outside.run(60.0)
    assert outside.passed == brought, "it circles"


@pytest.mark.parametrize("every_s", [0.3, 1.0])
def test_somebody_inside_says_the_same_all_the_while(every_s: float) -> None:
    world = MqttWorld(2)
    outside = Outside(world)
    outside.site(both("b1", "t"), both("b2", "t"))
    peer, ann = hearer(world, "t"), world.client("ann", "b1")

    def beat() -> None:
        ann.publish("t", b"beat")
        outside.at(world.now + every_s, beat)

    beat()
    outside.run(90.0, most=MOST)
    peer.payloads()
    outside.run(30.0)
    assert abs(len(peer.payloads()) - 30.0 / every_s) <= 1


def test_a_topic_that_grows_with_each_round_ends_at_its_limit() -> None:
    """``t`` becomes ``x/t``, ``x/x/t`` and so on."""
    world = MqttWorld(2)
    outside = Outside(world)
    names = ["x/" * depth + "t" for depth in range(201)]
    takes = {name: name for name in names}
    outside.site(Connection("b1", takes, {}), Connection("b2", {}, {n: f"x/{n}" for n in names}))
    world.client("ann", "b1").publish("t", b"x")
    outside.run(30.0, most=MOST)
    assert outside.passed == 201, "200 names, and one more that is refused"


def test_without_the_setting_it_circles() -> None:
    world = MqttWorld(2, MqttConfig(recognises_echoes=False))
    outside = Outside(world)
    outside.site(both("b1", "t"), both("b2", "t"))
    world.client("ann", "b1").publish("t", b"x", 1)
    with pytest.raises(AssertionError, match="it circles"):
        outside.run(60.0, most=MOST)


def test_a_way_is_forgotten_when_bridges_come_or_go_or_nothing_comes_back() -> None:
    world = MqttWorld(2)
    outside = Outside(world)
    outside.site(both("b1", "t"), both("b2", "t"))
    check_ends(world, outside, ["t"], 30.0)
    circles = world.brokers["b1"].door.circles  # type: ignore[union-attr]
    assert circles._returns
    outside._sites.clear()  # the mosquitto passes nothing on any more
    for number in range(10):
        world.client("ann", "b1").publish("t", b"gone %d" % number)
        outside.run(3.0)
    assert not any(some.topics for some in circles._returns.values())
    world.client("another", "b2", version=VERSION_3, is_bridge=True).subscribe("t", 1)
    assert not circles._returns


def test_a_trial_survives_with_the_broker() -> None:
    world = MqttWorld(2)
    outside = Outside(world)
    outside.site(both("b1", "t"), both("b2", "t"))
    world.client("ann", "b1").publish("t", b"x", 1)
    outside.run(1.0)
    for broker in world.brokers.values():
        door = broker.door
        again = restore_broker(take_snapshot(broker, world.now), broker.config, epoch=1, now=0.0)
        assert door is not None
        assert again.door is not None
        assert door.circles._experiments
        assert again.door.deadline == door.deadline
        for name, experiment in door.circles._experiments.items():
            twin = again.door.circles._experiments[name]
            assert (twin.phase, twin.deadline) == (experiment.phase, experiment.deadline)
            assert list(twin.trials) == list(experiment.trials)


# --- who repeats itself ------------------------------------------------------------------------


def instants(chance: random.Random, seconds: float) -> list[float]:
    """When somebody says something: at any rate, regularly or not, alone or in bursts."""
    kind = chance.choice(["regular", "poisson", "bursts"])
    every_s = 10 ** chance.uniform(-1.7, 0.6)
    jitter = chance.choice([0.0, 0.0, 0.01, 0.1, 0.5])
    found, at = [], chance.random() * every_s
    while at < seconds:
        found += [at] * (chance.choice([1, 1, 3]) if kind == "bursts" else 1)
        if kind == "poisson":
            at += chance.expovariate(1.0 / every_s)
        else:
            at += max(0.001, every_s * (1.0 + jitter * chance.uniform(-1.0, 1.0)))
    return found


def said_by_sites(seed: int) -> tuple[int, int, int]:
    """What two or three sites with a bridge each said, what was heard, and echoes."""
    chance = random.Random(seed)
    world = MqttWorld(chance.choice([1, 2, 3]))
    outside = Outside(world, seed)
    sites = chance.choice([2, 2, 3])
    for _ in range(sites):
        outside.site(both(chance.choice(list(world.brokers)), "t", delay_s=(0.001, 0.01)))
    peer, said, begun = hearer(world, "t"), 0, world.now
    common = [n * chance.choice([0.25, 0.5, 1.0, 2.0]) for n in range(20)]
    is_common = chance.random() < 0.3
    for site in range(sites):
        for at in common if is_common else instants(chance, 20.0):
            late_s = chance.uniform(0.0, 0.02) if is_common else 0.0
            outside.at(begun + at + late_s, lambda s=site: outside.say(s, "t", b"same"))
            said += 1
    outside.run(20.0 + 80.0)
    return said, len(peer.payloads()), echoes(world)


def test_independent_sites_lose_nothing() -> None:
    for seed in range(SITES):
        said, heard, taken = said_by_sites(seed)
        assert (heard, taken) == (said, 0), f"seed {seed}"


def test_no_source_that_does_not_listen_is_ever_proven() -> None:
    """The trial alone, which is fed by the source whatever it lets go."""
    proven, bits = [], []
    for seed in range(SOURCES):
        chance = random.Random(seed)
        experiment = Experiment("mqtt:site", 0.2, float(seed))
        experiment.try_(b"d", "t", b"x", 0.0)
        experiment.begin(0.0)
        best = 0.0
        for at in instants(chance, 60.0):
            while experiment.deadline <= at and experiment.is_on:
                experiment.on_deadline(experiment.deadline)
                if b"d" in experiment.trials:
                    experiment.may_pass(b"d")
            if b"d" not in experiment.trials:
                break
            experiment.came(b"d", at)
            best = max([best, *(t.score for t in experiment.trials.values())])
            if not experiment.is_on and experiment.has_held:
                experiment.begin(at)
        bits.append(best)
        if experiment.proven:
            proven.append(seed)
    print(f"most evidence: {max(bits):.1f} of {PROVEN_BITS} bits")  # noqa: T201
    assert proven == []
    assert max(bits) < PROVEN_BITS


def test_who_answers_requests_is_no_ring() -> None:
    """A caller behind one bridge asks again when it has its answer, which is always the same."""
    world = MqttWorld(2)
    left = world.client("left", "b1", version=VERSION_3, is_bridge=True)
    right = world.client("right", "b2", version=VERSION_3, is_bridge=True)
    left.subscribe("answer")
    right.subscribe("request")
    asked = answered = 0
    left.say_nothing_back(Publish("request", b"get"))
    while world.now < 1100.0:
        for _ in right.published():
            right.say_nothing_back(Publish("answer", b"ok"))
            asked += 1
        got = left.published()
        for _ in got:
            left.say_nothing_back(Publish("request", b"get"))
            answered += 1
        world.pass_time(0.05)
    assert asked - answered <= 1
    assert asked > 500
    assert echoes(world) == 0


@pytest.mark.parametrize("window", [1, 20])
def test_who_waits_for_answers_before_it_says_more_is_no_ring(window: int) -> None:
    """As mosquitto does it, which has no more than 20 under way."""
    world = MqttWorld(2)
    world.client("other", "b2", version=VERSION_3, is_bridge=True).subscribe("t", 1)
    site = world.client("site", "b1", version=VERSION_3, is_bridge=True)
    peer, said, unanswered = hearer(world, "t"), 0, 0
    while said < 400:
        while unanswered < window and said < 400:
            said, unanswered = said + 1, unanswered + 1
            site.say_nothing_back(Publish("t", b"on", 1, packet_id=said))
        world.pass_time(0.01)
        unanswered -= sum(isinstance(packet, PubAck) for packet in site.heard())
    world.pass_time(60.0)
    assert len(peer.payloads()) == said
    assert echoes(world) == 0


# --- parts -------------------------------------------------------------------------------------


def test_a_ring_that_is_slower_than_all_times_is_cleared() -> None:
    experiment = Experiment("mqtt:site", 0.2, 0.0)
    experiment.try_(b"d", "t", b"x", 0.0)
    experiment.begin(0.0)
    while experiment.trials:
        experiment.on_deadline(experiment.deadline)
    assert experiment.cleared
    assert experiment.deadline < 10.0 + LAST_QUIET_S
    assert experiment.phase in (Phase.SETTLING, Phase.WATCHING)


def test_returns_are_bounded_and_learn_how_many_come() -> None:
    returns = Returns()
    returns.learn("t", 0.5, 3, "mqtt:a", 0.0)
    for number in range(4):
        returns.expect("t", b"d", "mqtt:a", number * 1.0)
        assert returns.took(b"d", number * 1.0 + 0.1)
        returns.forget_old(number * 1.0 + 0.9)
    assert returns.topics["t"].counts == {"mqtt:a": 1}
    for number in range(EXPECTED_MAX + 100):
        returns.add(Expected(9.0, b"%d" % number, "t", ""), 1)
    returns.forget_old(5.0)
    assert len(returns._order) <= EXPECTED_MAX
