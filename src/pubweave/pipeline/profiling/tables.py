"""Which transform makes which table from what: the flow of a profile, and nothing else.

Intermediate frames (``facts``, ``tree_sets``, ...) are tasks like the tables; their names are not
in the model, so they are written to the scratch folder and removed. The frames named in `BALANCE`
are sums: with those of an earlier balance given, they are of both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pubweave.pipeline.deliveries import audit, due, trees
from pubweave.pipeline.frames.mergeable import Sums
from pubweave.pipeline.frames.schemas import local_frame, profile_schema
from pubweave.pipeline.frames.settings import ProfileSettings, ProfileWindow
from pubweave.pipeline.profiling.task_graph import TableTask
from pubweave.pipeline.transforms import (
    interest,
    latency,
    links,
    publications,
    rates,
    sketches,
    subscriptions,
    traces,
)

BALANCE = (
    "traffic", "tree_sets", "example_links", "interest_sketches", "newest", "traced",
    "traced_deliveries", "broker_cost_sums", "round_trip_sums", "crossing_sums", "link_load_sums",
    "broker_load_sums", "affected_sums", "latency_sums", "audit_counts", "audit_wrong",
    "kept_out",
)  # fmt: skip
"""What must be known of publications that are over, to go on without their records."""


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
    may_be_fresh: bool
    """Whether any publication may be near an advertisement."""
    gaps: DataFrame
    kept_out: DataFrame
    """Rows of the quarantine: the faulty records."""
    contradictions: DataFrame
    """Rows of the quarantine: refused files, and changes that contradict earlier ones."""
    balance: Mapping[str, DataFrame] = field(default_factory=dict)
    """The frames of `BALANCE`, of publications whose records are not in ``telemetry``."""

    @property
    def masks(self) -> list[str]:
        return publications.receiver_columns(len(self.broker_ids))

    def old(self, name: str) -> DataFrame | None:
        return self.balance.get(name)


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
        _sums(inputs, "kept_out", Sums(), make=lambda: inputs.kept_out),
        _task("quarantine", "kept_out", make=lambda old: old.unionByName(inputs.contradictions)),
    ]  # fmt: skip


def _task(name: str, *needs: str, make: Callable[..., DataFrame], part: bool = False) -> TableTask:
    """A task whose transform takes the frames it needs, in their order."""
    return TableTask(name, needs, lambda frames: make(*(frames[need] for need in needs)), part)


def _sums(
    inputs: ProfileInputs, name: str, merging: Sums, *needs: str, make: Callable[..., DataFrame],
    part: bool = True,
) -> TableTask:  # fmt: skip
    """A task for sums: of the telemetry, and of what an earlier balance has."""
    old = inputs.old(name)
    return _task(name, *needs, make=lambda *frames: merging.merged(make(*frames), old), part=part)


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
        _sums(inputs, "traffic", rates.TRAFFIC, part=False,
              make=lambda: rates.traffic(published, window)),
        _task("topic_rates", "traffic", make=lambda t: rates.topic_rates(t, window, alpha)),
        _task("topics", "traffic", "topic_rates",
              make=lambda t, r: rates.topics(t, r, window, alpha)),
        _task("publisher_rates", "traffic", make=lambda t: rates.publisher_rates(t, window, alpha)),
        _task("publishers", "traffic", "publisher_rates",
              make=lambda t, r: rates.publishers(t, r, window, alpha)),
    ]  # fmt: skip


def _link_tasks(inputs: ProfileInputs) -> list[TableTask]:
    t, kll_k = inputs.telemetry, inputs.settings.kll_k
    hops = inputs.settings.neighborhood_hops
    changes = t["link_changes"]
    return [
        _sums(inputs, "broker_cost_sums", links.broker_cost_merging(kll_k),
              make=lambda: links.broker_cost_sums(t["publications"], t["hops"], kll_k)),
        _task("broker_costs", "broker_cost_sums", make=links.broker_costs),
        _sums(inputs, "round_trip_sums", links.round_trips(kll_k),
              make=lambda: links.round_trip_sums(t["link_rtts"], kll_k)),
        _sums(inputs, "link_load_sums", links.LINK_LOADS,
              make=lambda: links.link_load_sums(t["link_loads"])),
        _sums(inputs, "crossing_sums", links.CROSSINGS,
              make=lambda: links.crossing_sums(t["hops"])),
        _task("links", "round_trip_sums", "link_load_sums", "crossing_sums",
              make=lambda rtts, loads, crossed: links.links(rtts, loads, crossed, changes)),
        _task("link_queues", "link_load_sums", make=links.link_queues),
        _sums(inputs, "broker_load_sums", links.BROKER_LOADS,
              make=lambda: links.broker_load_sums(t["broker_loads"])),
        _task("broker_loads", "broker_load_sums", make=links.broker_loads),
        # The driver made them: there is nothing to compute.
        _task("near", "links", part=True,
              make=lambda table: interest.distances(inputs.spark, table, hops)),
        _task("ways", "links", part=True,
              make=lambda table: interest.ways(inputs.spark, table, hops)),
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
        _task("subscription_counts", "subscriptions",
              make=lambda intervals: subscriptions.subscription_counts(intervals, changes)),
        _task("broker_subscriptions", "subscription_counts",
              make=lambda counts: subscriptions.broker_subscriptions(
                  counts, inputs.brokers, window)),
        _task("placement_candidates", "client_topics", "broker_topics", "subscriptions",
              make=lambda wanted, offered, intervals: subscriptions.placement_candidates(
                  wanted, offered, intervals, candidates)),
    ]  # fmt: skip


def _tree_tasks(inputs: ProfileInputs) -> list[TableTask]:
    masks, brokers = inputs.masks, inputs.brokers
    hops, delay_weight = inputs.telemetry["hops"], inputs.settings.delay_weight
    return [
        _sums(inputs, "tree_sets", trees.merging(masks), "facts", part=False,
              make=lambda facts: trees.tree_sets(facts, masks)),
        _task("tree_roots", "tree_sets", make=lambda sets: trees.tree_roots(sets, brokers)),
        _task("tree_receivers", "tree_sets",
              make=lambda sets: trees.tree_receivers(sets, masks, brokers)),
        # On its own: once Spark sees how few they are, all hops need not be moved to meet them.
        _task("examples", "tree_sets", "facts", make=trees.examples),
        _task("example_links", "tree_sets", "examples", part=True,
              make=lambda sets, chosen: trees.example_links(
                  sets, chosen, hops, inputs.old("example_links"))),
        _task("tree_links", "example_links", "tree_roots", make=trees.tree_links),
        _task("tree_paths", "tree_links", "tree_roots", "links",
              make=lambda away, roots, priced: trees.tree_paths(
                  interest.longest_path(priced, len(inputs.broker_ids)),
                  len(inputs.broker_ids), away, roots, priced)),
        _task("delivery_trees", "tree_sets", "tree_roots", "tree_links", "tree_receivers",
              "tree_paths", "topics", "broker_costs", "links", make=trees.delivery_trees),
        _task("topic_costs", "delivery_trees", make=trees.topic_costs),
        _task("overlay_cost", "delivery_trees",
              make=lambda table: trees.overlay_cost(table, delay_weight)),
    ]  # fmt: skip


def _interest_tasks(inputs: ProfileInputs) -> list[TableTask]:
    t, s, masks, brokers = inputs.telemetry, inputs.settings, inputs.masks, inputs.brokers
    entries = s.theta_log2_entries
    return [
        _task("interest_members", "tree_sets", make=lambda sets: interest.interest_members(
            interest.interest_sets(sets, masks, brokers), masks, brokers)),
        _task("pair_counts", "interest_members", make=interest.pair_counts),
        _task("broker_interest", "tree_sets", "tree_receivers", "interest_members", "pair_counts",
              "near", make=lambda *frames: interest.broker_interest(brokers, *frames)),
        _sums(inputs, "interest_sketches", sketches.merging(entries), part=False,
              make=lambda: sketches.interest_sketches(
                  t["publications"], t["deliveries"], entries)),
        _task("pair_estimates", "interest_sketches", part=True,
              make=lambda found: sketches.pair_estimates(found, entries)),
        _task("common_interest", "pair_counts", "pair_estimates", make=interest.common_interest),
        _task("common_interest_triples", "interest_members", "pair_counts", "broker_interest",
              "ways", make=interest.common_interest_triples),
        _task("newest", "facts", part=True, make=lambda facts: sketches.newest(
            facts, masks, s.bloom_cache_publications, inputs.old("newest"))),
        _task("bloom_caches", "newest",
              make=lambda last: sketches.bloom_caches(last, masks, brokers)),
        _task("bloom_estimates", "bloom_caches", make=lambda cached: sketches.bloom_estimates(
            cached, s.bloom_bits, s.bloom_hashes)),
    ]  # fmt: skip


def _trace_tasks(inputs: ProfileInputs) -> list[TableTask]:
    s, deliveries = inputs.settings, inputs.telemetry["deliveries"]
    return [
        _task("traced", "traffic", "facts", make=lambda traffic, facts: traces.traced_publications(
            traffic, s.trace_length, facts, inputs.old("traced"))),
        _task("traced_deliveries", "traced", make=lambda traced: traces.traced_deliveries(
            deliveries, traced, inputs.old("traced_deliveries"))),
        _task("traces", "traced", "traced_deliveries", make=traces.traces),
        _task("downstream_counts", "traced", "traced_deliveries", "tree_links", "tree_paths",
              make=lambda *frames: traces.downstream_counts(s.running_average_alpha, *frames)),
    ]  # fmt: skip


def _delivery_tasks(inputs: ProfileInputs) -> list[TableTask]:
    t, s = inputs.telemetry, inputs.settings
    margin_s = s.settle_s

    def periods() -> DataFrame:
        return latency.link_change_periods(t["link_changes"], inputs.first_published_at, margin_s)

    def affected(facts: DataFrame, found: DataFrame, receivers: DataFrame, away: DataFrame,
                 roots: DataFrame) -> DataFrame:  # fmt: skip
        # Most windows have no transformation, and a join with nothing still moves everything.
        if found.isEmpty():
            return local_frame(inputs.spark, [], latency.AFFECTED_PUBLICATIONS)
        root = roots.select(F.col("root_tree").alias("tree"), F.col("root_broker").alias("broker"))
        far = away.select("tree", F.col("to_broker").alias("broker"))
        brokers_of = root.unionByName(far).unionByName(receivers.select("tree", "broker"))
        return latency.affected_publications(facts, found, brokers_of)

    def latencies(hit: DataFrame) -> DataFrame:
        keys = None if hit.isEmpty() else hit
        return latency.latency_sums(t["deliveries"], keys, inputs.window, s.kll_k)

    def transformations(found: DataFrame, counted: DataFrame) -> DataFrame:
        if found.isEmpty():
            return local_frame(inputs.spark, [], profile_schema("transformations"))
        return latency.transformations(found, counted)

    return [
        _task("periods", make=periods),
        _task("affected", "facts", "periods", "tree_receivers", "tree_links", "tree_roots",
              make=affected),
        _sums(inputs, "affected_sums", latency.AFFECTED, "periods", "affected",
              make=latency.affected_sums),
        _task("transformations", "periods", "affected_sums", make=transformations),
        _sums(inputs, "latency_sums", latency.merging(s.kll_k), "affected", make=latencies),
        _task("latency", "latency_sums",
              make=lambda found: latency.latency(found, inputs.window)),
    ]  # fmt: skip


def _audit_tasks(inputs: ProfileInputs) -> list[TableTask]:
    t, spark = inputs.telemetry, inputs.spark
    pending_after, settle_s = inputs.pending_after, inputs.settings.settle_s
    audited = audit.AuditInputs(
        t["publications"], t["deliveries"], t["advertisement_changes"], pending_after, settle_s,
        inputs.may_be_fresh,
    )  # fmt: skip
    return [
        _task("audit_subscriptions", "subscriptions",
              make=lambda intervals: due.prepared(spark, intervals)),
        _task("audit_kinds", "audit_subscriptions", make=due.kinds),
        _task("audit_sums", "facts", "audit_subscriptions", "audit_kinds",
              make=lambda facts, subs, kinds: audit.audit_sums(
                  audited, facts, subs, due.Kinds.of(kinds))),
        _task("audit_pairs", "audit_subscriptions", "audit_sums", "audit_kinds",
              make=lambda subs, sums, kinds: audit.audit_pairs(
                  audited, subs, sums, due.Kinds.of(kinds))),
        _sums(inputs, "audit_counts", audit.COUNTS, "facts", "audit_sums", "audit_pairs",
              make=lambda *frames: audit.audit_counts(pending_after, *frames)),
        _sums(inputs, "audit_wrong", audit.WRONG, "audit_pairs", make=audit.audit_wrong),
        _task("audit_covered", "audit_wrong", make=lambda wrong: audit.with_coverage(
            wrong, inputs.coverage, settle_s)),
        _task("audit", "audit_counts", "audit_covered", make=audit.audit),
        _task("audit_findings", "audit_covered", make=audit.audit_findings),
    ]  # fmt: skip
