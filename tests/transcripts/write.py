"""Writes the transcripts anew: `python -m tests.transcripts.write`, with `PYTHONPATH=src:.`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.transcripts import migration, mqtt_handover, shift

FOLDER = Path(__file__).resolve().parent
TRANSCRIPTS: dict[str, Callable[[], str]] = {
    "shift": shift.transcript,
    "migration": migration.transcript,
    "mqtt_handover": mqtt_handover.transcript,
}


def main() -> None:
    for name, transcript in TRANSCRIPTS.items():
        (FOLDER / f"{name}.txt").write_text(transcript())


if __name__ == "__main__":
    main()
