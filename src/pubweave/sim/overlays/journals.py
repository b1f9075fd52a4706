"""The journals of an overlay's brokers: whether replays went the way of the first time, counts."""

from __future__ import annotations

from pubweave.sim.overlays.base import SimOverlay


def check_replays(overlay: SimOverlay) -> list[str]:
    """A broker that comes back has gone the same way as before."""
    return [
        f"{node.name}: {node.journal.differences} events had other effects when they were replayed"
        for node in [*overlay.brokers.values(), *overlay.gone.values()]
        if node.journal is not None and node.journal.differences
    ]


def journal_counts(overlay: SimOverlay) -> dict[str, int]:
    """What the journals of a run went through; nothing without journals."""
    journals = [node.journal for node in overlay.brokers.values() if node.journal is not None]
    if not journals:
        return {}
    names = ("recoveries", "replayed", "snapshots", "snapshots_refused")
    return {
        **{name: sum(getattr(journal, name) for journal in journals) for name in names},
        "torn_tails": sum(journal.disk.torn_tails for journal in journals),
        "torn_snapshots": sum(journal.disk.torn_snapshots for journal in journals),
        "disk_errors": sum(journal.disk.errors for journal in journals),
    }
