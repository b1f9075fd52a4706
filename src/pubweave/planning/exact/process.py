"""The exact planner behind a door: it works in a child process, its findings come back here.

The child is ended with the ``with`` block, whatever it is doing; that is what makes time limits
and Ctrl-C reliable. An interrupt of the terminal goes to this process only.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections import deque

from pubweave.planning.exact.search import Finding, SearchDirection
from pubweave.planning.exact.worker import finding_from, request_json
from pubweave.planning.problem.indexed import NumberedSteps
from pubweave.planning.problem.problem import PlanningProblem

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
            [sys.executable, "-m", "pubweave.planning.exact.worker"],
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
