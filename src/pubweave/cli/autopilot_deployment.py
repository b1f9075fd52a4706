"""Seeing a decision's plan through on a real overlay: handed over once, executed until it rests.

The executor is the one of ``pubweave apply``. Asked to stop, it pauses after the current step, and
whoever comes next goes on from there.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from pubweave.cli.signals import StopRequest
from pubweave.control.handover import carried_out, hand_over
from pubweave.control.requests import CarriedOut
from pubweave.deploy.commands import DeploymentError, request_pause
from pubweave.deploy.documents import DeploymentDocument
from pubweave.deploy.executor import ExecutorConfig, ExecutorReport
from pubweave.deploy.layout import Layout
from pubweave.model.decisions import DecisionRecord
from pubweave.model.deployment import DeploymentState
from pubweave.runtime.executor_host import ExecutorHost
from pubweave.runtime.store_session import run_command
from pubweave.runtime.zookeeper_target import Coordination

LOOK_EVERY_S = 0.5


@dataclass(frozen=True, eq=False)
class Carrier:
    """Who carries plans out, where, and until when."""

    where: Coordination
    name: str
    step_timeout_s: float
    stop: StopRequest

    async def carry_out(self, record: DecisionRecord) -> CarriedOut | None:
        """How it ended; None if it pauses because a stop was asked for."""
        layout = Layout(self.where.overlay)
        config = ExecutorConfig(self.where.overlay, self.name, step_timeout_s=self.step_timeout_s)
        async with ExecutorHost(self.where.target, config) as host:
            begun = await run_command(host.store, hand_over(layout, record))
            if isinstance(begun, CarriedOut):
                return begun
            ended = await self._see_through(host, layout, begun)
        return carried_out(ended) if ended.state.is_final else None

    async def _see_through(
        self, host: ExecutorHost, layout: Layout, begun: DeploymentDocument
    ) -> DeploymentDocument:
        while not self.stop.is_set:
            report = await host.wait_until(lambda seen: _is_over(seen, begun), LOOK_EVERY_S)
            if report is not None and report.deployment is not None:
                return report.deployment
        with contextlib.suppress(DeploymentError):  # it has ended meanwhile
            await run_command(host.store, request_pause(layout))
        report = await host.wait_until(lambda seen: _rests(seen, begun))
        assert report is not None
        assert report.deployment is not None
        return report.deployment


def _is_over(report: ExecutorReport, begun: DeploymentDocument) -> bool:
    seen = report.deployment
    return seen is not None and seen.deployment == begun.deployment and seen.state.is_final


def _rests(report: ExecutorReport, begun: DeploymentDocument) -> bool:
    seen = report.deployment
    is_it = seen is not None and seen.deployment == begun.deployment
    return _is_over(report, begun) or (
        is_it and seen is not None and seen.state is DeploymentState.PAUSED
    )
