"""The ten things an operator wants to know of a profile, in words."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from pubweave.model.amounts import bytes_in_words
from pubweave.model.files.profile import WorkloadProfile


def summary_lines(profile: WorkloadProfile) -> list[tuple[str, str]]:
    """Label and text of each of the ten, worst first where there is a worst."""
    return [
        ("window", _window(profile)),
        ("nothing lost", _audit(profile)),
        ("traffic", _traffic(profile)),
        ("latency", _latency(profile)),
        ("busiest broker", _busiest_broker(profile)),
        ("busiest link", _busiest_link(profile)),
        ("common interest", _common_interest(profile)),
        ("cost", _cost(profile)),
        ("subscriptions", _subscriptions(profile)),
        ("telemetry", _telemetry(profile)),
    ]


def _most(rows: list[dict[str, Any]], column: str) -> dict[str, Any] | None:
    known = [row for row in rows if row[column] is not None]
    return max(known, key=lambda row: row[column], default=None)


def _window(profile: WorkloadProfile) -> str:
    about = profile.description
    records = sum(source.records for source in about.sources.values())
    brokers = len(profile.rows("broker_interest"))
    return f"{about.window_s:.1f} s of {about.run!r}: {records:,} records of {brokers} brokers"


def _audit(profile: WorkloadProfile) -> str:
    [verdict] = profile.rows("audit")
    told = f"{verdict['delivered']:,} of {verdict['due']:,} due deliveries"
    wrong = [f"{verdict[name]:,} {name}" for name in ("lost", "duplicated", "unexpected")]
    unsure = [
        f"{verdict[name]:,} {name}"
        for name in ("unproven", "uncertain", "orphaned")
        if verdict[name]
    ]
    return f"{told}: {', '.join(wrong)}" + (f" ({', '.join(unsure)})" if unsure else "")


def _traffic(profile: WorkloadProfile) -> str:
    topics = profile.rows("topics")
    top = _most(topics, "rate_per_s")
    if top is None:
        return "nothing was published"
    rate = sum(row["rate_per_s"] for row in topics)
    publishers = len(profile.rows("publishers"))
    return (
        f"{rate:,.1f} publications/s on {len(topics):,} topics by {publishers:,} publishers; most "
        f"on {top['topic']}: {top['rate_per_s']:,.1f}/s, next {top['filtered_rate_per_s']:,.1f}/s"
    )


def _latency(profile: WorkloadProfile) -> str:
    rows = profile.rows("latency")
    if not rows:
        return "nothing was delivered"
    last = next(row for row in rows if row["slot"] == rows[-1]["slot"])
    worst = max(rows, key=lambda row: row["latency_ms_p99"])
    told = (
        f"last slot median {last['latency_ms_p50']:.1f} ms, p99 {last['latency_ms_p99']:.1f} ms; "
        f"worst p99 {worst['latency_ms_p99']:.1f} ms in slot {worst['slot']}"
    )
    changes = profile.rows("transformations")
    if not changes:
        return f"{told}; no transformation"
    affected = sum(row["affected_publications"] for row in changes)
    return f"{told}; {len(changes)} transformations affected {affected:,} publications"


def _busiest_broker(profile: WorkloadProfile) -> str:
    top = _most(profile.rows("broker_loads"), "messages_in_per_s")
    if top is None:
        return "no load was recorded"
    cpu = "" if top["cpu_share"] is None else f", {top['cpu_share']:.0%} of a processor"
    return (
        f"{top['broker']}: {top['messages_in_per_s']:,.1f} messages/s in, "
        f"{top['messages_out_per_s']:,.1f} out{cpu}, up to {top['queue_messages_max']:,} waiting"
    )


def _busiest_link(profile: WorkloadProfile) -> str:
    links = profile.rows("links")
    top = _most(links, "bytes_per_s")
    if top is None:
        return "there is no link"
    dearest = _most(links, "cost_ms")
    told = (
        f"{top['broker_a']} - {top['broker_b']}: {top['messages_per_s']:,.1f} messages/s, "
        f"{bytes_in_words(top['bytes_per_s'])}/s"
    )
    if dearest is None:
        return told
    pair = f"{dearest['broker_a']} - {dearest['broker_b']}"
    return f"{told}; dearest {pair}: {dearest['rtt_ms_p50']:.1f} ms round trip"


def _common_interest(profile: WorkloadProfile) -> str:
    top = _most(profile.rows("common_interest"), "notifications")
    if top is None:
        return "no two brokers share a notification"
    return f"most between {top['broker_a']} and {top['broker_b']}: {top['notifications']:,}"


def _cost(profile: WorkloadProfile) -> str:
    [cost] = profile.rows("overlay_cost")
    trees = profile.rows("delivery_trees")
    if not cost["weight"]:
        return "nothing was published"
    worst = max(trees, key=lambda row: row["weight"] * row["cost_ms"])
    per = cost["cost_ms"] / cost["weight"]
    return (
        f"{per:,.2f} ms and {cost['relay_overhead'] / cost['weight']:.2f} relays per publication "
        f"on {len(trees):,} delivery trees; dearest: {worst['topic']} from {worst['broker']}"
    )


def _subscriptions(profile: WorkloadProfile) -> str:
    rows = profile.rows("broker_subscriptions")
    standing = sum(row["subscriptions"] for row in rows)
    changes = sum(row["added_per_s"] + row["removed_per_s"] for row in rows)
    most = most_at_once(profile.rows("subscriptions"))
    return f"{standing:,} at the end, at most {most:,} at once, {changes:,.2f} changes/s"


def most_at_once(intervals: list[dict[str, Any]]) -> int:
    """How many stood together: a run that ended in order has none left at its end."""
    moments = [(row["added_at"], 1) for row in intervals]
    moments += [(row["removed_at"], -1) for row in intervals if row["removed_at"] is not None]
    # What ends at an instant ends before something else begins.
    standing = accumulate(change for _, change in sorted(moments))
    return max(standing, default=0)


def _telemetry(profile: WorkloadProfile) -> str:
    about = profile.description
    sources = about.sources.values()
    parts = [
        f"{sum(source.duplicates for source in sources):,} duplicates",
        f"{sum(source.missing for source in sources):,} missing",
        f"{sum(about.quarantine.values()):,} quarantined",
    ]
    reasons = ", ".join(f"{reason}: {count:,}" for reason, count in about.quarantine.items())
    return ", ".join(parts) + (f" ({reasons})" if reasons else "")
