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

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pubweave.pipeline.deliveries import due
from pubweave.pipeline.frames.mergeable import SUM, Sums, together
from pubweave.pipeline.frames.schemas import as_declared
from pubweave.pipeline.frames.settings import moving
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
    may_be_fresh: bool = True
    """Whether any publication may be near an advertisement."""


def audit_sums(
    inputs: AuditInputs, facts: DataFrame, subs: DataFrame, kinds: due.Kinds
) -> DataFrame:
    """Each recorded publication: how many deliveries are due, and whether they add up."""
    steady = _with_steady_due(inputs, facts.where("recorded > 0"), subs, kinds)
    marked = _with_freshness(inputs, _with_explicit_due(inputs, steady, subs, kinds))
    adds_up = (
        "not near_change and not freshly_advertised and explicit_uncertain = 0"
        " and steady_due + explicit_due = deliveries"
        " and steady_digest ^ explicit_digest = client_digest"
    )
    return marked.selectExpr(
        *KEY, "published_at", "freshly_advertised", "steady_due + explicit_due AS due",
        f"{adds_up} AS adds_up",
    )  # fmt: skip


def _with_steady_due(
    inputs: AuditInputs, facts: DataFrame, subs: DataFrame, kinds: due.Kinds
) -> DataFrame:
    if not kinds.steady:
        return due.with_nothing_due(facts)
    first = inputs.publications.groupBy("topic").agg(F.expr("min(published_at) AS first_at"))
    versions = due.steady_versions(subs, first, inputs.settle_s)
    return due.with_steady_due(facts, versions, inputs.settle_s)


def _with_explicit_due(
    inputs: AuditInputs, facts: DataFrame, subs: DataFrame, kinds: due.Kinds
) -> DataFrame:
    counts = ["explicit_due", "explicit_digest", "explicit_uncertain"]
    if not kinds.loose:
        return facts.selectExpr("*", *(f"0L AS {name}" for name in counts))
    others = subs.where("not steady")
    pairs = due.pairs_of(inputs.publications, others, inputs.settle_s, nameless=kinds.nameless)
    return facts.join(due.explicit_due(pairs), KEY, "left").fillna(0, counts)


def _with_freshness(inputs: AuditInputs, facts: DataFrame) -> DataFrame:
    """Whether a publisher's advertisement had just come."""
    if not inputs.may_be_fresh:
        return facts.selectExpr("*", "false AS freshly_advertised")
    fresh = _freshly_advertised(inputs).selectExpr(*KEY, "true AS freshly_advertised")
    return facts.join(fresh, KEY, "left").fillna(False, ["freshly_advertised"])


def audit_pairs(
    inputs: AuditInputs, subs: DataFrame, sums: DataFrame, kinds: due.Kinds
) -> DataFrame:
    """Of publications that do not add up, every client that was due, or that it came to."""
    questionable = sums.where("not adds_up").selectExpr(*KEY, "published_at", "freshly_advertised")
    keys = questionable.selectExpr(*KEY)
    publications = inputs.publications.join(keys, KEY, "left_semi")
    wanted = due.pairs_of(publications, subs, inputs.settle_s, nameless=kinds.nameless)
    came = (
        inputs.deliveries.join(keys, KEY, "left_semi")
        .groupBy(*KEY, "client")
        .agg(
            F.expr("count(1) AS came"),
            F.expr("max(broker) AS delivered_by"),
            F.expr("max(topic) AS delivered_topic"),
        )
    )
    pairs = together([*KEY, "client"], wanted, came).join(questionable, KEY)
    pending = f"published_at > {moving(inputs.pending_after)}"
    status = (
        "CASE WHEN certainty is null THEN 'unexpected'"
        f" WHEN certainty = {due.UNCERTAIN} THEN 'uncertain'"
        f" WHEN came is null and ({pending} or freshly_advertised) THEN 'uncertain'"
        " ELSE 'due' END"
    )
    return pairs.selectExpr(
        *KEY, "client", "coalesce(broker, delivered_by) AS broker", f"{status} AS status",
        "coalesce(came, 0L) AS deliveries", "published_at",
        "coalesce(topic, delivered_topic) AS topic",
    )  # fmt: skip


def audit_counts(
    pending_after: float, facts: DataFrame, sums: DataFrame, pairs: DataFrame
) -> DataFrame:
    """What is not wrong, and what is beyond doubt, counted: one row."""
    sound = sums.agg(
        F.expr("count(1) AS publications"),
        F.expr("coalesce(sum(if(adds_up, due, 0L)), 0L) AS sound_due"),
    )
    is_late = f"last_delivered_at > {moving(pending_after)}"
    orphans = facts.where("recorded = 0 and deliveries > 0").agg(
        F.expr(f"coalesce(sum(if({is_late}, 0L, deliveries)), 0L) AS orphaned"),
        F.expr(f"coalesce(sum(if({is_late}, deliveries, 0L)), 0L) AS early_orphans"),
    )
    rest = pairs.agg(
        F.expr("count_if(status = 'due' and deliveries > 0) AS rest_delivered"),
        F.expr("coalesce(sum(greatest(deliveries - 1, 0L)), 0L) AS duplicated"),
        F.expr("count_if(status = 'unexpected') AS unexpected"),
        F.expr("count_if(status = 'uncertain') AS rest_uncertain"),
    )
    return together([], sound, rest, orphans)


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
        F.expr("count_if(is_covered) AS lost"), F.expr("count_if(not is_covered) AS unproven")
    )
    table = together([], counts, missing).selectExpr(
        "*",
        "sound_due + rest_delivered AS delivered",
        "sound_due + rest_delivered + lost + unproven AS due",
        "rest_uncertain + early_orphans AS uncertain",
    )
    return as_declared(table, "audit")


def audit_findings(wrong: DataFrame) -> DataFrame:
    """What is wrong with each pair; ``wrong`` with its coverage."""
    kinds = {
        "lost": f"{_MISSING} and is_covered",
        "unproven": f"{_MISSING} and not is_covered",
        "duplicated": "deliveries > 1",
        "unexpected": "status = 'unexpected'",
    }
    texts = ", ".join(f"if({condition}, '{kind}', NULL)" for kind, condition in kinds.items())
    found = wrong.selectExpr("*", f"explode(array_compact(array({texts}))) AS finding")
    return as_declared(found, "audit_findings")


def _freshly_advertised(inputs: AuditInputs) -> DataFrame:
    """Publications of a publisher whose advertisement had just come."""
    came = (
        inputs.advertisement_changes.where("change = 'added'")
        .selectExpr("client AS publisher", "changed_at AS advertised_at")
        .distinct()
    )
    return (
        inputs.publications.selectExpr(*KEY, "published_at")
        .join(F.broadcast(came), "publisher")
        .where(f"abs(published_at - advertised_at) < {inputs.settle_s}D")
        .selectExpr(*KEY)
        .distinct()
    )
