"""Every table of a profile equals its plain-Python twin, on generated telemetry that went wrong."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pubweave.model.files.profile import WorkloadProfile
from pubweave.model.profile import PROFILE_TABLES
from pubweave.model.telemetry import TABLES
from pubweave.pipeline.frames.settings import ProfileSettings
from tests.naive.pipeline import NaiveProfile, Tree, grouped, key_of
from tests.naive.telemetry_world import World, as_rows, make_world, write_world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = ProfileSettings(slot_s=7.0, trace_length=20, neighborhood_hops=2, candidates=3)


@dataclass(frozen=True)
class Case:
    """A world, its profile by Spark, and the twin's."""

    world: World
    profile: WorkloadProfile
    naive: NaiveProfile

    def rows(self, table: str) -> list[dict[str, Any]]:
        return self.profile.rows(table)

    def trees(self) -> dict[int, Tree]:
        """What each numbered tree is."""
        links = grouped(self.rows("tree_links"), lambda row: row["tree"])
        receivers = grouped(self.rows("tree_receivers"), lambda row: row["tree"])
        return {
            row["tree"]: (
                row["topic"],
                row["broker"],
                frozenset((r["from_broker"], r["to_broker"]) for r in links[row["tree"]]),
                frozenset(r["broker"] for r in receivers[row["tree"]]),
            )
            for row in self.rows("delivery_trees")
        }


def naive_profile(world: World, settings: ProfileSettings) -> NaiveProfile:
    records = {table: as_rows(rows, table) for table, rows in world.records.items()}
    instants = [row[0] for rows in world.records.values() for row in rows]
    covered: dict[str, tuple[float, float]] = {}
    numbers: dict[str, set[int]] = {}
    for table, rows in records.items():
        instant = TABLES[table].columns[0].name
        for row in rows:
            broker, at = row[TABLES[table].recorded_by], row[instant]
            first, last = covered.get(broker, (at, at))
            covered[broker] = (min(first, at), max(last, at))
            if table == "deliveries":
                numbers.setdefault(broker, set()).add(row["record_number"])
    gappy = frozenset(b for b, n in numbers.items() if len(n) != max(n) - min(n) + 1)
    return NaiveProfile(records, settings, min(instants), max(instants), gappy, covered)


def profiled(spark: SparkSession, world: World, directory: Path) -> Case:
    from pubweave.pipeline.batch import run_profile

    write_world(world, directory / "run")
    run_profile(spark, str(directory / "run"), str(directory / "profile"), SETTINGS, now=0.0)
    return Case(world, WorkloadProfile(directory / "profile"), naive_profile(world, SETTINGS))


WORLDS: dict[str, dict[str, Any]] = {
    **{str(seed): {"seed": seed} for seed in range(1, 6)},
    # Sets of brokers take two words.
    "many brokers": {"seed": 6, "brokers": 70},
    "sampled": {"seed": 7, "sample_ratio": 0.25},
}


@pytest.fixture(
    scope="module",
    params=[name if name == "1" else pytest.param(name, marks=pytest.mark.slow) for name in WORLDS],
)
def case(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Case:
    return profiled(spark, make_world(**WORLDS[request.param]), tmp_path_factory.mktemp("world"))


def assert_same(
    rows: Iterable[dict[str, Any]], expected: Iterable[dict[str, Any]], key: str
) -> None:
    """Both have the same rows by key, and have some; floats to nine digits."""
    keys = key.split()
    found = {tuple(row[k] for k in keys): row for row in rows}
    wanted = {tuple(row[k] for k in keys): row for row in expected}
    assert wanted, "nothing to compare with"
    assert found.keys() == wanted.keys()
    for name, row in wanted.items():
        for column, value in row.items():
            told = found[name][column]
            if isinstance(value, float) and told is not None:
                assert told == pytest.approx(value, rel=1e-9, abs=1e-12), (name, column)
            else:
                assert told == value, (name, column)


def test_the_declared_tables_are_all_there_with_their_columns(case: Case) -> None:
    assert set(case.profile.description.tables) == set(PROFILE_TABLES)
    for name, table in PROFILE_TABLES.items():
        stored = case.profile.table(name)
        assert tuple(stored.column_names) == table.column_names
        assert stored.num_rows == case.profile.description.tables[name].rows
        for column in table.columns:
            assert column.nullable or stored.column(column.name).null_count == 0, column
        if table.key:
            keys = [tuple(row[k] for k in table.key) for row in stored.to_pylist()]
            assert len(set(keys)) == len(keys), f"{name} has a key twice"


def test_rates_follow_the_exponential_filter(case: Case) -> None:
    for key in ("topic", "publisher"):
        assert_same(case.rows(f"{key}_rates"), case.naive.rates(key), f"slot {key}")
        assert_same(case.rows(f"{key}s"), case.naive.totals(key), key)


def test_interest_and_what_pairs_share(case: Case) -> None:
    shared = case.naive.common_interest()
    assert shared
    rows = {(r["broker_a"], r["broker_b"]): r for r in case.rows("common_interest")}
    assert {pair: row["notifications"] for pair, row in rows.items()} == shared
    near = case.naive.distances()
    for row in case.rows("broker_interest"):
        broker = row["broker"]
        trees = case.naive.trees.values()
        assert row["notifications"] == len(case.naive.interests[broker])
        assert row["published"] == sum(root == broker for _, root, _, _ in trees)
        assert row["consumed"] == sum(broker in receivers for _, _, _, receivers in trees)
        assert row["neighbors_near"] == sum(one == broker for one, _ in near)
        phi = case.naive.phi(broker)
        assert row["neighborhood_overlap"] == (phi if phi is None else pytest.approx(phi))


def test_a_sketch_of_few_notifications_is_exact(case: Case) -> None:
    for row in case.rows("common_interest"):
        assert row["theta_error"] == 0.0
        assert row["theta_std"] == 0.0


def test_triples_on_the_way_to_a_broker(case: Case) -> None:
    expected = [
        {"broker": i, "via": k, "far": j, **row} for (i, k, j), row in case.naive.triples().items()
    ]
    assert expected
    assert_same(case.rows("common_interest_triples"), expected, "broker via far")


def test_bloom_filters_never_say_too_little(case: Case) -> None:
    for row in case.rows("bloom_estimates"):
        own, other = (case.naive.interests[row[name]] for name in ("broker", "other"))
        assert row["cached"] == len(own)
        assert row["common"] == len(own & other)
        assert row["common"] <= row["bloom_estimate"] <= row["cached"]


def test_traces_are_bit_vectors_of_the_last_publications(case: Case) -> None:
    expected = case.naive.traces()
    rows = {(row["publisher"], row["broker"]): row for row in case.rows("traces")}
    assert rows.keys() == expected.keys()
    for name, wanted in expected.items():
        bits = {
            64 * word + place
            for word, value in enumerate(rows[name]["bit_vector"])
            for place in range(64)
            if value >> place & 1
        }
        assert bits == wanted.pop("bits")
        assert len(bits) == rows[name]["distinct_publications"]
        assert {column: rows[name][column] for column in wanted} == wanted


def test_subscribers_behind_each_link(case: Case) -> None:
    expected = [
        {"publisher": p, "broker": a, "neighbor": b, **row}
        for (p, a, b), row in case.naive.downstream().items()
    ]
    assert expected
    assert_same(case.rows("downstream_counts"), expected, "publisher broker neighbor")


def test_subscriptions_over_time(case: Case) -> None:
    assert_same(case.rows("subscriptions"), case.naive.intervals, "client subscription added_at")
    assert_same(
        case.rows("client_topics"),
        [
            {"client": c, "topic": t, "broker": b}
            for (c, t), b in case.naive.client_topics().items()
        ],
        "client topic",
    )
    assert_same(
        case.rows("broker_topics"),
        [{"broker": b, "topic": t, "clients": n} for (b, t), n in
         case.naive.broker_topics().items()],
        "broker topic",
    )  # fmt: skip
    assert_same(case.rows("placement_candidates"), case.naive.candidates(), "client rank")


def test_subscription_rates(case: Case) -> None:
    naive = case.naive
    changes = naive.records["subscription_changes"]
    counts = Counter((naive.slot(r["changed_at"]), r["broker"], r["change"]) for r in changes)
    told = {(r["slot"], r["broker"]): r for r in case.rows("subscription_rates")}
    assert told.keys() == {(slot, broker) for slot, broker, _ in counts}
    for (slot, broker), row in told.items():
        assert row["added"] == counts[slot, broker, "added"]
        assert row["removed"] == counts[slot, broker, "removed"]
    turns = naive.topic_turns()
    by_broker = Counter((r["broker"], r["change"]) for r in changes)
    for row in case.rows("broker_subscriptions"):
        standing = [r for r in naive.standing() if r["broker"] == row["broker"]]
        assert row["subscriptions"] == len(standing)
        assert row["clients"] == len({r["client"] for r in standing})
        assert row["topics"] == len({r["topic"] for r in standing} - {None})
        added = by_broker[row["broker"], "added"] / naive.duration_s
        assert row["added_per_s"] == pytest.approx(added)
        changed = turns[row["broker"]] / naive.duration_s
        assert row["topic_changes_per_s"] == pytest.approx(changed)


def test_links_and_their_costs(case: Case) -> None:
    naive = case.naive
    rows = {(r["broker_a"], r["broker_b"]): r for r in case.rows("links")}
    assert {pair for pair, row in rows.items() if row["is_present"]} == naive.topology
    loads = grouped(naive.records["link_loads"], lambda r: (r["broker"], r["neighbor"]))
    for (a, b), row in rows.items():
        values = naive.rtts.get((a, b), [])
        assert row["rtt_samples"] == len(values)
        if values:
            assert_quantiles(values, row, "rtt")
            assert row["cost_ms"] == pytest.approx(naive.link_cost(a, b))
        # Both watched equally long: the count of the second broker by name is taken.
        taken = loads[b, a]
        assert row["messages"] == sum(r["messages_in"] + r["messages_out"] for r in taken)
        assert row["bytes"] == sum(r["bytes_in"] + r["bytes_out"] for r in taken)
    for row in case.rows("link_queues"):
        mine = loads[row["broker"], row["neighbor"]]
        per_s = sum(r["messages_out"] for r in mine) / sum(r["window_s"] for r in mine)
        waiting = sum(r["queue_messages"] for r in mine) / len(mine)
        assert row["output_queueing_ms"] == pytest.approx(1e3 * waiting / per_s)


def test_broker_costs_and_loads(case: Case) -> None:
    naive = case.naive
    assert_same(case.rows("broker_costs"), naive.processing.values(), "broker")
    loads = grouped(naive.records["broker_loads"], lambda row: row["broker"])
    for row in case.rows("broker_loads"):
        mine = loads[row["broker"]]
        watched = sum(r["window_s"] for r in mine)
        assert row["messages_in_per_s"] == pytest.approx(
            sum(r["messages_in"] for r in mine) / watched
        )
        cpu = [r["cpu_s"] for r in mine if r["cpu_s"] is not None]
        assert row["cpu_share"] == (pytest.approx(sum(cpu) / watched) if cpu else None)
        assert row["queue_messages_max"] == max(r["queue_messages"] for r in mine)
        assert row["restarts"] == 0


def assert_quantiles(values: list[float], row: dict[str, Any], name: str) -> None:
    """Each percentile has the right rank, within the error that its sketch states."""
    from tests.naive.sketches import rank_error

    error = rank_error(SETTINGS.kll_k) if len(values) > SETTINGS.kll_k else 0.0
    for percent in (50, 95, 99):
        told = row[f"{name}_ms_p{percent}"]
        below = sum(value < told for value in values) / len(values)
        upto = sum(value <= told for value in values) / len(values)
        assert below - error <= percent / 100 <= upto + error


def test_latency_over_time(case: Case) -> None:
    naive = case.naive
    by_slot = grouped(
        naive.records["deliveries"],
        lambda r: max(0, naive.slot(r["delivered_at"] - r["latency_ms"] / 1e3)),
    )
    rows = case.rows("latency")
    assert {row["slot"] for row in rows} == set(by_slot)
    for row in rows:
        values = [r["latency_ms"] for r in by_slot[row["slot"]]]
        assert row["affected"] is False
        assert row["deliveries"] == len(values)
        assert row["latency_ms_mean"] == pytest.approx(math.fsum(values) / len(values))
        assert row["latency_ms_max"] == max(values)
        assert_quantiles(values, row, "latency")


def test_the_audit_finds_what_went_wrong(case: Case) -> None:
    verdict, findings = case.naive.audit()
    [row] = case.rows("audit")
    assert {name: row[name] for name in verdict} == verdict
    assert row["orphaned"] == 0
    told = {
        (r["finding"], r["publisher"], r["sequence"], r["client"])
        for r in case.rows("audit_findings")
    }
    assert told == findings
    assert {kind for kind, *_ in findings} >= {"duplicated", "unexpected"}


def test_delivery_trees_and_their_costs(case: Case) -> None:
    expected = case.naive.delivery_trees()
    trees = case.trees()
    rows = {trees[row["tree"]]: row for row in case.rows("delivery_trees")}
    assert rows.keys() == expected.keys()
    for tree, wanted in expected.items():
        assert_same([rows[tree]], [wanted], "topic broker")


def test_the_cost_of_the_overlay_is_the_sum_over_publications(case: Case) -> None:
    naive = case.naive
    trees = naive.delivery_trees()
    each = 1 / case.world.sample_ratio
    per_publication = [trees[naive.trees[key]] for key in naive.publications]
    [cost] = case.rows("overlay_cost")
    overhead = each * sum(row["relays"] for row in per_publication)
    delay = each * sum(row["delay_ms"] for row in per_publication)
    assert cost["cost_ms"] == pytest.approx(each * sum(row["cost_ms"] for row in per_publication))
    assert cost["relay_overhead"] == overhead
    assert cost["delay_ms"] == pytest.approx(delay)
    assert cost["notification_cost"] == pytest.approx(overhead + SETTINGS.delay_weight * delay)
    by_topic = grouped(per_publication, lambda row: row["topic"])
    for row in case.rows("topic_costs"):
        mine = by_topic[row["topic"]]
        assert row["weight"] == each * len(mine)
        assert row["cost_ms"] == pytest.approx(each * sum(r["cost_ms"] for r in mine))


def test_gaps_in_the_telemetry_are_counted(case: Case) -> None:
    dropped = {
        broker: number - sum(row["broker"] == broker for row in case.naive.records["deliveries"])
        for (table, broker), number in case.world.numbers.items()
        if table == "deliveries"
    }
    told = {row["broker"]: row for row in case.rows("telemetry_gaps") if
            row["table"] == "deliveries"}  # fmt: skip
    for broker, row in told.items():
        records = [r for r in case.naive.records["deliveries"] if r["broker"] == broker]
        numbers = [r["record_number"] for r in records]
        assert row["records"] == len(records)
        assert row["missing"] == max(numbers) - min(numbers) + 1 - len(numbers)
        assert row["missing"] <= dropped[broker]
    assert key_of(case.naive.records["publications"][0]) in case.naive.trees
