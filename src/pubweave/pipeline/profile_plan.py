"""Which transform makes which table from what: the flow of a profile, and nothing else.

Intermediate frames (``facts``, ``tree_sets``, ...) are tasks like the tables; their names are not
in the model, so they are written to the scratch folder and removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pubweave.pipeline.settings import ProfileSettings
from pubweave.pipeline.table_tasks import TableTask
from pubweave.pipeline.time_slots import ProfileWindow
from pubweave.pipeline.transforms import (
    audit,
    bloom,
    costs,
    due,
    interest,
    latency,
    links,
    neighborhoods,
    publications,
    rates,
    sketches,
    subscriptions,
    traces,
    trees,
)


@dataclass(frozen=True)
class ProfileInputs:
    """Clean telemetry and what is known about it before any table is computed."""

    spark: SparkSession
    telemetry: Mapping[str, DataFrame]
    window: ProfileWindow
    settings: ProfileSettings
    broker_ids: tuple[str, ...]
    brokers: DataFrame
    """broker, number: those that recorded anything."""
    incarnations: DataFrame
    """broker, epoch, next_began_at."""
    coverage: DataFrame
    """broker, covered_from, covered_to: when it recorded deliveries without a gap."""
    first_published_at: float
    pending_after: float
    """Publications after this instant may have deliveries that are not on disk yet."""
    gaps: DataFrame
    quarantine: DataFrame

    @property
    def masks(self) -> list[str]:
        return publications.receiver_columns(len(self.broker_ids))


def profile_tasks(inputs: ProfileInputs) -> list[TableTask]:
    """Every table, longest first where they do not depend on each other."""
    return [
        *_publication_tasks(inputs),
        *_rate_tasks(inputs),
        *_link_tasks(inputs),
        *_subscription_tasks(inputs),
        *_tree_tasks(inputs),
        *_interest_tasks(inputs),
        *_trace_tasks(inputs),
        *_delivery_tasks(inputs),
        *_audit_tasks(inputs),
        TableTask("telemetry_gaps", (), lambda _: inputs.gaps),
        TableTask("quarantine", (), lambda _: inputs.quarantine),
    ]


def _task(name: str, *needs: str, make: Callable[..., DataFrame]) -> TableTask:
    """A task whose transform takes the frames it needs, in their order."""
    return TableTask(name, needs, lambda frames: make(*(frames[need] for need in needs)))


def _publication_tasks(inputs: ProfileInputs) -> list[TableTask]:
    t = inputs.telemetry
    return [
        _task(
            "facts",
            make=lambda: publications.publication_facts(
                t["publications"], t["deliveries"], t["hops"], inputs.brokers,
                len(inputs.broker_ids),
            ),
        )
    ]  # fmt: skip


def _rate_tasks(inputs: ProfileInputs) -> list[TableTask]:
    published = inputs.telemetry["publications"]
    window, alpha = inputs.window, inputs.settings.rate_alpha
    return [
        _task("topic_rates", make=lambda: rates.topic_rates(published, window, alpha)),
        _task("topics", "topic_rates", make=lambda r: rates.topics(published, r, window, alpha)),
        _task("publisher_rates", make=lambda: rates.publisher_rates(published, window, alpha)),
        _task("publishers", "publisher_rates",
              make=lambda r: rates.publishers(published, r, window, alpha)),
    ]  # fmt: skip


def _link_tasks(inputs: ProfileInputs) -> list[TableTask]:
    t, kll_k = inputs.telemetry, inputs.settings.kll_k
    hops = inputs.settings.neighborhood_hops
    return [
        _task("broker_costs",
              make=lambda: links.broker_costs(t["publications"], t["hops"], kll_k)),
        _task("links", make=lambda: links.links(
            t["link_rtts"], t["link_loads"], t["link_changes"], t["hops"], kll_k)),
        _task("link_queues", make=lambda: links.link_queues(t["link_loads"])),
        _task("broker_loads", make=lambda: links.broker_loads(t["broker_loads"])),
        _task("near", "links",
              make=lambda table: neighborhoods.distances(inputs.spark, table, hops)),
    ]  # fmt: skip


def _subscription_tasks(inputs: ProfileInputs) -> list[TableTask]:
    changes, window = inputs.telemetry["subscription_changes"], inputs.window
    candidates = inputs.settings.candidates
    return [
        _task("subscriptions",
              make=lambda: subscriptions.subscriptions(changes, inputs.incarnations)),
        _task("subscription_rates", make=lambda: subscriptions.subscription_rates(changes, window)),
        _task("client_topics", "subscriptions", make=subscriptions.client_topics),
        _task("broker_topics", "subscriptions", make=subscriptions.broker_topics),
        _task("broker_subscriptions", "subscriptions",
              make=lambda intervals: subscriptions.broker_subscriptions(
                  intervals, changes, inputs.brokers, window)),
        _task("placement_candidates", "client_topics", "broker_topics", "subscriptions",
              make=lambda wanted, offered, intervals: subscriptions.placement_candidates(
                  wanted, offered, intervals, candidates)),
    ]  # fmt: skip


def _tree_tasks(inputs: ProfileInputs) -> list[TableTask]:
    masks, brokers = inputs.masks, inputs.brokers
    hops, delay_weight = inputs.telemetry["hops"], inputs.settings.delay_weight
    return [
        _task("tree_sets", "facts", make=lambda facts: trees.tree_sets(facts, masks)),
        _task("tree_roots", "tree_sets", make=lambda sets: trees.tree_roots(sets, brokers)),
        _task("tree_receivers", "tree_sets",
              make=lambda sets: trees.tree_receivers(sets, masks, brokers)),
        _task("tree_links", "tree_sets", "facts", "tree_roots",
              make=lambda sets, facts, roots: trees.tree_links(sets, facts, hops, roots)),
        _task("tree_paths", "tree_links", "tree_roots", "links",
              make=lambda away, roots, priced: trees.tree_paths(
                  neighborhoods.longest_path(priced, len(inputs.broker_ids)), away, roots, priced)),
        _task("delivery_trees", "tree_sets", "tree_roots", "tree_links", "tree_receivers",
              "tree_paths", "topics", "broker_costs", "links", make=costs.delivery_trees),
        _task("topic_costs", "delivery_trees", make=costs.topic_costs),
        _task("overlay_cost", "delivery_trees",
              make=lambda table: costs.overlay_cost(table, delay_weight)),
    ]  # fmt: skip


def _interest_tasks(inputs: ProfileInputs) -> list[TableTask]:
    t, s, masks, brokers = inputs.telemetry, inputs.settings, inputs.masks, inputs.brokers
    return [
        _task("interest_members", "tree_sets", make=lambda sets: interest.interest_members(
            interest.interest_sets(sets, masks, brokers), masks, brokers)),
        _task("pair_counts", "interest_members", make=interest.pair_counts),
        _task("broker_interest", "tree_sets", "tree_receivers", "interest_members", "pair_counts",
              "near", make=lambda *frames: interest.broker_interest(brokers, *frames)),
        _task("pair_estimates", make=lambda: sketches.pair_estimates(
            sketches.interest_sketches(t["publications"], t["deliveries"], s.theta_log2_entries),
            s.theta_log2_entries)),
        _task("common_interest", "pair_counts", "pair_estimates", make=interest.common_interest),
        _task("common_interest_triples", "interest_members", "pair_counts", "broker_interest",
              "near", make=lambda members, pairs, own, near: interest.common_interest_triples(
                  members, pairs, own, neighborhoods.ways(near))),
        _task("bloom_caches", "facts", make=lambda facts: bloom.bloom_caches(
            facts, masks, brokers, s.bloom_cache_publications)),
        _task("bloom_estimates", "bloom_caches", make=lambda cached: bloom.bloom_estimates(
            cached, s.bloom_bits, s.bloom_hashes)),
    ]  # fmt: skip


def _trace_tasks(inputs: ProfileInputs) -> list[TableTask]:
    t, s = inputs.telemetry, inputs.settings
    return [
        _task("traced", make=lambda: traces.traced_publications(
            t["publications"], s.trace_length)),
        _task("traced_deliveries", "traced",
              make=lambda traced: traces.traced_deliveries(traced, t["deliveries"])),
        _task("traces", "traced", "traced_deliveries", make=traces.traces),
        _task("traced_trees", "traced", "facts", make=traces.traced_trees),
        _task("downstream_counts", "traced_trees", "traced_deliveries", "tree_links",
              "tree_paths",
              make=lambda *frames: traces.downstream_counts(
                  s.running_average_alpha, *frames)),
    ]  # fmt: skip


def _delivery_tasks(inputs: ProfileInputs) -> list[TableTask]:
    t, s = inputs.telemetry, inputs.settings
    margin_s = s.settle_s

    def periods() -> DataFrame:
        return latency.link_change_periods(t["link_changes"], inputs.first_published_at, margin_s)

    def affected(facts: DataFrame, found: DataFrame, receivers: DataFrame, away: DataFrame,
                 roots: DataFrame) -> DataFrame:  # fmt: skip
        root = roots.select(F.col("root_tree").alias("tree"), F.col("root_broker").alias("broker"))
        far = away.select("tree", F.col("to_broker").alias("broker"))
        brokers_of = root.unionByName(far).unionByName(receivers.select("tree", "broker"))
        return latency.affected_publications(facts, found, brokers_of)

    def latencies(hit: DataFrame) -> DataFrame:
        # Most windows have no transformation, and a join with nothing still moves everything.
        keys = None if hit.isEmpty() else hit
        return latency.latency(t["deliveries"], keys, inputs.window, s.kll_k)

    return [
        _task("periods", make=periods),
        _task("affected", "facts", "periods", "tree_receivers", "tree_links", "tree_roots",
              make=affected),
        _task("transformations", "periods", "affected", make=latency.transformations),
        _task("latency", "affected", make=latencies),
    ]  # fmt: skip


def _audit_tasks(inputs: ProfileInputs) -> list[TableTask]:
    t, spark = inputs.telemetry, inputs.spark
    audited = audit.AuditInputs(
        t["publications"], t["deliveries"], t["advertisement_changes"], inputs.coverage,
        inputs.pending_after, inputs.settings.settle_s,
    )  # fmt: skip
    return [
        _task("audit_subscriptions", "subscriptions",
              make=lambda intervals: due.prepared(spark, intervals)),
        _task("audit_sums", "facts", "audit_subscriptions",
              make=lambda facts, subs: audit.audit_sums(audited, facts, subs)),
        _task("audit_pairs", "audit_subscriptions", "audit_sums",
              make=lambda subs, sums: audit.audit_pairs(audited, subs, sums)),
        _task("audit", "facts", "audit_sums", "audit_pairs",
              make=lambda *frames: audit.audit(inputs.pending_after, *frames)),
        _task("audit_findings", "audit_pairs",
              make=lambda pairs: audit.audit_findings(pairs, t["publications"])),
    ]  # fmt: skip
