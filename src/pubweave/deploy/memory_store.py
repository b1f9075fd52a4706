"""The store in memory: a tree, sessions and watches, for simulations and tests.

It answers at once and has neither time nor wire: whoever drives it delays answers and notices,
loses them with a connection, and ends sessions. `MqttSessionTable` of real stores die by
themselves; here ``expire`` does it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pubweave.deploy.store import (
    ANY_VERSION,
    Create,
    Delete,
    List,
    NodeChanged,
    Outcome,
    Path,
    Read,
    StoreAnswer,
    StoreRequest,
    Write,
)

SessionNumber = int


@dataclass
class _StoreNode:
    data: bytes = b""
    version: int = 0
    owner: SessionNumber | None = None
    children: dict[str, None] = field(default_factory=dict)


class MemoryStore:
    """One store and its sessions. Notices wait in order until they are taken."""

    def __init__(self) -> None:
        self._nodes: dict[Path, _StoreNode] = {"/": _StoreNode()}
        self._sessions: set[SessionNumber] = set()
        self._opened = 0
        # One-shot watches in the order they were armed; by session, each once.
        self._node_watches: dict[Path, dict[SessionNumber, None]] = {}
        self._child_watches: dict[Path, dict[SessionNumber, None]] = {}
        self._notices: list[tuple[SessionNumber, NodeChanged]] = []
        self._answerers: dict[type, Callable[[SessionNumber, Any], StoreAnswer]] = {
            Create: self._create,
            Read: self._read,
            Write: self._write,
            Delete: self._delete,
            List: self._list,
        }

    # --- sessions --------------------------------------------------------------------------

    def open(self) -> SessionNumber:
        """A new session."""
        self._opened += 1
        self._sessions.add(self._opened)
        return self._opened

    def is_open(self, session: SessionNumber) -> bool:
        return session in self._sessions

    def forget_watches(self, session: SessionNumber) -> None:
        """Its connection went: its watches have to be armed anew."""
        for watches in (self._node_watches, self._child_watches):
            for armed in watches.values():
                armed.pop(session, None)
        self._notices = [(owner, notice) for owner, notice in self._notices if owner != session]

    def expire(self, session: SessionNumber) -> None:
        """End a session: its ephemeral nodes and watches go with it."""
        self._sessions.discard(session)
        self.forget_watches(session)
        for path in [path for path, node in self._nodes.items() if node.owner == session]:
            self._remove(path)

    # --- requests --------------------------------------------------------------------------

    def handle(self, session: SessionNumber, request: StoreRequest) -> StoreAnswer:
        """Carry a request out; an ended session is told UNSURE and changes nothing."""
        if session not in self._sessions:
            return StoreAnswer(request, Outcome.UNSURE)
        return self._answerers[type(request)](session, request)

    def take_notices(self) -> list[tuple[SessionNumber, NodeChanged]]:
        """The watches that fired since the last call, in order."""
        notices, self._notices = self._notices, []
        return notices

    def paths(self) -> list[Path]:
        """All nodes, in the order of their names."""
        return sorted(self._nodes)

    def _create(self, session: SessionNumber, request: Create) -> StoreAnswer:
        if request.path in self._nodes:
            return StoreAnswer(request, Outcome.EXISTS)
        missing: list[Path] = []
        parent = _parent(request.path)
        while parent not in self._nodes:
            missing.append(parent)
            parent = _parent(parent)
        if self._nodes[parent].owner is not None:
            return StoreAnswer(request, Outcome.DENIED)
        for path in reversed(missing):
            self._add(path, _StoreNode())
        self._add(
            request.path, _StoreNode(request.data, owner=session if request.ephemeral else None)
        )
        return StoreAnswer(request, Outcome.OK)

    def _read(self, session: SessionNumber, request: Read) -> StoreAnswer:
        if request.watch:
            self._node_watches.setdefault(request.path, {})[session] = None
        node = self._nodes.get(request.path)
        if node is None:
            return StoreAnswer(request, Outcome.MISSING)
        return StoreAnswer(request, Outcome.OK, node.data, node.version)

    def _write(self, session: SessionNumber, request: Write) -> StoreAnswer:
        node = self._nodes.get(request.path)
        if node is None:
            return StoreAnswer(request, Outcome.MISSING)
        if request.version not in (ANY_VERSION, node.version):
            return StoreAnswer(request, Outcome.BAD_VERSION)
        node.data = request.data
        node.version += 1
        self._fire(self._node_watches, request.path)
        return StoreAnswer(request, Outcome.OK, version=node.version)

    def _delete(self, session: SessionNumber, request: Delete) -> StoreAnswer:
        node = self._nodes.get(request.path)
        if node is None:
            return StoreAnswer(request, Outcome.MISSING)
        if request.version not in (ANY_VERSION, node.version):
            return StoreAnswer(request, Outcome.BAD_VERSION)
        if node.children:
            return StoreAnswer(request, Outcome.NOT_EMPTY)
        self._remove(request.path)
        return StoreAnswer(request, Outcome.OK)

    def _list(self, session: SessionNumber, request: List) -> StoreAnswer:
        if request.watch:
            self._child_watches.setdefault(request.path, {})[session] = None
        node = self._nodes.get(request.path)
        if node is None:
            return StoreAnswer(request, Outcome.MISSING)
        return StoreAnswer(request, Outcome.OK, children=tuple(sorted(node.children)))

    # --- the tree --------------------------------------------------------------------------

    def _add(self, path: Path, node: _StoreNode) -> None:
        self._nodes[path] = node
        parent = _parent(path)
        self._nodes[parent].children[_name(path)] = None
        self._fire(self._node_watches, path)
        self._fire(self._child_watches, path)
        self._fire(self._child_watches, parent)

    def _remove(self, path: Path) -> None:
        del self._nodes[path]
        parent = _parent(path)
        del self._nodes[parent].children[_name(path)]
        self._fire(self._node_watches, path)
        self._fire(self._child_watches, path)
        self._fire(self._child_watches, parent)

    def _fire(self, watches: dict[Path, dict[SessionNumber, None]], path: Path) -> None:
        for session in watches.pop(path, {}):
            self._notices.append((session, NodeChanged(path)))


def _parent(path: Path) -> Path:
    return path.rpartition("/")[0] or "/"


def _name(path: Path) -> str:
    return path.rpartition("/")[2]
