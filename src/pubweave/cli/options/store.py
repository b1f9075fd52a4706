"""The store that an overlay on this machine gets."""

from __future__ import annotations

import click

from pubweave.cli.output import warn
from pubweave.core.strategies import GRAPHS
from pubweave.runtime.overlay.events import StoreChoice
from pubweave.runtime.store.embedded_zookeeper import ZooKeeperUnavailable, find_jars, find_java
from pubweave.runtime.store.zookeeper_target import ZooKeeperTarget


def store_for(strategy: str, target: ZooKeeperTarget | None, is_wanted: bool) -> StoreChoice | None:
    """The store an overlay gets; brokers that route on any graph decide by themselves."""
    uses_store = strategy not in GRAPHS or strategy == "rendezvous"
    if not uses_store and target is not None:
        raise click.UsageError(f"--zookeeper is of no use with --strategy {strategy}")
    return choose_store(target, is_wanted=is_wanted and uses_store)


def choose_store(target: ZooKeeperTarget | None, *, is_wanted: bool) -> StoreChoice | None:
    """The store an overlay gets: the one named, or one of its own, or none where none can be."""
    if not is_wanted:
        if target is not None:
            raise click.UsageError("give either --zookeeper or --no-zookeeper, not both")
        return None
    if target is None:
        try:
            find_java()
            find_jars()
        except ZooKeeperUnavailable as error:
            warn(f"no plan can be applied to this overlay: {error}")
            return None
    return StoreChoice(target)
