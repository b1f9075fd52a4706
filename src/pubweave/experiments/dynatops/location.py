"""DYNATOPS Figures 6 and 9, location model (section 6.1.1): users who travel, on real check-ins.

Cells of 0.01 degrees of New York are topics; users want the cell they are in and those of four
others, real friends first. The paper has a broker in every cell and 33 users for each; here are
fewer users, so a broker has a few neighboring cells and as many users. A check-in is a publication
of its cell. Round trips are random, in proportion to distance, and delay is in ms. Once in
T_update brokers tell each other what they want, and publications since then are sent. The manager
decides once in each free period, by rates of Eq. 8.

Which cluster has which users can be read in two ways. *home*: the one around where a user joined,
for good. *current*: the one around where it is, so that going to another area is a handover.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from pubweave.design.dynatops.mapping.costs import RATE_SMOOTHING
from pubweave.design.dynatops.mapping.routed_overlay import Publications
from pubweave.design.tree.traffic import Floats
from pubweave.experiments.dynatops.location_systems import LocationSetting, LocationWorld, Residence
from pubweave.experiments.dynatops.rows import SystemRun
from pubweave.experiments.dynatops.systems import Account
from pubweave.generate.workloads.checkins import Indices, Integers, Travels


def run_location(travels: Travels, setting: LocationSetting) -> Iterator[SystemRun]:
    """One row for each system, all on the same travels."""
    rng = np.random.default_rng([setting.seed, 7])
    at = travels.first_cells.copy()
    everybody = np.arange(travels.user_count)
    rows = travels.wanted_cells(everybody, at)
    world = LocationWorld(travels, setting, rows, rng)
    residences, accounts = world.residences, world.accounts
    followers = _followers(travels.friends)
    seen: list[tuple[Integers, Integers]] = []
    counts, expected = np.zeros(len(travels.cells)), None
    hours = list(travels.by_hour())
    for place, (hour, users, cells) in enumerate(hours):
        _move(residences, travels, followers, at, rows, users, cells)
        seen.append((users, cells))
        np.add.at(counts, cells, setting.publications_per_checkin)
        following = hours[place + 1][0] if place + 1 < len(hours) else travels.hour_count
        is_told = following // setting.update_h > hour // setting.update_h
        if is_told or place + 1 == len(hours):
            _settle(residences, accounts, at, rows, seen)
            seen = []
        if following // setting.free_period_h > hour // setting.free_period_h:
            expected = counts if expected is None else _smoothed(expected, counts)
            for account in accounts:
                account.adapt(expected)
            counts = np.zeros(len(travels.cells))
    for account in accounts:
        yield account.row(
            max(1, travels.hour_count), model="location", pattern="check-ins", rate=0.0,
            cluster_size=setting.cluster_size, load_weight=setting.load_weight,
            free_period_h=setting.free_period_h, seed=setting.seed,
        )  # fmt: skip


def _smoothed(expected: Floats, measured: Floats) -> Floats:
    """Eq. 8."""
    return (1 - RATE_SMOOTHING) * expected + RATE_SMOOTHING * measured


def _followers(friends: Indices) -> list[Integers]:
    """By user: who wants to know where it is."""
    who, column = np.nonzero(friends >= 0)
    followed = friends[who, column]
    order = np.argsort(followed, kind="stable")
    bounds = np.searchsorted(followed[order], np.arange(len(friends) + 1))
    return [who[order[a:b]] for a, b in pairwise(bounds.tolist())]


def _move(
    residences: list[Residence],
    travels: Travels,
    followers: list[Integers],
    at: Integers,
    rows: Indices,
    users: Integers,
    cells: Integers,
) -> None:
    """People check in; whoever is elsewhere now, or follows one who is, wants other topics."""
    last = dict(zip(users.tolist(), cells.tolist(), strict=True))
    moved = np.array([user for user, cell in last.items() if at[user] != cell], np.int64)
    if not len(moved):
        return
    at[moved] = [last[user] for user in moved.tolist()]
    affected = np.unique(np.concatenate([moved, *(followers[user] for user in moved.tolist())]))
    new = travels.wanted_cells(affected, at)
    is_other = (np.sort(new, axis=1) != np.sort(rows[affected], axis=1)).any(axis=1)
    is_other |= np.isin(affected, moved)
    who, old, new = affected[is_other], rows[affected[is_other]].copy(), new[is_other]
    for residence in residences:
        residence.change(who, at, old, new)
    rows[who] = new


def _settle(
    residences: list[Residence],
    accounts: list[Account],
    at: Integers,
    rows: Indices,
    seen: list[tuple[Integers, Integers]],
) -> None:
    """Brokers tell each other, control messages are counted, publications are sent."""
    users = np.concatenate([each for each, _ in seen])
    cells = np.concatenate([each for _, each in seen])
    for residence in residences:
        placed = residence.placed
        changes = placed.take_changes()
        hosts = placed.broker_of
        published = Publications(hosts[users], cells, residence.access[cells, hosts[users]])
        waits = _access_by_topic(residence.access[at, hosts], rows, changes.shape[1])
        for account in accounts:
            if account.placed is placed:
                account.settle(changes, times_told=1)
                account.notify(published, waits)
        placed.end_round()
        placed.tell()


def _access_by_topic(each: Floats, rows: Indices, topics: int) -> Floats:
    """What the ways between users and their brokers take in all, by topic that users want."""
    users, columns = np.nonzero(rows >= 0)
    waits = np.zeros(topics)
    np.add.at(waits, rows[users, columns], each[users])
    return waits
