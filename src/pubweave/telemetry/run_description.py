"""`run.json`: what a directory of telemetry is about, for its readers.

One file in the directory's root, written once by whoever starts the run (not by each broker). It
says which schema the tables follow and which clock their instants are of. Needs no Arrow.
"""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Any

import msgspec

from pubweave.model.files.atomic import replace_file
from pubweave.model.telemetry import SCHEMA_VERSION

RUN_FILE = "run.json"


class TelemetryError(ValueError):
    """A telemetry directory that cannot be used, with the reason and the remedy."""


class RunClock(enum.Enum):
    """Which seconds the instants of a run are."""

    UNIX = "unix"
    VIRTUAL = "virtual"


class RunDescription(msgspec.Struct, frozen=True):
    """What produced a directory of telemetry; ``details`` is free for the producer (seed, ...)."""

    name: str
    clock: RunClock
    started_at: float
    sample_ratio: float
    details: dict[str, Any] = {}
    schema_version: int = SCHEMA_VERSION


def write_run_description(directory: Path, description: RunDescription) -> Path:
    """Write ``run.json`` atomically, making the directory; replaces an earlier one."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / RUN_FILE
    text = msgspec.json.format(msgspec.json.encode(description, order="deterministic"), indent=2)
    replace_file(path, text + b"\n")
    return path


def read_run_description(directory: Path) -> RunDescription:
    """Read ``run.json``; raises `TelemetryError` where it is missing, broken or of the future."""
    path = directory / RUN_FILE
    try:
        description = msgspec.json.decode(path.read_bytes(), type=RunDescription)
    except FileNotFoundError:
        raise TelemetryError(
            f"{directory} has no {RUN_FILE}: name the directory that a run wrote its telemetry to"
        ) from None
    except msgspec.DecodeError as error:
        raise TelemetryError(f"{path}: {error}; write it again or leave the run out") from None
    if description.schema_version > SCHEMA_VERSION:
        raise TelemetryError(
            f"{path}: schema_version {description.schema_version} is newer than this pubweave's "
            f"{SCHEMA_VERSION}: read it with a newer version"
        )
    return description
