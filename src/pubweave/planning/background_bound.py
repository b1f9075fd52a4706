"""The reachability bound of a large problem, proven in a thread while the greedy looks for plans.

The kernel behind it runs without the interpreter lock. The thread looks at the stop between
kernels and is not waited for: for 10,000 brokers a kernel may take seconds.
"""

from __future__ import annotations

import threading
from types import TracebackType

from pubweave.planning.indexed import IndexedProblem
from pubweave.planning.reachability import Reachability
from pubweave.planning.stop import Stop

_POLL_S = 0.02


class BackgroundBound:
    """``steps`` is a proven lower bound at any moment; use it in a with."""

    def __init__(self, indexed: IndexedProblem, stop: Stop) -> None:
        self.steps = 1
        self.is_infeasible = False
        self._indexed = indexed
        self._stop = stop
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._prove, daemon=True)

    def __enter__(self) -> BackgroundBound:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._left.set()

    def wait(self) -> None:
        """Until the bound is final or the stop comes."""
        while self._thread.is_alive() and not self._stop():
            self._thread.join(_POLL_S)

    def _prove(self) -> None:
        def ended() -> bool:
            return self._left.is_set() or self._stop()

        def tell(steps: int) -> None:
            self.steps = steps

        found = Reachability(self._indexed).fewest_steps(ended, tell)
        if found is None:
            self.is_infeasible = True
        else:
            self.steps = found
