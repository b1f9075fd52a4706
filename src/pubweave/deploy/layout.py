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


class Layout:
    """The paths of one overlay.

    >>> Layout("demo").action("1-ab/0/2")
    '/pubweave/demo/plans/1-ab/0/2'
    """

    def __init__(self, overlay: str) -> None:
        self.overlay = validate_name(overlay, "the overlay's name")
        self.top: Path = f"{ROOT}/{overlay}"
        self.topology: Path = f"{self.top}/topology"
        self.brokers: Path = f"{self.top}/brokers"
        self.reports: Path = f"{self.top}/reports"
        self.executor: Path = f"{self.top}/executor"
        self.plan: Path = f"{self.top}/plan"
        self.plans: Path = f"{self.top}/plans"
        self.remap: Path = f"{self.top}/remap"
        self.remapper: Path = f"{self.top}/remapper"
        self.autopilot: Path = f"{self.top}/autopilot"
        self.decisions: Path = f"{self.top}/decisions"

    def broker(self, broker: BrokerId) -> Path:
        return f"{self.brokers}/{broker}"

    def report(self, broker: BrokerId) -> Path:
        return f"{self.reports}/{broker}"

    def steps(self, deployment: str) -> Path:
        return f"{self.plans}/{deployment}"

    def action(self, action_id: ActionId) -> Path:
        return f"{self.plans}/{action_id}"

    def parts(self, action_id: ActionId) -> Path:
        return f"{self.plans}/{action_id}/brokers"

    def part(self, action_id: ActionId, broker: BrokerId) -> Path:
        return f"{self.plans}/{action_id}/brokers/{broker}"

    def remap_parts(self, version: int, step: str) -> Path:
        return f"{self.top}/remaps/{version}/{step}"

    def remap_part(self, version: int, step: str, broker: BrokerId) -> Path:
        return f"{self.remap_parts(version, step)}/{broker}"

    def decision(self, id_: str) -> Path:
        return f"{self.decisions}/{id_}"


def action_id(deployment: str, step: int, place: int) -> ActionId:
    """The name of the action at a place of a step.

    >>> action_id("1-ab", 0, 2)
    '1-ab/0/2'
    """
    return f"{deployment}/{step}/{place}"
