"""What does not fit together in settings whose values are all right by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pubweave.core.strategies import STRATEGIES, find_strategy, strategy_names
from pubweave.model.messages.rendezvous import RENDEZVOUS_PROTOCOL
from pubweave.model.messages.topic_connected import TOPIC_PROTOCOL
from pubweave.runtime.settings.sources import Effective
from pubweave.runtime.settings.text import (
    Keys,
    SettingsError,
    bounds_of,
    dotted,
    flat,
    kind_at,
)
from pubweave.runtime.settings.tree import MUST_EXIST, Settings

Problem = tuple[Keys, str]
_ADVICE = {
    "overlay.topology": "; make one with 'pubweave topology generate'",
    "broker.security.directory": "; make it with 'pubweave security init'",
}
"""How to get what is not there."""


def check(effective: Effective) -> None:
    """SettingsError with a line for each thing that does not fit together."""
    lines = [
        f"{effective.note(keys)}: {dotted(keys)} {text}"
        for keys, text in (*_files(effective.settings), *_problems(effective.settings))
    ]
    if lines:
        raise SettingsError("\n".join(lines))


def uses_store(strategy: str) -> bool:
    """Whether changes of an overlay are decided in a store, and not by its brokers themselves."""
    return find_strategy(strategy).needs_tree or strategy == RENDEZVOUS_PROTOCOL


def _files(settings: Settings) -> Iterator[Problem]:
    for keys, value in flat(settings).items():
        is_input = isinstance(value, Path) and MUST_EXIST in bounds_of(kind_at(keys))
        if is_input and not value.exists():
            advice = _ADVICE.get(dotted(keys), "")
            yield keys, f"= {value}: No such file or directory{advice}"


def _problems(settings: Settings) -> Iterator[Problem]:
    yield from _of_strategy(settings)
    yield from _of_store(settings)
    table, overlay = settings.broker, settings.overlay
    if table.id in table.neighbors and table.id:
        yield ("broker", "neighbors"), f"names {table.id!r}, which cannot be its own neighbor"
    if table.limits.relieved_bytes > table.limits.congested_bytes:
        yield ("broker", "limits", "relieved_bytes"), "must not be more than congested_bytes"
    if overlay.topology is not None and overlay.subscriptions is not None:
        yield ("overlay", "subscriptions"), "makes a topology itself: leave overlay.topology out"


def _of_strategy(settings: Settings) -> Iterator[Problem]:
    strategy, placement = settings.broker.strategy, settings.placement
    if strategy not in strategy_names():
        there = f"must be one of {', '.join(strategy_names())}, got {strategy!r}"
        yield ("broker", "strategy"), there
    elif strategy not in STRATEGIES and settings.broker.durability == "journal":
        text = f"= 'journal' does not work with {strategy!r} of another package: use 'memory'"
        yield ("broker", "durability"), text
    if settings.broker.topics.ring and strategy != TOPIC_PROTOCOL:
        yield ("broker", "topics", "ring"), f"needs broker.strategy = {TOPIC_PROTOCOL!r}"
    if settings.overlay.subscriptions is not None and strategy != TOPIC_PROTOCOL:
        yield ("overlay", "subscriptions"), f"needs broker.strategy = {TOPIC_PROTOCOL!r}"
    for key in ("size", "members"):
        if getattr(placement, key) and strategy != RENDEZVOUS_PROTOCOL:
            yield ("placement", key), f"needs broker.strategy = {RENDEZVOUS_PROTOCOL!r}"


def _of_store(settings: Settings) -> Iterator[Problem]:
    store = settings.store
    if store.zookeeper is not None and not store.enabled:
        yield ("store", "zookeeper"), "is of no use with store.enabled = false"
    strategy = settings.broker.strategy
    if store.zookeeper is not None and strategy in strategy_names() and not uses_store(strategy):
        yield ("store", "zookeeper"), f"is of no use with broker.strategy = {strategy!r}"
    if store.auth_file is not None and store.zookeeper is None:
        yield ("store", "auth_file"), "is the login of an ensemble: give store.zookeeper, too"
