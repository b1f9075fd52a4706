"""Plan files: JSON that a person can read, one step per line, bound to its topologies by hashes.

Only ``format_version`` and ``steps`` are required, so that plans of any origin can be judged; what
our planner writes also says what is proven, by which method, and between which topologies. Every
complaint names the file and the field. The same record always gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import msgspec

from pubweave.model.files.atomic import replace_file
from pubweave.model.plans import Action, Append, Bounds, Detach, Move, Plan, PlanStatus, Shift, Step
from pubweave.model.topology import Topology

FORMAT_VERSION = 1
_OPERATIONS: Mapping[str, type[Shift] | type[Move] | type[Append] | type[Detach]] = {
    "shift": Shift,
    "move": Move,
    "append": Append,
    "detach": Detach,
}


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


class _Entry(msgspec.Struct, frozen=True):
    op: str
    brokers: tuple[Annotated[str, msgspec.Meta(min_length=1)], ...]


class _File(msgspec.Struct, frozen=True):
    format_version: int
    steps: tuple[tuple[_Entry, ...], ...]
    status: PlanStatus | None = None
    method: str | None = None
    seconds: Annotated[float, msgspec.Meta(ge=0)] | None = None
    bounds: Bounds | None = None
    source: str | None = None
    target: str | None = None
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
    facts = {
        "format_version": FORMAT_VERSION,
        "status": record.status.value if record.status else None,
        "method": record.method,
        "seconds": None if record.seconds is None else round(record.seconds, 6),
        "bounds": asdict(record.bounds) if record.bounds else None,
        "source": record.source_hash,
        "target": record.target_hash,
        "notes": list(record.notes) or None,
    }
    known = {name: value for name, value in facts.items() if value is not None}
    head = "".join(f"{json.dumps(name)}: {json.dumps(value)},\n" for name, value in known.items())
    steps = ",\n".join(json.dumps(_step_json(step)) for step in record.plan.steps)
    return "{" + head + '"steps": [' + (f"\n{steps}\n" if steps else "") + "]}\n"


def parse_plan(content: bytes | str) -> PlanRecord:
    """The plan in JSON text; raises PlanFileError naming the field."""
    try:
        file = msgspec.json.decode(content, type=_File)
    except msgspec.ValidationError as error:
        what, _, field = str(error).partition(" - at `$.")
        raise PlanFileError(f"{field.rstrip('`')}: {what}" if field else what) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PlanFileError(f"not JSON in UTF-8: {error}") from error
    if file.format_version != FORMAT_VERSION:
        raise PlanFileError(f"format_version: expected {FORMAT_VERSION}, got {file.format_version}")
    steps = tuple(
        tuple(_action(entry, f"steps[{step}][{place}]") for place, entry in enumerate(entries))
        for step, entries in enumerate(file.steps)
    )
    return PlanRecord(
        Plan(steps), file.status, file.method, file.seconds, file.bounds, file.source, file.target,
        file.notes,
    )  # fmt: skip


def _action(entry: _Entry, field: str) -> Action:
    operation = _OPERATIONS.get(entry.op)
    if operation is None:
        raise PlanFileError(
            f"{field}.op: expected one of {', '.join(_OPERATIONS)}, got {entry.op!r}"
        )
    wanted = len(fields(operation))
    if len(entry.brokers) != wanted:
        raise PlanFileError(f"{field}.brokers: {entry.op} takes a list of {wanted} broker ids")
    return operation(*entry.brokers)


def _step_json(step: Step) -> list[dict[str, Any]]:
    return [{"op": type(a).__name__.lower(), "brokers": list(a.brokers)} for a in step]
