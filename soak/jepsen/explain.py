"""What admits a loss: what clients were told, and what brokers counted.

An admission is of one instant. It explains what was published before it, and not long before. One
that a client was told explains what is missing at that client, as many as it said. A counted
notification explains one missing delivery, a counted publication all that are missing of one
publication. Each explains once, so more losses than admissions leave some that nobody admits.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

PUBLICATIONS = "publications at most"


@dataclass(frozen=True, order=True)
class Missing:
    """A due delivery that never came."""

    called_at: float
    client: str
    publisher: str
    number: int
    topic: str


@dataclass
class Admitted:
    """`count` losses, admitted at an instant; None: any number (a session began anew)."""

    at: float
    how: str
    count: int | None
    client: str = ""
    publisher: str = ""
    topic: str = ""

    def is_about(self, missing: Missing) -> bool:
        return self.publisher in ("", missing.publisher) and self.topic in ("", missing.topic)


@dataclass
class Explained:
    """How much is explained by what, and what is not."""

    explained: Counter[str] = field(default_factory=Counter)
    unexplained: list[Missing] = field(default_factory=list)


def explain(
    missing: list[Missing], admitted: list[Admitted], within_s: float, *, may_count: bool
) -> Explained:
    """Hold what is missing against what was admitted within `within_s` after it was published.

    ``may_count``: whether what brokers counted is an explanation at all."""
    found = Explained()
    left = _by_told(sorted(missing), [each for each in admitted if each.client], within_s, found)
    if may_count:
        counted = sorted((each for each in admitted if not each.client), key=lambda a: a.at)
        publications = [each for each in counted if each.how == PUBLICATIONS]
        others = [each for each in counted if each.how != PUBLICATIONS]
        left = _by_publications(left, publications, within_s, found)
        left = _by_notifications(left, others, within_s, found)
    found.unexplained += left
    return found


def _by_told(
    missing: list[Missing], told: list[Admitted], within_s: float, found: Explained
) -> list[Missing]:
    of_client: dict[str, list[Admitted]] = defaultdict(list)
    for said in told:
        of_client[said.client].append(said)
    budgets = {id(said): said.count for said in told}
    left = []
    for each in missing:
        for said in of_client.get(each.client, ()):
            budget = budgets[id(said)]
            is_in_time = each.called_at <= said.at <= each.called_at + within_s
            if budget == 0 or not is_in_time or not said.is_about(each):
                continue
            if budget is not None:
                budgets[id(said)] = budget - 1
            found.explained[said.how] += 1
            break
        else:
            left.append(each)
    return left


def _by_publications(
    missing: list[Missing], counted: list[Admitted], within_s: float, found: Explained
) -> list[Missing]:
    """Those that are missing most often first: that is the most that the count can stand for."""
    groups: dict[tuple[str, int], list[Missing]] = defaultdict(list)
    for each in missing:
        groups[each.publisher, each.number].append(each)
    budgets = [said.count or 0 for said in counted]
    left: list[Missing] = []
    for group in sorted(groups.values(), key=lambda g: (-len(g), g[0])):
        called = group[0].called_at
        for place, said in enumerate(counted):
            if budgets[place] and called <= said.at <= called + within_s:
                budgets[place] -= 1
                found.explained[said.how] += len(group)
                break
        else:
            left += group
    return sorted(left)


def _by_notifications(
    missing: Iterable[Missing], counted: list[Admitted], within_s: float, found: Explained
) -> list[Missing]:
    """Earliest deadline first: as many as can be explained at all."""
    waiting = list(missing)
    left: list[Missing] = []
    candidates: list[Missing] = []
    place = 0
    for each in counted:
        while place < len(waiting) and waiting[place].called_at <= each.at:
            heapq.heappush(candidates, waiting[place])
            place += 1
        for _ in range(each.count or 0):
            while candidates and candidates[0].called_at + within_s < each.at:
                left.append(heapq.heappop(candidates))
            if not candidates:
                break
            heapq.heappop(candidates)
            found.explained[each.how] += 1
    return left + candidates + waiting[place:]
