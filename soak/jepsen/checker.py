"""The judge of a trial: holds histories of clients against what was promised to them.

    python -m soak.jepsen.checker DIR [--json]      # of a finished trial, from its files alone

What is due follows from histories only: an acknowledged publication (QoS 1 or 2, or native) whose
call came after a subscription that wants it was confirmed, and that was not withdrawn since. It
must come, once, and in its publisher's order. What never came is held against what the client was
told and what brokers counted (`explain`); what nobody admits is a silent loss. So is what came
twice, out of order, unwanted, or was published after an unsubscription had been acknowledged.

The judge reads lines one by one in the order of time. It keeps what is open, 29 bytes for each
publication and one for each publication and subscription that saw it.
"""

from __future__ import annotations

import argparse
import json
import sys
from array import array
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from soak.jepsen.explain import Admitted, Missing, explain
from soak.jepsen.history import Line, matches, read_in_order

RULES_FILE = "rules.json"
EXAMPLES = 40
"""Violations of one kind that are kept in words; all are counted."""
KEEP_CONTACT = ("stop", "stop several", "clock", "slow disk", "full disk", "plan", "remap")
"""Faults after which what a client had said is read."""
SLOW_WILL_S = 10.0
RETAINED_LAG_S = 5.0


@dataclass(frozen=True)
class Rules:
    """What a trial is judged by."""

    settle_s: float = 20.0
    """Without awaited confirmations: a subscription stands after so long without any fault."""
    awaits_confirmation: bool = False
    """A native subscription stands when `subscribe` has returned."""
    has_journal: bool = False
    """Nothing that was acknowledged may be lost, counted or not."""
    explain_s: float = 300.0
    """What was published longer ago than this is not explained by what is told or counted now."""
    is_in_order_across_topics: bool = True
    """Of native subscriptions to everything."""


@dataclass
class Violation:
    kind: str
    at: float
    text: str
    client: str = ""
    publisher: str = ""
    number: int = 0


class Publisher:
    """What one client has published, by number from 1 on."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.called = array("d", [0.0])
        self.acked = array("d", [0.0])
        self.topics = array("i", [-1])
        self.values = array("i", [0])
        self.qos = bytearray(1)
        self.sessions_lost: list[float] = []

    def add(self, n: int, at: float, topic: int, value: int, qos: int) -> bool:
        """False if the number is not the next one: then its client is broken."""
        if n != len(self.called):
            return False
        self.called.append(at)
        self.acked.append(0.0)
        self.topics.append(topic)
        self.values.append(value)
        self.qos.append(qos)
        return True

    def knows(self, n: int) -> bool:
        return 0 < n < len(self.called)


@dataclass
class Subscription:
    """One subscription of one client, from its call to its end."""

    client: str
    sid: str
    kind: str
    wanted: dict[str, Any]
    qos: int
    called_at: float
    confirmed_at: float | None = None
    stands_at: float | None = None
    """From when on publications are due."""
    withdrawn_at: float | None = None
    refused_at: float | None = None
    """When the unsubscription was acknowledged."""
    seen: dict[str, bytearray] = field(default_factory=dict)
    highest: dict[tuple[str, int], int] = field(default_factory=dict)
    open: dict[tuple[str, int], float] = field(default_factory=dict)
    """What is due and has not come: publisher and number -> when it was published."""

    def is_one_topic(self) -> bool:
        return "topic" in self.wanted


class Checker:
    """Feed it lines in the order of time; `finish` once."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.counts: Counter[str] = Counter()
        self.violations: list[Violation] = []
        self.violation_counts: Counter[str] = Counter()
        self._kinds: dict[str, str] = {}
        self._publishers: dict[str, Publisher] = {}
        self._topics: dict[str, int] = {}
        self._topic_names: list[str] = []
        self._subscriptions: dict[tuple[str, str], Subscription] = {}
        self._of_client: dict[str, list[Subscription]] = {}
        self._active: list[Subscription] = []
        self._unsettled: list[Subscription] = []
        self._faults: dict[int, float] = {}
        self._quiet_since: float | None = 0.0
        self._last_fault = -1e9
        self._last_loss_of_contact = -1e9
        self._contact_lost: set[int] = set()
        self._admitted: list[Admitted] = []
        self._wills: dict[tuple[str, int], float] = {}
        self._forbidden: set[tuple[str, int]] = set()
        self._cut: deque[tuple[float, str, int]] = deque()
        self._retained_acked: dict[str, list[tuple[float, int]]] = {}

    # --- reading -------------------------------------------------------------------------------

    def feed(self, line: Line) -> None:
        at, kind, *fields = line
        handler = getattr(self, f"_on_{kind}", None)
        if handler is None:
            raise ValueError(f"a history has a line of an unknown kind: {line}")
        while self._cut and self._cut[0][0] + SLOW_WILL_S < at:
            self._will_is_due(*self._cut.popleft())
        handler(at, *fields)

    @property
    def open(self) -> int:
        return sum(len(each.open) for each in self._subscriptions.values())

    def _violate(self, kind: str, at: float, text: str, **about: Any) -> None:
        self.violation_counts[kind] += 1
        if self.violation_counts[kind] <= EXAMPLES:
            self.violations.append(Violation(kind, at, text, **about))

    def _on_client(self, at: float, name: str, kind: str, broker: str) -> None:
        self._kinds[name] = kind

    def _on_finding(self, at: float, text: str) -> None:
        self._violate("finding", at, text)

    def _on_note(self, at: float, text: str) -> None:
        """For the page only."""

    # --- publications --------------------------------------------------------------------------

    def _publisher(self, client: str) -> Publisher:
        if client not in self._publishers:
            self._publishers[client] = Publisher(self._kinds.get(client, "native"))
        return self._publishers[client]

    def _topic(self, name: str) -> int:
        if name not in self._topics:
            self._topics[name] = len(self._topic_names)
            self._topic_names.append(name)
        return self._topics[name]

    def _on_pub(self, at: float, client: str, n: int, topic: str, value: int, qos: int) -> None:
        if not self._publisher(client).add(n, at, self._topic(topic), value, qos):
            self._violate("broken history", at, f"{client} published {n} out of turn")
        self.counts["published"] += 1
        self._settle(at)

    def _on_ack(self, at: float, client: str, first: int, last: int) -> None:
        publisher = self._publisher(client)
        for n in range(first, last + 1):
            if not publisher.knows(n) or publisher.acked[n]:
                continue
            publisher.acked[n] = at
            self.counts["acknowledged"] += 1
            topic = self._topic_names[publisher.topics[n]]
            if topic.startswith("r/"):
                self._retained_acked.setdefault(topic, []).append((at, n))
            if publisher.qos[n]:
                self._becomes_due(client, publisher, n, topic)

    def _becomes_due(self, client: str, publisher: Publisher, n: int, topic: str) -> None:
        called, value = publisher.called[n], publisher.values[n]
        for each in self._active:
            if not matches(each.wanted, topic, value):
                continue
            self.counts["wanted"] += 1
            if not each.qos:
                self.counts["excused: quality 0"] += 1
            elif each.stands_at is None or each.stands_at > called:
                self.counts["excused: not confirmed yet"] += 1
            else:
                self.counts["due"] += 1
                seen = each.seen.get(client)
                if seen is None or len(seen) <= n or not seen[n]:
                    each.open[client, n] = called

    # --- subscriptions -------------------------------------------------------------------------

    def _on_sub(self, at: float, client: str, sid: str, wanted: dict[str, Any], qos: int) -> None:
        made = Subscription(client, sid, self._kinds.get(client, "native"), wanted, qos, at)
        self._subscriptions[client, sid] = made
        self._of_client.setdefault(client, []).append(made)
        self._active.append(made)

    def _on_subok(self, at: float, client: str, sid: str) -> None:
        each = self._subscriptions[client, sid]
        each.confirmed_at = at
        if each.kind == "native" and self.rules.awaits_confirmation:
            each.stands_at = at
        elif each.stands_at is None:
            self._unsettled.append(each)

    def _on_unsure(self, at: float, client: str, sid: str) -> None:
        each = self._subscriptions[client, sid]
        each.stands_at = None
        self._admit(at, each.client, "session", None)

    def _on_unsub(self, at: float, client: str, sid: str) -> None:
        each = self._subscriptions[client, sid]
        each.withdrawn_at = at
        self._end(each, "excused: withdrawn meanwhile")

    def _on_unsubok(self, at: float, client: str, sid: str) -> None:
        self._subscriptions[client, sid].refused_at = at

    def _end(self, each: Subscription, excuse: str) -> None:
        self.counts[excuse] += len(each.open)
        each.open.clear()
        if each in self._active:
            self._active.remove(each)
        if each in self._unsettled:
            self._unsettled.remove(each)

    def _settle(self, at: float) -> None:
        """Which subscriptions stand since there was no fault for long enough."""
        quiet = self._quiet_since
        if quiet is None or not self._unsettled:
            return
        for each in list(self._unsettled):
            assert each.confirmed_at is not None
            stands = max(quiet, each.confirmed_at) + self.rules.settle_s
            if stands <= at:
                each.stands_at = stands
                self._unsettled.remove(each)

    # --- deliveries ----------------------------------------------------------------------------

    def _on_got(
        self,
        at: float,
        client: str,
        sid: str,
        publisher: str,
        n: int,
        topic: str,
        value: int,
        sent_at: float,
        qos: int,
        is_retained: int,
    ) -> None:
        each = self._subscriptions.get((client, sid))
        source = self._publishers.get(publisher)
        about = {"client": client, "publisher": publisher, "number": n}
        what = f"{client} got {publisher} {n} on {topic}"
        self.counts["delivered"] += 1
        if each is None or source is None or not source.knows(n):
            self._violate("unwanted", at, f"{what}: nobody published or asked for that", **about)
            return
        if self._topic_names[source.topics[n]] != topic or source.values[n] != value:
            self._violate("unwanted", at, f"{what}: it was published otherwise", **about)
            return
        if not matches(each.wanted, topic, value):
            self._violate("unwanted", at, f"{what}: it wanted {each.wanted}", **about)
            return
        if (publisher, n) in self._forbidden:
            # Its goodbye may not have got through to where it was.
            if self._last_loss_of_contact >= source.called[n]:
                self.counts["wills not judged: a fault"] += 1
            else:
                self._violate("unwanted will", at, f"{what}: it had left in order", **about)
        if each.refused_at is not None and source.called[n] > each.refused_at:
            self._violate("after unsubscribe", at, f"{what}, published after that", **about)
        if not is_retained:
            self._hold(at, each, source, publisher, n, what, about)

    def _hold(
        self,
        at: float,
        each: Subscription,
        source: Publisher,
        publisher: str,
        n: int,
        what: str,
        about: dict[str, Any],
    ) -> None:
        """Once, and in order."""
        seen = each.seen.setdefault(publisher, bytearray())
        if len(seen) <= n:
            seen.extend(bytes(n + 1 - len(seen)))
        if seen[n]:
            seen[n] = min(255, seen[n] + 1)
            if self._may_repeat(each, source, n):
                self.counts["repeated as quality 1 may"] += 1
            else:
                self._violate("doubled", at, f"{what} {seen[n]} times", **about)
            return
        seen[n] = 1
        each.open.pop((publisher, n), None)
        across = self.rules.is_in_order_across_topics and each.kind == source.kind == "native"
        key = publisher, -1 if across else source.topics[n]
        highest = each.highest.get(key, 0)
        if n < highest:
            self._violate("out of order", at, f"{what} after {highest}", **about)
        each.highest[key] = max(n, highest)

    def _may_repeat(self, each: Subscription, source: Publisher, n: int) -> bool:
        """QoS 1 on either way; or the publisher's session was lost between its two ends."""
        if each.kind == "native" and source.kind == "native":
            return False
        if (source.kind == "mqtt" and source.qos[n] == 1) or (
            each.kind == "mqtt" and each.qos == 1
        ):
            return True
        acked = source.acked[n] or float("inf")
        return any(source.called[n] <= lost <= acked for lost in source.sessions_lost)

    # --- what clients and brokers admit --------------------------------------------------------

    def _admit(
        self,
        at: float,
        client: str,
        how: str,
        count: int | None,
        publisher: str = "",
        topic: str = "",
    ) -> None:
        self._admitted.append(Admitted(at, how, count, client, publisher, topic))

    def _on_told(self, at: float, client: str, count: int, publisher: str, topic: str) -> None:
        self.counts["told missed"] += count
        self._admit(at, client, "told", count, publisher, topic)

    def _on_counted(
        self, at: float, broker: str, notifications: int, publications: int, at_most: int
    ) -> None:
        self.counts["counted notifications"] += notifications
        self.counts["counted notifications, at most"] += at_most
        self.counts["counted publications, at most"] += publications
        for how, count in (
            ("notifications", notifications),
            ("notifications at most", at_most),
            ("publications at most", publications),
        ):
            if count:
                self._admit(at, "", how, count)

    def _on_session(self, at: float, client: str, is_present: bool) -> None:
        """MQTT: what the session had is gone, and the client knows. It subscribes anew."""
        if is_present:
            return
        self.counts["sessions lost"] += 1
        self._publisher(client).sessions_lost.append(at)
        for each in self._of_client.get(client, []):
            if each.kind != "mqtt" or each.withdrawn_at is not None:
                continue
            recent = at - self.rules.explain_s
            told = [key for key, called in each.open.items() if called >= recent]
            for key in told:
                del each.open[key]
            self.counts["excused: session told lost"] += len(told)
            each.withdrawn_at = at
            kept = dict(each.open)
            self._end(each, "excused: withdrawn meanwhile")
            self.counts["excused: withdrawn meanwhile"] -= len(kept)
            each.open = kept

    def _on_down(self, at: float, client: str) -> None:
        for key in [key for key in self._wills if key[0] == client]:
            del self._wills[key]  # it may have gone out by itself

    # --- wills and retained --------------------------------------------------------------------

    def _on_will(self, at: float, client: str, n: int, topic: str) -> None:
        self._publisher(client).add(n, at, self._topic(topic), 0, 1)
        self.counts["wills"] += 1
        self._wills[client, n] = at

    def _on_cut(self, at: float, client: str, n: int) -> None:
        if (client, n) in self._wills:
            self._cut.append((at, client, n))

    def _will_is_due(self, at: float, client: str, n: int) -> None:
        """Unless a fault fell into its time: then only brokers with journals promise it."""
        began = self._wills.pop((client, n), None)
        if began is None or self._last_fault >= began or self._faults:
            self.counts["wills not judged: a fault"] += 1
            return
        publisher = self._publisher(client)
        publisher.acked[n] = at
        self._becomes_due(client, publisher, n, self._topic_names[publisher.topics[n]])

    def _on_bye(self, at: float, client: str, n: int) -> None:
        if self._wills.pop((client, n), None) is not None:
            self._forbidden.add((client, n))

    def _on_retained(self, at: float, client: str, topic: str, n: int, asked_at: float) -> None:
        """What a new subscriber is shown must not be older than what was acknowledged before it
        asked, if no fault was near."""
        known = self._retained_acked.get(topic, [])
        is_quiet = self._quiet_since is not None and self._quiet_since < asked_at - RETAINED_LAG_S
        due = [
            number
            for acked, number in known
            if self._quiet_since is not None
            and self._quiet_since < acked < asked_at - RETAINED_LAG_S
        ]
        if not is_quiet or not due:
            self.counts["retained not judged: a fault"] += 1
            return
        self.counts["retained"] += 1
        if n < max(due):
            text = f"{client} was shown {topic} {n}, {max(due)} was acknowledged before"
            self._violate("stale retained", at, text, client=client)

    # --- faults --------------------------------------------------------------------------------

    def _on_fault(
        self, at: float, number: int, name: str, targets: list[str], for_s: float
    ) -> None:
        self._settle(at)
        self._faults[number] = at
        self._last_fault = at
        if name not in KEEP_CONTACT:
            self._contact_lost.add(number)
            self._last_loss_of_contact = at
        self._quiet_since = None
        self.counts["faults"] += 1

    def _on_over(self, at: float, number: int) -> None:
        self._faults.pop(number, None)
        self._last_fault = at
        if number in self._contact_lost:
            self._last_loss_of_contact = at
        if not self._faults:
            self._quiet_since = at

    # --- the end -------------------------------------------------------------------------------

    def finish(self) -> dict[str, Any]:
        """The verdict; whatever is open is missing."""
        while self._cut:
            self._cut.popleft()
        missing = [
            Missing(called, each.client, publisher, n, self._topic_of(publisher, n))
            for each in self._subscriptions.values()
            for (publisher, n), called in each.open.items()
        ]
        may_count = not self.rules.has_journal
        found = explain(missing, self._admitted, self.rules.explain_s, may_count=may_count)
        self.counts["missing"] = len(missing)
        for how, count in found.explained.items():
            self.counts[f"missing: {how}"] += count
        kind = "lost although journaled" if self.rules.has_journal else "silent loss"
        for each in sorted(found.unexplained):
            text = f"{each.client} never got {each.publisher} {each.number} on {each.topic}"
            about = {"client": each.client, "publisher": each.publisher, "number": each.number}
            self._violate(kind, each.called_at, text, **about)
        return self.verdict()

    def _topic_of(self, publisher: str, n: int) -> str:
        return self._topic_names[self._publishers[publisher].topics[n]]

    def verdict(self) -> dict[str, Any]:
        return {
            "verdict": "VIOLATED" if self.violation_counts else "holds",
            "violations": dict(self.violation_counts),
            "counts": dict(sorted(self.counts.items())),
            "examples": [vars(each) for each in self.violations],
        }


def judge(lines: Iterable[Line], rules: Rules) -> dict[str, Any]:
    """The verdict on whole histories."""
    checker = Checker(rules)
    for line in lines:
        checker.feed(line)
    return checker.finish()


def read_rules(directory: Path) -> Rules:
    return Rules(**json.loads((directory / RULES_FILE).read_text()))


def main() -> int:
    """The command line; exit code 1 on violations."""
    parser = argparse.ArgumentParser(description="judge the histories in a directory")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = judge(read_in_order(given.directory), read_rules(given.directory))
    if given.json:
        print(json.dumps(found, indent=2))
    else:
        print(found["verdict"], found["violations"])
        for name, count in found["counts"].items():
            print(f"  {name:<40}{count:>10,}")
        for each in found["examples"]:
            print(f"  {each['at']:.3f} {each['kind']}: {each['text']}")
    return 1 if found["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
