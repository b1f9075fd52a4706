"""Nothing lost, nothing doubled: every publication against the deliveries it should have had.

Publications whose deliveries add up are done with (see `due`). The rest is settled pair by pair of
publication and client. A missing delivery is lost only if the client's broker was recording without
a gap at the time; otherwise it is unproven. Near the window's end it is merely not there yet, and
near a publisher's advertisement its subscriptions may not have reached it.

What adds up is only counted (`audit_counts`); what is wrong is kept, pair by pair (`audit_wrong`),
for whether a broker's record has a gap may turn out later.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pubweave.pipeline.schemas import as_declared
from pubweave.pipeline.sums import SUM, Sums
from pubweave.pipeline.transforms import due
from pubweave.pipeline.transforms.publications import KEY

COUNTS = Sums(
    (),
    dict.fromkeys(
        ("publications", "sound_due", "rest_delivered", "duplicated", "unexpected",
         "rest_uncertain", "orphaned", "early_orphans"), SUM,
    ),
)  # fmt: skip
WRONG = Sums()
_MISSING = "status = 'due' and deliveries = 0"


@dataclass(frozen=True)
class AuditInputs:
    """What the audit looks at."""

    publications: DataFrame
    deliveries: DataFrame
    advertisement_changes: DataFrame
    pending_after: float
    """Later publications may have deliveries that are not on disk yet."""
    settle_s: float


def audit_sums(inputs: AuditInputs, facts: DataFrame, subs: DataFrame) -> DataFrame:
    """Each recorded publication: how many deliveries are due, and whether they add up."""
    first = inputs.publications.groupBy("topic").agg(F.min("published_at").alias("first_at"))
    versions = due.steady_versions(subs, first, inputs.settle_s)
    steady = due.with_steady_due(facts.where("recorded > 0"), versions, inputs.settle_s)
    others = subs.where("not steady")
    explicit = due.explicit_due(due.pairs_of(inputs.publications, others, inputs.settle_s))
    counts = ["explicit_due", "explicit_digest", "explicit_uncertain"]
    together = steady.join(explicit, KEY, "left").fillna(0, counts)
    fresh = _freshly_advertised(inputs).withColumn("freshly_advertised", F.lit(True))
    marked = together.join(fresh, KEY, "left").fillna(False, ["freshly_advertised"])
    total = F.col("steady_due") + F.col("explicit_due")
    digest = F.col("steady_digest").bitwiseXOR(F.col("explicit_digest"))
    adds_up = (
        ~F.col("near_change")
        & ~F.col("freshly_advertised")
        & (F.col("explicit_uncertain") == 0)
        & (total == F.col("deliveries"))
        & (digest == F.col("client_digest"))
    )
    return marked.select(
        *KEY, "published_at", "freshly_advertised", total.alias("due"), adds_up.alias("adds_up")
    )


def audit_pairs(inputs: AuditInputs, subs: DataFrame, sums: DataFrame) -> DataFrame:
    """Of publications that do not add up, every client that was due, or that it came to."""
    questionable = sums.where("not adds_up").select(*KEY, "published_at", "freshly_advertised")
    publications = inputs.publications.join(questionable.select(*KEY), KEY, "left_semi")
    wanted = due.pairs_of(publications, subs, inputs.settle_s)
    came = (
        inputs.deliveries.join(questionable.select(*KEY), KEY, "left_semi")
        .groupBy(*KEY, "client")
        .agg(
            F.count(F.lit(1)).alias("deliveries"),
            F.max("broker").alias("delivered_by"),
            F.max("topic").alias("delivered_topic"),
        )
    )
    pairs = (
        wanted.join(came, [*KEY, "client"], "full_outer")
        .join(questionable, KEY)
        .withColumn("deliveries", F.coalesce("deliveries", F.lit(0)))
        .withColumn("broker", F.coalesce("broker", "delivered_by"))
        .withColumn("topic", F.coalesce("topic", "delivered_topic"))
    )
    pending = F.col("published_at") > inputs.pending_after
    excused = (F.col("deliveries") == 0) & (pending | F.col("freshly_advertised"))
    status = (
        F.when(F.col("certainty").isNull(), "unexpected")
        .when(F.col("certainty") == due.UNCERTAIN, "uncertain")
        .when(excused, "uncertain")
        .otherwise("due")
    )
    return pairs.withColumn("status", status).select(
        *KEY, "client", "broker", "status", "deliveries", "published_at", "topic"
    )


def audit_counts(
    pending_after: float, facts: DataFrame, sums: DataFrame, pairs: DataFrame
) -> DataFrame:
    """What is not wrong, and what is beyond doubt, counted: one row."""
    sound = sums.agg(
        F.count(F.lit(1)).alias("publications"),
        F.coalesce(F.sum(F.when(F.col("adds_up"), F.col("due"))), F.lit(0)).alias("sound_due"),
    )
    is_late = F.col("last_delivered_at") > pending_after
    orphans = facts.where("recorded = 0 and deliveries > 0").agg(
        F.coalesce(F.sum(F.when(~is_late, F.col("deliveries"))), F.lit(0)).alias("orphaned"),
        F.coalesce(F.sum(F.when(is_late, F.col("deliveries"))), F.lit(0)).alias("early_orphans"),
    )
    again = F.greatest(F.col("deliveries") - 1, F.lit(0))
    rest = pairs.agg(
        _count_if(F.expr("status = 'due' and deliveries > 0")).alias("rest_delivered"),
        F.coalesce(F.sum(again), F.lit(0)).alias("duplicated"),
        _count_if(F.col("status") == "unexpected").alias("unexpected"),
        _count_if(F.col("status") == "uncertain").alias("rest_uncertain"),
    )
    return sound.crossJoin(rest).crossJoin(orphans)


def audit_wrong(pairs: DataFrame) -> DataFrame:
    """Every pair of publication and client that went wrong, or cannot be proven right."""
    return pairs.where(f"({_MISSING}) or deliveries > 1 or status = 'unexpected'")


def with_coverage(wrong: DataFrame, coverage: DataFrame, settle_s: float) -> DataFrame:
    """Whether the client's broker was recording, without a gap, when it should have delivered.

    ``coverage`` says when a broker recorded without a gap.
    """
    spans = coverage.toDF("covered_broker", "covered_from", "covered_to")
    covered = (
        (F.col("broker") == F.col("covered_broker"))
        & (F.col("covered_from") <= F.col("published_at"))
        & (F.col("published_at") + settle_s <= F.col("covered_to"))
    )
    return (
        wrong.join(F.broadcast(spans), covered, "left")
        .groupBy(*KEY, "client", "broker", "status", "deliveries", "published_at", "topic")
        .agg(F.max(F.col("covered_broker").isNotNull()).alias("is_covered"))
    )


def audit(counts: DataFrame, wrong: DataFrame) -> DataFrame:
    """The verdict, one row; ``wrong`` with its coverage."""
    missing = wrong.where(_MISSING).agg(
        _count_if(F.col("is_covered")).alias("lost"),
        _count_if(~F.col("is_covered")).alias("unproven"),
    )
    delivered = F.col("sound_due") + F.col("rest_delivered")
    table = (
        counts.crossJoin(missing)
        .withColumn("delivered", delivered)
        .withColumn("due", delivered + F.col("lost") + F.col("unproven"))
        .withColumn("uncertain", F.col("rest_uncertain") + F.col("early_orphans"))
    )
    return as_declared(table, "audit")


def audit_findings(wrong: DataFrame) -> DataFrame:
    """What is wrong with each pair; ``wrong`` with its coverage."""
    missing = F.expr(_MISSING)
    kinds = F.array_compact(
        F.array(
            F.when(missing & F.col("is_covered"), "lost"),
            F.when(missing & ~F.col("is_covered"), "unproven"),
            F.when(F.col("deliveries") > 1, "duplicated"),
            F.when(F.col("status") == "unexpected", "unexpected"),
        )
    )
    return as_declared(wrong.withColumn("finding", F.explode(kinds)), "audit_findings")


def _count_if(condition: Column) -> Column:
    return F.count(F.when(condition, 1))


def _freshly_advertised(inputs: AuditInputs) -> DataFrame:
    """Publications of a publisher whose advertisement had just come."""
    came = (
        inputs.advertisement_changes.where("change = 'added'")
        .select(F.col("client").alias("publisher"), F.col("changed_at").alias("advertised_at"))
        .distinct()
    )
    since = F.col("published_at") - F.col("advertised_at")
    return (
        inputs.publications.select(*KEY, "published_at")
        .join(F.broadcast(came), "publisher")
        .where((since < inputs.settle_s) & (since > -inputs.settle_s))
        .select(*KEY)
        .distinct()
    )
