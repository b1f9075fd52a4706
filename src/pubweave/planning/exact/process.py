"""The exact planner, in a child process: a problem goes in, findings come back, one line each.

The child is ended with the ``with`` block, whatever it is doing; that is what makes time limits
and Ctrl-C reliable. An interrupt of the terminal goes to this process only.

``python -m pubweave.planning.exact.process`` is the child: it reads one JSON document from standard
input and writes JSON lines to standard output.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections import deque
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


_END_S = 5.0


class ExactProcess:
    """A child at work on one problem; use it in a with."""

    def __init__(
        self,
        problem: PlanningProblem,
        at_least: int,
        known: NumberedSteps | None,
        way: SearchDirection,
        seed: int = 0,
    ) -> None:
        self._request = json.dumps(request_json(problem, at_least, known, way, seed))
        self._lines: deque[str] = deque()
        self._news = threading.Event()
        self._errors = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 - closed in __exit__
        self._process: subprocess.Popen[str] | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> ExactProcess:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pubweave.planning.exact.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            # Its own group: Ctrl-C passes it by. The session, and so its share of the CPU, is ours.
            process_group=0,
        )
        self._reader.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(_END_S)
            self._reader.join(_END_S)
        self._errors.close()

    def findings(self, wait_s: float) -> list[Finding]:
        """What came in; waits up to so long if nothing did and more can come."""
        if not self._lines and self.is_running:
            self._news.wait(wait_s)
        self._news.clear()
        found = []
        while self._lines:
            found.append(finding_from(json.loads(self._lines.popleft())))
        return found

    @property
    def is_running(self) -> bool:
        """Whether more can come."""
        return self._reader.is_alive() or bool(self._lines)

    def has_ended(self) -> bool:
        """Whether it has nothing more to say; RuntimeError, with what it said, if it failed."""
        if self.is_running:
            return False
        assert self._process is not None
        code = self._process.wait(_END_S)
        if code != 0:
            self._errors.seek(0)
            raise RuntimeError(f"the exact planner failed ({code}): {self._errors.read()[-2000:]}")
        return True

    def _read(self) -> None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with process.stdin:
                process.stdin.write(self._request)
        except BrokenPipeError:
            pass  # the child died early: has_ended tells why
        with process.stdout:
            for line in process.stdout:
                self._lines.append(line)
                self._news.set()
        self._news.set()
