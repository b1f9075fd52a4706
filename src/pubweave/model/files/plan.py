"""Plan files: JSON that a person can read, one step per line, bound to its topologies by hashes.

Only ``format_version`` and ``steps`` are required, so that plans of any origin can be judged; what
our planner writes also says what is proven, by which method, and between which topologies. Every
complaint names the file and the field. The same record always gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pubweave.model.files.atomic import replace_file
from pubweave.model.plans import (
    Action,
    Append,
    Bounds,
    Detach,
    Move,
    Plan,
    PlanStatus,
    Shift,
    Step,
)
from pubweave.model.topology import Topology

FORMAT_VERSION = 1
_OPERATIONS: Mapping[str, type[Shift] | type[Move] | type[Append] | type[Detach]] = {
    "shift": Shift,
    "move": Move,
    "append": Append,
    "detach": Detach,
}
_BROKER_COUNTS = {"shift": 3, "move": 4, "append": 2, "detach": 2}


class PlanFileError(ValueError):
    """A plan file that cannot be used, with the reason in words for its author."""


@dataclass(frozen=True)
class PlanRecord:
    """A plan and what is known about it; None where a foreign file does not say."""

    plan: Plan
    status: PlanStatus | None = None
    method: str | None = None
    seconds: float | None = None
    bounds: Bounds | None = None
    source_hash: str | None = None
    target_hash: str | None = None
    notes: tuple[str, ...] = ()


def topology_hash(topology: Topology) -> str:
    """A name for exactly these brokers and links, whatever their latencies.

    >>> topology_hash(Topology.from_links([("b2", "b1")]))[:20]
    'sha256:4745715ab12ed'
    """
    text = json.dumps([sorted(topology.brokers), sorted(topology.links)])
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def plan_id(record: PlanRecord) -> str:
    """A name for a plan between its topologies: who planned it, and when, does not matter."""
    text = json.dumps(
        [record.source_hash, record.target_hash, [_step_json(step) for step in record.plan.steps]]
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def validate_belongs(record: PlanRecord, source: Topology, target: Topology | None = None) -> None:
    """Raise PlanFileError where the plan was made for other topologies than these."""
    checks = [("source", record.source_hash, source)]
    if target is not None:
        checks.append(("target", record.target_hash, target))
    for name, wanted, topology in checks:
        if wanted is not None and wanted != topology_hash(topology):
            raise PlanFileError(
                f"{name}: the plan was made for another {name} topology ({wanted[:19]}..., this "
                f"one is {topology_hash(topology)[:19]}...); make a new plan"
            )


def read_plan(path: str | Path) -> PlanRecord:
    """The plan in a file; raises PlanFileError naming the file and what is wrong with it."""
    path = Path(path)
    try:
        return parse_plan(path.read_bytes())
    except OSError as error:
        raise PlanFileError(f"{path}: {error.strerror or error}") from error
    except PlanFileError as error:
        raise PlanFileError(f"{path}: {error}") from error


def write_plan(record: PlanRecord, path: str | Path) -> None:
    """Write a plan so that the file is never seen half written."""
    path = Path(path)
    try:
        replace_file(path, plan_to_json(record).encode())
    except OSError as error:
        raise PlanFileError(f"{path}: {error.strerror or error}") from error


def plan_to_json(record: PlanRecord) -> str:
    """The file's text: what is known, then one step per line."""
    known: dict[str, Any] = {"format_version": FORMAT_VERSION}
    if record.status is not None:
        known["status"] = record.status.value
    if record.method is not None:
        known["method"] = record.method
    if record.seconds is not None:
        known["seconds"] = round(record.seconds, 6)
    if record.bounds is not None:
        known["bounds"] = {"steps": record.bounds.steps, "actions": record.bounds.actions}
    for name, value in (("source", record.source_hash), ("target", record.target_hash)):
        if value is not None:
            known[name] = value
    if record.notes:
        known["notes"] = list(record.notes)
    head = "".join(f"{json.dumps(name)}: {json.dumps(value)},\n" for name, value in known.items())
    steps = ",\n".join(json.dumps(_step_json(step)) for step in record.plan.steps)
    return "{" + head + '"steps": [' + (f"\n{steps}\n" if steps else "") + "]}\n"


def parse_plan(content: bytes | str) -> PlanRecord:
    """The plan in JSON text; raises PlanFileError naming the field."""
    try:
        document = json.loads(content)
    except json.JSONDecodeError as error:
        raise PlanFileError(
            f"not JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        ) from error
    except UnicodeDecodeError as error:
        raise PlanFileError(f"not UTF-8 text: byte {error.start} cannot be decoded") from error
    if not isinstance(document, dict):
        raise PlanFileError("expected an object with 'format_version' and 'steps'")
    version = document.get("format_version")
    if version != FORMAT_VERSION or isinstance(version, bool):
        raise PlanFileError(f"format_version: expected {FORMAT_VERSION}, got {_shown(version)}")
    return PlanRecord(
        plan=Plan(_parse_steps(document.get("steps"))),
        status=_parse_status(document.get("status")),
        method=_text(document, "method"),
        seconds=_parse_seconds(document.get("seconds")),
        bounds=_parse_bounds(document.get("bounds")),
        source_hash=_text(document, "source"),
        target_hash=_text(document, "target"),
        notes=_parse_notes(document.get("notes", [])),
    )


def _step_json(step: Step) -> list[dict[str, Any]]:
    return [_action_json(action) for action in step]


def _action_json(action: Action) -> dict[str, Any]:
    return {"op": type(action).__name__.lower(), "brokers": list(action.brokers)}


def _parse_steps(value: Any) -> tuple[Step, ...]:
    if not isinstance(value, list):
        raise PlanFileError(f"steps: expected a list of steps, got {_shown(value)}")
    steps = []
    for number, actions in enumerate(value):
        if not isinstance(actions, list):
            raise PlanFileError(f"steps[{number}]: expected a list of actions")
        steps.append(
            tuple(
                _parse_action(entry, f"steps[{number}][{place}]")
                for place, entry in enumerate(actions)
            )
        )
    return tuple(steps)


def _parse_action(entry: Any, field: str) -> Action:
    if not isinstance(entry, dict):
        raise PlanFileError(f"{field}: expected an object with 'op' and 'brokers'")
    name = entry.get("op")
    if not isinstance(name, str) or name not in _OPERATIONS:
        raise PlanFileError(
            f"{field}.op: expected one of {', '.join(_OPERATIONS)}, got {_shown(name)}"
        )
    brokers = entry.get("brokers")
    wanted = _BROKER_COUNTS[name]
    if (
        not isinstance(brokers, list)
        or len(brokers) != wanted
        or not all(isinstance(broker, str) and broker for broker in brokers)
    ):
        raise PlanFileError(
            f"{field}.brokers: {name} takes a list of {wanted} broker ids, got {_shown(brokers)}"
        )
    return _OPERATIONS[name](*brokers)


def _parse_status(value: Any) -> PlanStatus | None:
    if value is None:
        return None
    try:
        return PlanStatus(value)
    except ValueError as error:
        allowed = ", ".join(status.value for status in PlanStatus)
        raise PlanFileError(f"status: expected one of {allowed}, got {_shown(value)}") from error


def _parse_seconds(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise PlanFileError(f"seconds: expected a number of 0 or more, got {_shown(value)}")
    return float(value)


def _parse_bounds(value: Any) -> Bounds | None:
    if value is None:
        return None
    steps, actions = (
        (value.get("steps"), value.get("actions")) if isinstance(value, dict) else (None, None)
    )
    # type() and not isinstance(): true and false are no counts.
    if type(steps) is not int or type(actions) is not int or steps < 0 or actions < 0:
        raise PlanFileError(f"bounds: expected counts 'steps' and 'actions', got {_shown(value)}")
    return Bounds(steps, actions)


def _parse_notes(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(note, str) for note in value):
        raise PlanFileError(f"notes: expected a list of texts, got {_shown(value)}")
    return tuple(value)


def _text(document: Mapping[str, Any], name: str) -> str | None:
    value = document.get(name)
    if value is not None and not isinstance(value, str):
        raise PlanFileError(f"{name}: expected a text, got {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."
