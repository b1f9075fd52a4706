"""What a run with journals is like, and what it must not lose besides publications."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pubweave.sim.faults import FaultRates
from pubweave.sim.nodes import SimBroker
from pubweave.sim.overlay import SimOverlay


def with_disk_faults(rates: FaultRates) -> FaultRates:
    """Brokers with journals crash in every run, and their disks fail."""
    return replace(
        rates,
        broker_crash_per_s=max(rates.broker_crash_per_s, 0.3),
        boundary_crash_per_s=0.5,
        disk_full_per_s=0.1,
        disk_error_per_s=0.15,
        disk_slow_per_s=0.2,
    )


def check_sessions(overlay: SimOverlay, gone: Iterable[SimBroker] = ()) -> list[str]:
    """A broker that comes back knows every client, but for those that it let go before, and has
    gone the same way as before. ``gone`` are brokers that did not come back."""
    nodes = [*overlay.brokers.values(), *gone]
    cores = [core for node in nodes if (core := node.known_core) is not None]
    expired = sum(core.counters.clients_expired for core in cores)
    told = []
    if overlay.sessions_lost > expired:
        told.append(f"{overlay.sessions_lost} sessions of clients were lost, {expired} had expired")
    for node in nodes:
        if node.journal is not None and node.journal.differences:
            count = node.journal.differences
            told.append(f"{node.name}: {count} events had other effects when they were replayed")
    return told


def journal_counts(overlay: SimOverlay) -> dict[str, int]:
    """What the journals of a run went through; nothing without journals."""
    journals = [node.journal for node in overlay.brokers.values() if node.journal is not None]
    if not journals:
        return {}
    return {
        "recoveries": sum(journal.recoveries for journal in journals),
        "replayed": sum(journal.replayed for journal in journals),
        "snapshots": sum(journal.snapshots for journal in journals),
        "snapshots_refused": sum(journal.snapshots_refused for journal in journals),
        "torn_tails": sum(journal.disk.torn_tails for journal in journals),
        "torn_snapshots": sum(journal.disk.torn_snapshots for journal in journals),
        "disk_errors": sum(journal.disk.errors for journal in journals),
    }
