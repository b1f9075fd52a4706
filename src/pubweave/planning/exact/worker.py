"""The child process of the exact planner: a problem comes in, findings go out, one line each.

``python -m pubweave.planning.exact.worker`` reads one JSON document from standard input and writes
JSON lines to standard output. The parent (`exact/process`) ends it by ending the process.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pubweave.model.ids import Link
from pubweave.model.plans import Action, Shift
from pubweave.model.topology import Topology
from pubweave.planning.exact.search import Finding, SearchDirection, search
from pubweave.planning.problem.indexed import NumberedSteps, indexed
from pubweave.planning.problem.problem import PlanningProblem


def request_json(
    problem: PlanningProblem,
    at_least: int,
    known: NumberedSteps | None,
    way: SearchDirection,
    seed: int,
) -> dict[str, Any]:
    """The question in JSON."""
    costs = problem.action_cost
    return {
        "brokers": sorted(problem.source.brokers),
        "source": sorted(problem.source.links),
        "target": sorted(problem.target.links),
        "forbidden": sorted(problem.forbidden),
        "disjoint_brokers": problem.disjoint_brokers,
        "max_degree": problem.max_degree,
        "action_cost": None if costs is None else _costs_json(costs),
        "at_least": at_least,
        "known": known,
        "way": way.value,
        "seed": seed,
    }


def finding_from(document: Mapping[str, Any]) -> Finding:
    """The finding in a line."""
    plan = document["plan"]
    return Finding(**{**document, "plan": None if plan is None else _steps(plan)})


def main() -> None:
    request = json.load(sys.stdin)
    known = request["known"]

    def tell(finding: Finding) -> None:
        sys.stdout.write(json.dumps(asdict(finding)) + "\n")
        sys.stdout.flush()

    plan = None if known is None else _steps(known)
    way = SearchDirection(request["way"])
    search(indexed(_problem(request)), request["at_least"], plan, way, request["seed"], tell)


def _problem(request: Mapping[str, Any]) -> PlanningProblem:
    brokers = frozenset(request["brokers"])
    costs = request["action_cost"]
    return PlanningProblem(
        Topology(brokers, _links(request["source"])),
        Topology(brokers, _links(request["target"])),
        disjoint_brokers=request["disjoint_brokers"],
        max_degree=request["max_degree"],
        forbidden=_links(request["forbidden"]),
        action_cost=None if costs is None else {Shift(i, j, k): cost for i, j, k, cost in costs},
    )


def _costs_json(costs: Mapping[Action, float]) -> list[list[Any]]:
    return [[*action.brokers, cost] for action, cost in costs.items() if isinstance(action, Shift)]


def _links(pairs: list[list[str]]) -> frozenset[Link]:
    return frozenset(Link(a, b) for a, b in pairs)


def _steps(steps: list[list[list[int]]]) -> NumberedSteps:
    return [[(i, j, k) for i, j, k in step] for step in steps]


if __name__ == "__main__":
    main()
