"""What an agent writes down for its broker: its parts of actions, and how it is doing.

Only this broker writes these nodes, so no versions are compared; each is written until the store
has said that it is there.
"""

from __future__ import annotations

from pubweave.core.effects import ReportAction
from pubweave.deploy.documents import BrokerReport, PartDocument, encode
from pubweave.deploy.layout import Layout
from pubweave.deploy.mirror import Mirror
from pubweave.deploy.store import Create, Outcome, Path, StoreAnswer, Write
from pubweave.model.ids import ActionId, BrokerId


class AgentReports:
    """What has yet to be written."""

    def __init__(self, layout: Layout, mirror: Mirror, broker: BrokerId) -> None:
        self._layout = layout
        self._mirror = mirror
        self._broker = broker
        self._parts: dict[Path, PartDocument] = {}
        self._status: bytes | None = None
        self._has_status_node = True

    def note_part(self, report: ReportAction) -> None:
        """The broker's part of an action is over."""
        self._parts[self._layout.part(report.action_id, self._broker)] = PartDocument(
            done=report.done,
            reason=report.reason,
            held_messages=report.held_messages,
            held_s=report.held_s,
        )

    def note_restarted(self, id_: ActionId) -> None:
        """The broker began anew with an action carried out that was decided before."""
        part = PartDocument(done=True, reason="restarted")
        self._parts[self._layout.part(id_, self._broker)] = part

    def note_status(self, report: BrokerReport) -> None:
        """Only the last one counts."""
        self._status = encode(report)

    def note_stored(self, answer: StoreAnswer) -> None:
        path = answer.request.path
        if path in self._parts:
            if answer.outcome in (Outcome.OK, Outcome.EXISTS):
                del self._parts[path]
        elif path == self._layout.report(self._broker):
            if answer.outcome is Outcome.OK:
                self._status = None
            elif answer.outcome in (Outcome.MISSING, Outcome.EXISTS):
                self._has_status_node = answer.outcome is Outcome.EXISTS

    def store(self) -> None:
        """Ask for what is not there yet."""
        for path, part in self._parts.items():
            if not self._mirror.is_changing(path):
                self._mirror.send(Create(path, encode(part)))
        path = self._layout.report(self._broker)
        if self._status is not None and not self._mirror.is_changing(path):
            write, create = Write(path, self._status), Create(path, self._status)
            self._mirror.send(write if self._has_status_node else create)
