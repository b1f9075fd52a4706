"""What can happen to the nodes of an overlay in a churn round, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from pubweave.design.tco.low_oda import RHO

Pair = tuple[str, str]


@dataclass(frozen=True)
class Join:
    """A node comes with its topics."""

    node: str
    topics: tuple[str, ...]


@dataclass(frozen=True)
class Leave:
    """A node goes, announced or not: its links are gone."""

    node: str


@dataclass(frozen=True)
class Resubscribe:
    """A node that stays wants some topics more, and some no longer."""

    node: str
    begun: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()


Change = Join | Leave | Resubscribe


class ChurnError(ValueError):
    """A change that cannot be: of a node that is not there, or is already."""


class Method(Enum):
    """Whom new links are sought among."""

    SHADOW = "shadow"
    NAIVE = "naive"


class Backups(Enum):
    """How backups are chosen: Algorithm 12 or 11."""

    PRIMAL_DUAL = "primal-dual"
    GREEDY = "greedy"


class DegreeRule(Enum):
    """Which degree links should not exceed: the paper's maximum over all nodes, or over the
    shadow set, or the fixed level that ``lean`` keeps to, dropping links nobody needs."""

    ALL = "all"
    SHADOWS = "shadows"
    LEAN = "lean"


@dataclass(frozen=True)
class ChurnSettings:
    """How an overlay is maintained; the defaults but for ``rule`` are the paper's."""

    method: Method = Method.SHADOW
    backups: Backups = Backups.PRIMAL_DUAL
    rule: DegreeRule = DegreeRule.LEAN
    coverage: int = 3
    rho: float = RHO
    window: int = 128
    """So many subscribers of a topic are looked at for a backup; the paper looks at all."""


@dataclass(frozen=True)
class RoundOutcome:
    """What a round did to the links."""

    added: tuple[Pair, ...]
    removed: tuple[Pair, ...]
    shadow_size: int
    """How many nodes new links were sought among."""

    @property
    def changed(self) -> int:
        return len(self.added) + len(self.removed)


def check_changes(
    changes: Sequence[Change], nodes: Collection[str], topics_of: Callable[[str], set[str]]
) -> None:
    """Raise `ChurnError` naming the first change that cannot be made to these nodes."""
    seen: set[str] = set()
    for change in changes:
        name = change.node
        if name in seen:
            raise ChurnError(f"node {name!r} is changed twice in one round")
        seen.add(name)
        if isinstance(change, Join):
            if name in nodes:
                raise ChurnError(f"node {name!r} joins but is there already")
        elif name not in nodes:
            verb = "leaves" if isinstance(change, Leave) else "changes its topics"
            raise ChurnError(f"node {name!r} {verb} but is not there")
        if isinstance(change, Resubscribe):
            _check_topics(change, topics_of(name))


def _check_topics(change: Resubscribe, held: set[str]) -> None:
    for topic in change.begun:
        if topic in held:
            raise ChurnError(f"node {change.node!r} begins topic {topic!r}, which it has already")
    for topic in change.ended:
        if topic not in held:
            raise ChurnError(f"node {change.node!r} ends topic {topic!r}, which it does not have")
