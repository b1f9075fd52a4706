"""What stands beside a self-organizing broker in the simulation: the twin of
`runtime.coordination.organizer_host`. It probes, hands agreed exchanges over to the store, hosts an
executor until they are over, and finishes what a broker that died has left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pubweave.core.vocabulary.effects import OrganizeEffect, ProbeBroker, ProposeExchange
from pubweave.core.vocabulary.events import BrokerProbed, ExchangeEnded
from pubweave.deploy.commands import DeploymentError
from pubweave.deploy.documents import DeploymentDocument
from pubweave.deploy.executor import ExecutorConfig
from pubweave.deploy.layout import Layout
from pubweave.deploy.link_exchange import (
    RETRY_S,
    ExchangeBusy,
    find_abandoned,
    patience_s,
    submit_exchange,
)
from pubweave.deploy.store import SessionChanged, StoreAnswer, StoreNotice, StoreSessionState
from pubweave.model.deployment import DeploymentState
from pubweave.sim.hosts.deployment import SimExecutor
from pubweave.sim.kernel.nodes import SimBroker
from pubweave.sim.kernel.store_links import SimStore

LOOK_S = 0.05
ABANDONED_EVERY_S = 3.0


class ScriptRun:
    """A script of `deploy` on a line of its own, as `runtime.store.session.run_command` does."""

    def __init__(
        self,
        store: SimStore,
        name: str,
        script: Any,
        on_end: Callable[[Any, DeploymentError | None], None],
    ) -> None:
        self._script = script
        self._on_end = on_end
        self._request = next(script)
        self._is_asked = False
        self.line = store.connect(name, self._hear)

    def _hear(self, event: StoreAnswer | StoreNotice) -> None:
        if isinstance(event, StoreAnswer):
            self._go_on(event)
        elif event == SessionChanged(StoreSessionState.CONNECTED):
            self._ask()

    def _ask(self) -> None:
        if not self._is_asked and not self.line.is_broken:
            self._is_asked = True
            self.line.ask(self._request)

    def _go_on(self, answer: StoreAnswer) -> None:
        self._is_asked = False
        try:
            self._request = self._script.send(answer)
        except StopIteration as end:
            self.line.close()
            self._on_end(end.value, None)
        except DeploymentError as error:
            self.line.close()
            self._on_end(None, error)
        else:
            self._ask()


class SimOrganizerHost:
    """Beside one broker, through all its incarnations."""

    def __init__(
        self,
        store: SimStore,
        broker: SimBroker,
        layout: Layout,
        lock_s: float,
        rtt_s: Callable[[str, str], float | None],
        on_executor: Callable[[SimExecutor], None],
    ) -> None:
        """``rtt_s``: the round trip between two brokers, None if the second does not answer."""
        self._store = store
        self._broker = broker
        self._layout = layout
        self._lock_s = lock_s
        self._rtt_s = rtt_s
        self._on_executor = on_executor
        self._world = broker.world
        self._executors = 0
        self._script: ScriptRun | None = None
        self._executor: SimExecutor | None = None
        self._incarnation = 0
        broker.on_organize = self._on_effect
        self._world.after(self._world.uniform(0, ABANDONED_EVERY_S), self._look_for_abandoned)

    @property
    def is_busy(self) -> bool:
        return self._script is not None or self._executor is not None

    @property
    def is_executing(self) -> bool:
        return self._executor is not None

    def crashed(self) -> None:
        """The broker is about to crash, and all this with it."""
        self._incarnation += 1
        if self._script is not None:
            self._script.line.die()
        if self._executor is not None:
            self._executor.crash()
        self._script = self._executor = None

    def _on_effect(self, broker: SimBroker, effect: OrganizeEffect) -> None:
        self._world.note(broker.name, f"  {effect}")
        match effect:
            case ProbeBroker(other):
                rtt_s = self._rtt_s(broker.name, other)
                self._world.after(rtt_s or 1.0, self._give_probe, other, rtt_s, broker.incarnation)
            case ProposeExchange():
                until = self._world.now + patience_s(self._lock_s)
                self._submit(effect, until, self._incarnation)

    def _give_probe(self, other: str, rtt_s: float | None, incarnation: int) -> None:
        if self._broker.incarnation == incarnation:
            self._broker.handle(BrokerProbed(other, None if rtt_s is None else rtt_s * 1000.0))

    def _run(self, script: Any, on_end: Callable[[Any, DeploymentError | None], None]) -> None:
        incarnation = self._incarnation

        def end(value: Any, error: DeploymentError | None) -> None:
            if incarnation == self._incarnation:
                self._script = None
                on_end(value, error)

        self._script = ScriptRun(self._store, f"{self._broker.name}~", script, end)

    def _submit(self, effect: ProposeExchange, until: float, incarnation: int) -> None:
        if incarnation != self._incarnation:
            return
        if self.is_busy:
            self._tell(effect.request_id, False, "another exchange is under way here")
            return

        def submitted(made: DeploymentDocument | None, error: DeploymentError | None) -> None:
            if made is not None:
                self._execute(made.deployment, effect.request_id)
            elif isinstance(error, ExchangeBusy) and self._world.now < until:
                self._world.after(RETRY_S, self._submit, effect, until, incarnation)
            else:
                self._tell(effect.request_id, False, str(error))

        script = submit_exchange(self._layout, effect.ring, effect.removed, self._broker.name)
        self._run(script, submitted)

    # --- executing -------------------------------------------------------------------------

    def _execute(self, deployment: str, request_id: str | None) -> None:
        self._executors += 1
        name = f"{self._broker.name}~{self._broker.incarnation}.{self._executors}"
        config = ExecutorConfig(
            self._layout.overlay, name, step_timeout_s=20.0, missing_grace_s=6.0, retry_s=0.2
        )
        self._executor = SimExecutor(self._store, config)
        self._on_executor(self._executor)
        self._look(deployment, request_id, self._incarnation)

    def _look(self, deployment: str, request_id: str | None, incarnation: int) -> None:
        executor = self._executor
        if incarnation != self._incarnation or executor is None:
            return
        if not executor.is_alive:
            self._execute(deployment, request_id)  # it died alone: another one goes on
            return
        seen = executor.report.deployment if executor.report is not None else None
        is_ours = seen is not None and seen.deployment == deployment
        if seen is None or (is_ours and not seen.state.is_final):
            self._world.after(LOOK_S, self._look, deployment, request_id, incarnation)
            return
        # Ours is over; or another one has begun, and before that ours must have come to its end.
        self._executor = None
        executor.leave()
        if request_id is not None:
            is_done = is_ours and seen.state is DeploymentState.DONE
            self._tell(request_id, is_done, seen.reason)

    def _tell(self, request_id: str, done: bool, reason: str) -> None:
        if self._broker.is_up():
            self._broker.handle(ExchangeEnded(request_id, done, reason))

    # --- what others left ------------------------------------------------------------------

    def _look_for_abandoned(self) -> None:
        if self._broker.is_up() and not self.is_busy:
            self._run(find_abandoned(self._layout), self._found)
        self._world.after(ABANDONED_EVERY_S, self._look_for_abandoned)

    def _found(self, deployment: str | None, error: DeploymentError | None) -> None:
        if deployment:
            self._execute(deployment, None)
