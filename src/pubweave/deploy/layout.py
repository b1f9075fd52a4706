"""Where things are in the store: the tree of IPITT Figure 4, as paths.

::

    /pubweave/<overlay>/topology               what the overlay looks like   TopologyDocument
    /pubweave/<overlay>/brokers/<id>           ephemeral: a broker lives     BrokerDocument
    /pubweave/<overlay>/reports/<id>           its load, queues and rates    BrokerReport
    /pubweave/<overlay>/executor               ephemeral: who executes       ExecutorDocument
    /pubweave/<overlay>/plan                   the current deployment        DeploymentDocument
    /pubweave/<overlay>/plans/<deployment>     its steps, never changed      PlanDocument
    .../<deployment>/<step>/<place>            one action and its state      ActionDocument
    .../<deployment>/<step>/<place>/brokers/<id>   that broker's part of it  PartDocument
    /pubweave/<overlay>/remap                  brokers of a ring are moved   RemapDocument
    /pubweave/<overlay>/remapper               ephemeral: who sees to that   ExecutorDocument
    /pubweave/<overlay>/remaps/<version>/<step>/<id>   a broker has done so  PartDocument
    /pubweave/<overlay>/autopilot              ephemeral: a control loop     AutopilotStatus
    /pubweave/<overlay>/decisions/<id>         what it decided, and why      DecisionRecord

A deployment has a name of its own, so that nothing of an earlier one can be taken for the current
one's. Steps and places count from 0. An action's id is its path below ``plans``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pubweave.deploy.store import Path
from pubweave.model.ids import ActionId, BrokerId

ROOT = "/pubweave"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")


class UnusableNameError(ValueError):
    """A name that cannot be part of a path."""


def validate_name(name: str, what: str) -> str:
    """The name, if it can be part of a path in the store; else UnusableNameError says what can."""
    if not _NAME.fullmatch(name):
        raise UnusableNameError(
            f"{what} {name!r} cannot be stored: use letters, digits, '_', '.', ':' and '-', "
            "beginning with a letter or a digit"
        )
    return name


@dataclass(frozen=True)
class Layout:
    """The paths of one overlay.

    >>> Layout("demo").action("1-ab/0/2")
    '/pubweave/demo/plans/1-ab/0/2'
    """

    overlay: str

    def __post_init__(self) -> None:
        validate_name(self.overlay, "the overlay's name")

    @property
    def top(self) -> Path:
        return f"{ROOT}/{self.overlay}"

    @property
    def topology(self) -> Path:
        return f"{self.top}/topology"

    @property
    def brokers(self) -> Path:
        return f"{self.top}/brokers"

    def broker(self, broker: BrokerId) -> Path:
        return f"{self.brokers}/{broker}"

    @property
    def reports(self) -> Path:
        return f"{self.top}/reports"

    def report(self, broker: BrokerId) -> Path:
        return f"{self.reports}/{broker}"

    @property
    def executor(self) -> Path:
        return f"{self.top}/executor"

    @property
    def plan(self) -> Path:
        return f"{self.top}/plan"

    @property
    def plans(self) -> Path:
        return f"{self.top}/plans"

    def steps(self, deployment: str) -> Path:
        return f"{self.plans}/{deployment}"

    def action(self, action_id: ActionId) -> Path:
        return f"{self.plans}/{action_id}"

    def parts(self, action_id: ActionId) -> Path:
        return f"{self.plans}/{action_id}/brokers"

    def part(self, action_id: ActionId, broker: BrokerId) -> Path:
        return f"{self.plans}/{action_id}/brokers/{broker}"

    @property
    def remap(self) -> Path:
        return f"{self.top}/remap"

    @property
    def remapper(self) -> Path:
        return f"{self.top}/remapper"

    def remap_parts(self, version: int, step: str) -> Path:
        return f"{self.top}/remaps/{version}/{step}"

    def remap_part(self, version: int, step: str, broker: BrokerId) -> Path:
        return f"{self.remap_parts(version, step)}/{broker}"

    @property
    def autopilot(self) -> Path:
        return f"{self.top}/autopilot"

    @property
    def decisions(self) -> Path:
        return f"{self.top}/decisions"

    def decision(self, id_: str) -> Path:
        return f"{self.decisions}/{id_}"


def action_id(deployment: str, step: int, place: int) -> ActionId:
    """The name of the action at a place of a step.

    >>> action_id("1-ab", 0, 2)
    '1-ab/0/2'
    """
    return f"{deployment}/{step}/{place}"
