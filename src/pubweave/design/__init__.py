"""Design: the cheapest overlay for measured traffic, and what each change would save.

Rooms: `tree` (cost model, link exchanges, searches for a cheaper tree), `ci` (CI's local
heuristics), `relocation` (where publishers and subscribers cost least), `tco` (topic-connected
overlays of low degree), `dynatops` (brokers on a Chord ring, users at brokers).
`methods` has all of it as plain functions, and the registry of designs by name; `warm_up` compiles
all numba kernels into the cache on disk.

Not here: the way from one overlay to another (`planning`), whether a change pays (`control`), and
carrying it out (`deploy`). Nothing here does I/O.
Invariant: modules that live brokers import (`ci.rules`, `relocation.publisher`, ...) load no numba:
compiling or loading would stop a broker for a second.
ADR 9 (trees), 14 (topic-connected), 15 (relocation), 16 (DYNATOPS).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubweave._lazy import lazily

if TYPE_CHECKING:
    from pubweave.design.methods import Design as Design
    from pubweave.design.methods import Search as Search
    from pubweave.design.methods import common_interest as common_interest
    from pubweave.design.methods import exact as exact
    from pubweave.design.methods import global_search as global_search
    from pubweave.design.methods import low_oda as low_oda
    from pubweave.design.methods import maximum_interest_tree as maximum_interest_tree
    from pubweave.design.methods import minimum_spanning_tree as minimum_spanning_tree
    from pubweave.design.methods import problem_of as problem_of
    from pubweave.design.methods import ring_mapping as ring_mapping
    from pubweave.design.methods import target_topology as target_topology
    from pubweave.design.relocation.publisher import select_broker as select_broker
    from pubweave.design.relocation.rules import DeliveryReport as DeliveryReport
    from pubweave.design.relocation.rules import Preference as Preference
    from pubweave.design.tree.cost import tree_cost as tree_cost
    from pubweave.design.tree.problem import DesignLimits as DesignLimits
    from pubweave.design.tree.problem import DesignProblem as DesignProblem
    from pubweave.design.tree.problem import DesignResult as DesignResult
    from pubweave.design.tree.traffic import DesignError as DesignError

__getattr__, __all__ = lazily(
    __name__,
    {
        "pubweave.design.methods": "Design Search common_interest exact global_search "
        "low_oda maximum_interest_tree minimum_spanning_tree problem_of ring_mapping "
        "target_topology",
        "pubweave.design.relocation.publisher": "select_broker",
        "pubweave.design.relocation.rules": "DeliveryReport Preference",
        "pubweave.design.tree.cost": "tree_cost",
        "pubweave.design.tree.problem": "DesignLimits DesignProblem DesignResult",
        "pubweave.design.tree.traffic": "DesignError",
    },
)
