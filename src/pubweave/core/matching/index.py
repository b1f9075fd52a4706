"""The matching index of a broker: which destinations want a publication.

Filters are kept by access: first the topic (an exact topic, or a pattern such as a prefix), then
one equality predicate if the filter has one, then a `Leaf`. A publication meets only the leaves
that its own topic and values name; the routes of topics are remembered.

What does not belong here: what destinations are, how publications are sent, covering.

Invariant: `match` answers exactly the destinations of the filters for which `Filter.matches`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import numpy as np

from pubweave.core.matching.axis import Limits
from pubweave.core.matching.leaf import Leaf
from pubweave.core.matching.row import AccessPath, Destination, Row, take_apart
from pubweave.model.filters.filter import Filter, Predicate
from pubweave.model.publications import Publication, Value

D = TypeVar("D", bound=Hashable)


class TopicNode:
    """All filters with one topic or topic pattern; `conditional` counts rows by destination."""

    __slots__ = ("_by_equality", "_limits", "conditional", "root")

    def __init__(self, limits: Limits) -> None:
        self.root = Leaf(limits)
        self.conditional: dict[int, int] = {}
        self._by_equality: dict[str, dict[Hashable, Leaf]] = {}
        self._limits = limits

    @property
    def is_empty(self) -> bool:
        return self.root.is_empty and not self._by_equality

    @property
    def sole_leaf(self) -> Leaf | None:
        """The leaf that has all filters, if there is one."""
        return None if self._by_equality else self.root

    def add(self, row: Row, access: AccessPath) -> None:
        if access.attribute is None:
            self.root.add(row)
        else:
            leaves = self._by_equality.setdefault(access.attribute, {})
            if access.value not in leaves:
                leaves[access.value] = Leaf(self._limits)
            leaves[access.value].add(row)
        if access.attribute is not None or not row.is_unconditional:
            slot = row.destination.slot
            self.conditional[slot] = self.conditional.get(slot, 0) + 1

    def remove(self, row: Row, access: AccessPath) -> None:
        if access.attribute is None:
            self.root.remove(row)
        else:
            leaves = self._by_equality[access.attribute]
            leaves[access.value].remove(row)
            if leaves[access.value].is_empty:
                del leaves[access.value]
            if not leaves:
                del self._by_equality[access.attribute]
        if access.attribute is not None or not row.is_unconditional:
            slot = row.destination.slot
            self.conditional[slot] -= 1
            if not self.conditional[slot]:
                del self.conditional[slot]

    def collect(self, attributes: Mapping[str, Value], found: list[Leaf]) -> None:
        """Append the leaves that a publication's values name."""
        if self.root.has_rows:
            found.append(self.root)
        named = self._by_equality
        if not named:
            return
        for attribute in named if len(named) <= len(attributes) else attributes:
            value = attributes.get(attribute)
            # A bool equals 0 or 1 to Python, but not to a filter.
            if value is not None and not isinstance(value, bool):
                leaf = named.get(attribute, _NO_LEAVES).get(value)
                if leaf is not None:
                    found.append(leaf)


_NO_LEAVES: dict[Hashable, Leaf] = {}


class Route:
    """What is known of a topic alone: who gets all of it, and the nodes to ask for the rest."""

    __slots__ = ("always", "nodes", "slots", "sole", "topic_only")

    def __init__(self, nodes: list[TopicNode], objects: Mapping[int, Any]) -> None:
        slots = sorted({slot for node in nodes for slot in node.root.always})
        self.slots = dict.fromkeys(slots)
        self.always: tuple[Any, ...] = tuple(objects[slot] for slot in slots)
        self.topic_only = all(slot in self.slots for node in nodes for slot in node.conditional)
        self.nodes = [node for node in nodes if node.conditional]
        self.sole = self.nodes[0].sole_leaf if len(self.nodes) == 1 and not slots else None


class MatchIndex(Generic[D]):
    """Answers who wants a publication without looking at all filters.

    With n rows in the leaves that a publication meets (rows covered by others of the same
    destination do not count), k attributes in their bitmaps and d destinations in the answer,
    `match` takes O(k * (log c + n / c + n / 8) + d), c being the cells per attribute, at most
    ``cell_limit``: about n / c bits are corrected one by one and n / 8 or fewer bytes ANDed by
    numpy. A topic whose filters ask for nothing but the topic takes one dictionary lookup.
    Suffix and contains predicates are checked one by one where all else matched, topic patterns
    without a prefix once per topic and change of patterns.

    `add` takes O(1) and leaves O(c) to the next `match` it concerns, `remove` takes O(c), both
    amortised: a leaf that has doubled is built anew within one `match`. Memory is O(c / 8) bytes
    per row and attribute.

    The order of an answer follows from the history of calls alone.
    """

    def __init__(
        self,
        *,
        small_limit: int = 16,
        cell_limit: int = 2048,
        axis_limit: int = 16,
        few_limit: int = 16,
        topic_limit: int = 65536,
    ) -> None:
        self._limits = Limits(
            small=small_limit,
            cells=cell_limit,
            axes=axis_limit,
            few=few_limit,
            topics=topic_limit,
        )
        self.version = 0
        """Grows with each `add` and `remove`."""
        self._rows: dict[Hashable, Row] = {}
        self._destinations: dict[Hashable, Destination] = {}
        self._by_slot: dict[int, D] = {}
        self._free_slots: list[int] = []
        self._objects = np.full(16, None, object)
        self._by_topic: dict[str, TopicNode] = {}
        self._by_prefix: dict[str, dict[tuple[Predicate, ...], TopicNode]] = {}
        self._routes: dict[str, Route] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def entries(self) -> Iterator[tuple[Hashable, Filter, D]]:
        """Every key with its filter and destination, in the order of their `add`."""
        return ((key, row.filter, row.destination.value) for key, row in self._rows.items())

    # ---- changes

    def add(self, key: Hashable, filter: Filter, destination: D) -> None:
        """Enter a filter under a new key. Raises ValueError if the key is present."""
        if key in self._rows:
            raise ValueError(f"the filter {key!r} is already in the index: remove it first")
        row = take_apart(key, filter, self._destination(destination))
        row.destination.count += 1
        self._rows[key] = row
        self.version += 1
        access = row.access
        if access is not None:
            node = self._node(access)
            if node is None:
                node = self._make_node(access)
            node.add(row, access)
            self._forget_routes(access)

    def remove(self, key: Hashable) -> None:
        """Take a filter out. Raises KeyError if the key is absent."""
        row = self._rows.pop(key)
        self.version += 1
        access = row.access
        if access is not None:
            node = self._node(access)
            if node is None:
                raise AssertionError(f"the filter {key!r} has lost its node")
            node.remove(row, access)
            if node.is_empty:
                self._drop_node(access)
            self._forget_routes(access)
        self._release(row.destination)

    def _destination(self, value: D) -> Destination:
        known = self._destinations.get(value)
        if known is not None:
            return known
        slot = self._free_slots.pop() if self._free_slots else len(self._by_slot)
        if slot == len(self._objects):
            self._objects = np.concatenate([self._objects, np.full(slot, None, object)])
        self._objects[slot] = value
        self._by_slot[slot] = value
        self._destinations[value] = Destination(value, slot)
        return self._destinations[value]

    def _release(self, destination: Destination) -> None:
        destination.count -= 1
        if not destination.count:
            del self._destinations[destination.value]
            del self._by_slot[destination.slot]
            self._objects[destination.slot] = None
            self._free_slots.append(destination.slot)

    def _node(self, access: AccessPath) -> TopicNode | None:
        if access.topic is not None:
            return self._by_topic.get(access.topic)
        return self._by_prefix.get(access.prefix, {}).get(access.pattern)

    def _make_node(self, access: AccessPath) -> TopicNode:
        node = TopicNode(self._limits)
        if access.topic is not None:
            self._by_topic[access.topic] = node
        else:
            self._by_prefix.setdefault(access.prefix, {})[access.pattern] = node
        return node

    def _drop_node(self, access: AccessPath) -> None:
        if access.topic is not None:
            del self._by_topic[access.topic]
            return
        del self._by_prefix[access.prefix][access.pattern]
        if not self._by_prefix[access.prefix]:
            del self._by_prefix[access.prefix]

    def _forget_routes(self, access: AccessPath) -> None:
        if access.topic is None:
            self._routes.clear()
        else:
            self._routes.pop(access.topic, None)

    # ---- queries

    def match(self, publication: Publication) -> tuple[D, ...]:
        """The destinations of all filters that match, each once."""
        route = self._routes.get(publication.topic) or self._route(publication.topic)
        if route.topic_only:
            return route.always
        attributes = publication.attributes
        if route.sole is not None:
            answer = route.sole.answer(attributes)
            if answer is not None:
                return answer
        leaves: list[Leaf] = []
        for node in route.nodes:
            node.collect(attributes, leaves)
        if not leaves:
            return route.always
        if len(leaves) == 1 and not route.always:
            answer = leaves[0].answer(attributes)
            if answer is not None:
                return answer
        for leaf in leaves:
            if not leaf.is_settled:
                leaf.settle()
        if any(leaf.bitmaps for leaf in leaves):
            return self._union_of_many(route, leaves, attributes)
        return self._union_of_few(route, leaves, attributes)

    def is_topic_only(self, topic: str) -> bool:
        """Whether `match` answers the same for all publications on a topic, until a change.

        Filters that contradict themselves can make this False where it could be True.
        """
        return (self._routes.get(topic) or self._route(topic)).topic_only

    def keys_matching(self, publication: Publication) -> list[Hashable]:
        """The keys of the filters that match, in the order of their `add`.

        O(filters): for tools and tests.
        """
        return [key for key, row in self._rows.items() if row.filter.matches(publication)]

    def _route(self, topic: str) -> Route:
        if len(self._routes) >= self._limits.topics:
            self._routes.clear()
        route = Route(list(self._nodes_of(topic)), self._by_slot)
        self._routes[topic] = route
        return route

    def _nodes_of(self, topic: str) -> Iterator[TopicNode]:
        node = self._by_topic.get(topic)
        if node is not None:
            yield node
        if not self._by_prefix:
            return
        for end in range(len(topic) + 1):
            for pattern, node in self._by_prefix.get(topic[:end], {}).items():
                if all(predicate.holds(topic) for predicate in pattern):
                    yield node

    def _union_of_few(
        self, route: Route, leaves: list[Leaf], attributes: Mapping[str, Value]
    ) -> tuple[D, ...]:
        """The answer of leaves without bitmaps, without touching every slot."""
        always = route.slots
        found: dict[int, None] = {}
        for leaf in leaves:
            for slot in leaf.always:
                if slot not in always:
                    found[slot] = None
            for row in leaf.tail:
                slot = row.destination.slot
                if slot not in always and slot not in found and row.holds(attributes):
                    found[slot] = None
        by_slot = self._by_slot
        return route.always + tuple([by_slot[slot] for slot in found])

    def _union_of_many(
        self, route: Route, leaves: list[Leaf], attributes: Mapping[str, Value]
    ) -> tuple[D, ...]:
        """The answer of any leaves, in the order of slots."""
        marks = bytearray(len(self._objects))
        view = np.frombuffer(marks, np.bool_)
        for slot in route.slots:
            marks[slot] = 1
        for leaf in leaves:
            for slot in leaf.always:
                marks[slot] = 1
            for bitmap in leaf.bitmaps:
                bitmap.mark(attributes, marks, view)
            for row in leaf.tail:
                slot = row.destination.slot
                if not marks[slot] and row.holds(attributes):
                    marks[slot] = 1
        return tuple(self._objects[view].tolist())
