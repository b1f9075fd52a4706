"""What was asked of `run_sleepers`, and what it tells of a run, for people and for programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from soak.sleepers_plan import ClientsResult
from soak.sleepers_verdict import Judgement

START_S = 150.0
"""How long everything may take until the traffic begins."""
SLACK_S = 60.0
BETWEEN_S = 5.0
"""Between two faults of one run."""
PAIRS_SHOWN = 12


@dataclass(frozen=True)
class SleepersChoice:
    """What is done to which overlay."""

    strategy: str = "tree"
    durability: str = "memory"
    fault: str = "stop"
    for_s: float = 20.0
    at_once: int = 1
    times: int = 1
    brokers: int = 10
    homes: int = 1
    rate: float = 100.0
    payload_bytes: int = 100
    before_s: float = 8.0
    after_s: float = 20.0
    patience_s: float = 60.0
    seed: int = 1

    @property
    def limit_s(self) -> float:
        """When all must be over."""
        faults_s = self.times * (self.for_s + BETWEEN_S + SLACK_S)
        return START_S + self.before_s + faults_s + self.after_s + 2 * self.patience_s + SLACK_S

    def __str__(self) -> str:
        lasting = "" if self.fault == "kill" else f" {self.for_s:g} s"
        many = f" x{self.at_once}" if self.at_once > 1 else ""
        times = f", {self.times} times" if self.times > 1 else ""
        homes = f", {self.homes} homes" if self.homes > 1 else ""
        return f"{self.strategy} {self.durability} {self.fault}{lasting}{many}{times}{homes}"


@dataclass
class SleepersRun:
    """One run and what came of it."""

    choice: SleepersChoice
    judgement: Judgement = field(default_factory=Judgement)
    victims: list[str] = field(default_factory=list)
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    silent_brokers: list[str] = field(default_factory=list)
    result: ClientsResult | None = None
    back_after_s: list[float] = field(default_factory=list)
    seconds: float = 0.0
    failure: str = ""

    @property
    def verdict(self) -> str:
        return "NOT JUDGED" if self.failure else self.judgement.verdict

    @property
    def counted(self) -> dict[str, int]:
        """Of all brokers together."""
        names = {name: None for counted in self.counters.values() for name in counted}
        return {n: sum(c.get(n, 0) for c in self.counters.values()) for n in names}

    def document(self) -> dict[str, Any]:
        told = {} if self.result is None else self.result.told
        return {
            "run": str(self.choice),
            "seed": self.choice.seed,
            **self.judgement.document(),
            "verdict": self.verdict,
            "failure": self.failure,
            "victims": self.victims,
            "counted": self.counted,
            "counted_by_broker": {b: c for b, c in self.counters.items() if any(c.values())},
            "brokers_without_answer": self.silent_brokers,
            "clients_told": {
                client: msgspec.to_builtins(each)
                for client, each in told.items()
                if each.refused or each.missed or not each.is_connected
            },
            "duplicates_dropped_by_clients": sum(t.duplicates_dropped for t in told.values()),
            "publishers_stuck": [] if self.result is None else sorted(self.result.uncertain),
            "longest_wait_s": 0.0 if self.result is None else round(self.result.longest_wait_s, 2),
            "quiet_s": 0.0 if self.result is None else round(self.result.quiet_s, 1),
            "back_after_s": [round(each, 2) for each in self.back_after_s],
            "seconds": round(self.seconds, 1),
        }


def in_words(told: SleepersRun) -> str:
    """One run for people."""
    found = told.document()
    lines = [
        f"{told.choice}, seed {told.choice.seed}, {', '.join(told.victims)}: {told.verdict}"
        + (f" ({told.failure})" if told.failure else ""),
        f"  expected {found['expected']:,}, got {found['got']:,}, missing {found['missing']:,} "
        f"(of {found['missing_publications']:,} publications), doubled {found['doubled']}, "
        f"out of order {found['out_of_order']}, unexpected {found['unexpected']}",
        f"  the brokers say: {found['counted']}; by broker: {found['counted_by_broker']}",
        f"  the clients were told of {found['told_clients']} missed, at most "
        f"{found['told_clients_at_most']}; {len(found['clients_told'])} were told anything",
    ]
    for client, each in found["clients_told"].items():
        at = each["broker"] if each["is_connected"] else "no broker"
        lines.append(
            f"    {client} at {at}: refused {each['refused']} ({each['last_refusal']}), "
            f"{len(each['missed'])} gaps"
        )
    for publisher, subscriber, count in found["missing_of"][:PAIRS_SHOWN]:
        lines.append(f"    {publisher} -> {subscriber}: {count} missing")
    if (more := len(found["missing_of"]) - PAIRS_SHOWN) > 0:
        lines.append(f"    and {more} more pairs")
    if found["publishers_stuck"] or found["brokers_without_answer"]:
        lines.append(
            f"  stuck: {found['publishers_stuck']}, silent: {found['brokers_without_answer']}"
        )
    lines.append(
        f"  publishers waited {found['longest_wait_s']} s at most, {found['seconds']} s in all"
    )
    return "\n".join(lines)


def table(runs: list[SleepersRun]) -> str:
    columns = ("run", "seed", "expected", "missing", "doubled", "order", "counted", "told", "")
    rows: list[tuple[str, ...]] = [columns]
    for told in runs:
        found = told.judgement
        counted = f"{found.notifications_counted}+{found.publications_counted}"
        figures = (found.expected, found.missing, found.doubled, found.disordered)
        rows.append(
            (
                str(told.choice),
                str(told.choice.seed),
                *(f"{each:,}" for each in figures),
                counted,
                f"{found.told}..{found.told_at_most}",
                told.verdict,
            )
        )
    widths = [max(len(row[place]) for row in rows) for place in range(len(columns))]
    lines = [
        "  ".join(
            text.ljust(width) if place in (0, len(columns) - 1) else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([*lines, "counted: notifications + publications, by brokers; told: clients"])


def exit_code(runs: list[SleepersRun]) -> int:
    if any(not told.failure and told.judgement.is_fault for told in runs):
        return 1
    return 2 if any(told.failure for told in runs) else 0
