"""How clients fared that moved to other brokers, in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pubweave.runtime.overlay_observer import Snapshot

_SUMS = ("begun", "done", "refused", "busy", "failed", "hops", "paused_ms")


def migration_line(snapshot: Snapshot) -> str:
    """Moves, and the pauses of their clients; empty where nobody was ever moved."""
    parts = [status.migrations for status in snapshot.up if status.migrations is not None]
    told = {name: sum(getattr(part, name) for part in parts) for name in _SUMS}
    if not told["begun"]:
        return ""
    line = (
        f"migrations: {told['done']} of {told['begun']} done, {told['refused']} refused, "
        f"{told['busy'] + told['failed']} given up"
    )
    if not told["done"]:
        return line
    mean_ms, hops = told["paused_ms"] / told["done"], told["hops"] / told["done"]
    longest_ms = max(part.longest_paused_ms for part in parts)
    return (
        f"{line}; clients waited {mean_ms:.0f} ms on average over {hops:.1f} hops "
        f"({told['paused_ms'] / max(1, told['hops']):.0f} ms a hop), {longest_ms:.0f} ms at most"
    )
