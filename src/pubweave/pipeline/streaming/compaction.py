"""Closing the books: publications that are over leave the open records for the balance.

A publication is over when nothing of it happened for `TELEMETRY_LAG_S`, and no transformation that
may have touched it goes on. Per publisher all are closed up to a sequence number, so that one
number tells whether a record comes too late. `disorder` finds what contradicts a balance: then it
is put aside and everything is counted anew from the ledger, which is slow, rare and exact.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pubweave.pipeline.frames.mergeable import MAX, Sums
from pubweave.pipeline.frames.schemas import empty_frame, telemetry_schema
from pubweave.pipeline.frames.settings import moving
from pubweave.pipeline.profiling.build import BuiltProfile
from pubweave.pipeline.profiling.carried_state import (
    CHANGE_TABLES,
    CLOSED,
    KEYED_TABLES,
    BalanceDescription,
    BalanceFolder,
    CarriedState,
    open_name,
)
from pubweave.pipeline.profiling.screening import Screening, TimeBounds, screen
from pubweave.pipeline.profiling.tables import BALANCE, ProfileInputs, profile_tasks
from pubweave.pipeline.profiling.task_graph import TableTask, TaskRun, needed_for
from pubweave.pipeline.transforms.latency import link_change_periods

TELEMETRY_LAG_S = 30.0
"""Brokers write every few seconds; what comes later than this costs a full count."""
_KEPT = (*BALANCE, *CHANGE_TABLES, CLOSED, *(open_name(table) for table in KEYED_TABLES))
TASK_GOES = 4
"""In how many goes the frames of a balance are made, one more at either end: news must not wait
long for a balance, nor a balance for ever."""
_REUSED = ("subscriptions", "audit_subscriptions", "audit_kinds", "periods")
"""Frames that do not depend on which publications are closed."""
_BY_PUBLICATION = ("facts", "audit_sums", "audit_pairs", "affected")
"""Frames whose rows are of one publication: the profile has made them of the closed ones, too."""
_CLOSED_SUMS = Sums(("publisher",), {"closed_upto": MAX})
_WHEN = {"publications": "published_at", "deliveries": "delivered_at", "hops": "received_at"}


class Compaction:
    """The making of one balance, in as many goes as it is given.

    Nothing of it counts before it is complete. Meanwhile profiles go on from the balance before,
    and the first one that begins with the new balance looks whether it still stands.
    """

    def __init__(
        self,
        folder: BalanceFolder,
        batch: int,
        built: BuiltProfile,
        bounds: TimeBounds,
        *,
        small: bool,
        threads: int = 3,
    ) -> None:
        """Begin a balance up to ``batch`` from what its profile was computed from."""
        self.batch = batch
        self._folder = folder
        self._inputs = built.inputs
        self._made = {name: built.frames[name] for name in (*_REUSED, *_BY_PUBLICATION)}
        self._screening = built.screening
        self._bounds = bounds
        self._threads = threads
        self._closed_until = built.inputs.window.ended_at - TELEMETRY_LAG_S
        self._writer = folder.writer(batch, _KEPT, small=small)
        self._run: TaskRun | None = None
        self._goes_left = TASK_GOES

    def go_on(self, for_s: float = math.inf) -> bool:
        """Work for some time; True when the balance is complete and counts.

        To find out what is over, and to complete the balance, are goes of their own. There are at
        most `TASK_GOES` between them: each does its share, if need be in more time.
        """
        is_hurried = for_s < math.inf
        if self._run is None:
            self._run = self._begun()
            if is_hurried:
                return False
        if not self._run.is_done:
            share = math.ceil(self._run.waiting_count / max(1, self._goes_left))
            self._goes_left -= 1
            if not self._run.go_on(for_s, at_least=share) or is_hurried:
                return False
        self._complete(self._run.frames)
        return True

    def _begun(self) -> TaskRun:
        inputs = self._inputs
        upto = _CLOSED_SUMS.merged(_closed_upto(inputs, self._closed_until), _old_closed(inputs))
        return TaskRun(
            inputs.spark,
            _closing_tasks(inputs, self._made, self._writer.write("closed_upto", upto)),
            self._writer.write,
            whole=BALANCE,
            given={name: self._made[name] for name in _REUSED},
            threads=self._threads,
        )

    def _complete(self, frames: Mapping[str, DataFrame]) -> None:
        still_open = {table: frames[open_name(table)] for table in KEYED_TABLES}
        rest = {
            table: still_open.get(table, empty_frame(self._inputs.spark, telemetry_schema(table)))
            for table in self._inputs.telemetry
        }
        self._folder.publish(
            BalanceDescription(
                upto=self.batch,
                closed_until=self._closed_until,
                settings=self._inputs.settings.as_dict(),
                coverage=self._screening.without(screen(rest, self._bounds)).coverage,
                schemas=self._writer.schemas,
            )
        )


def _closing_tasks(
    inputs: ProfileInputs, made: Mapping[str, DataFrame], upto: DataFrame
) -> list[TableTask]:
    """The frames of a balance: sums of what is closed, records of what is open, all changes."""

    def still_open(table: str) -> TableTask:
        records = inputs.telemetry[table]
        return TableTask(open_name(table), (), lambda _: _side(records, upto, is_closed=False))

    def closed_part(task: TableTask) -> TableTask:
        if task.name not in _BY_PUBLICATION:
            return task
        return TableTask(task.name, (), lambda _: _side(made[task.name], upto, is_closed=True))

    def changes(table: str) -> TableTask:
        return TableTask(table, (), lambda _: inputs.telemetry[table])

    def closed(frames: Mapping[str, DataFrame]) -> DataFrame:
        ratio = F.min("sample_ratio").alias("sample_ratio")
        return upto.join(frames["traffic"].groupBy("publisher").agg(ratio), "publisher", "left")

    over = {table: _side(inputs.telemetry[table], upto, is_closed=True) for table in KEYED_TABLES}
    of_closed = dataclasses.replace(inputs, telemetry={**inputs.telemetry, **over})
    return [
        *needed_for([closed_part(task) for task in profile_tasks(of_closed)], BALANCE),
        *(still_open(table) for table in KEYED_TABLES),
        *(changes(table) for table in CHANGE_TABLES),
        TableTask(CLOSED, ("traffic",), closed),
    ]


def disorder(balance: CarriedState, found: Screening, late: int, settle_s: float) -> str | None:
    """What in the records since a balance it should have known; None if it stands.

    ``found`` is their screening, ``late`` how many are of closed publications.
    """
    known, until = balance.screening, balance.description.closed_until
    window, new_window = known.window(), found.window()
    if window is None or (new_window is not None and new_window[0] < window[0]):
        return "a record from before the first"
    if set(found.brokers()) - set(known.brokers()):
        return "a broker that was not there"
    last = {(c.table, c.broker, c.epoch): c.last_number for c in known.coverage}
    epochs = {(c.broker, c.epoch) for c in known.coverage}
    for c in found.coverage:
        before = last.get((c.table, c.broker, c.epoch))
        if c.table not in KEYED_TABLES and before is not None and (c.first_number or 0) <= before:
            return f"a record of {c.table} out of order"
        tells_state = c.table in CHANGE_TABLES or (c.broker, c.epoch) not in epochs
        if tells_state and c.first_at is not None and c.first_at - settle_s <= until:
            return f"a late record of {c.table}"
    return f"{late} records of closed publications" if late else None


def late_records(balance: CarriedState, records: Mapping[str, DataFrame]) -> int:
    """How many records are of publications that a balance has closed."""
    parts = [
        records[table].select(
            "publisher",
            "sequence",
            F.col("sample_ratio") if table == "publications" else F.lit(None).alias("ratio"),
        ).toDF("publisher", "sequence", "ratio")
        for table in KEYED_TABLES
    ]  # fmt: skip
    # A lower ratio makes a trace window longer than what was kept of it.
    late = F.expr("sequence <= closed_upto or ratio < sample_ratio")
    joined = reduce(DataFrame.unionByName, parts).join(
        F.broadcast(balance.frames[CLOSED]), "publisher"
    )
    return joined.where(late).count()


def _closed_upto(inputs: ProfileInputs, closed_until: float) -> DataFrame:
    """For each publisher the number before its first publication that is not over."""
    edge = min(closed_until, _transforming_since(inputs, closed_until))
    parts = [
        inputs.telemetry[table].selectExpr(
            "publisher", "sequence", f"{instant} >= {moving(edge)} AS is_under_way"
        )
        for table, instant in _WHEN.items()
    ]
    first_under_way = F.min(F.when(F.col("is_under_way"), F.col("sequence")))
    return (
        reduce(DataFrame.unionByName, parts)
        .groupBy("publisher")
        .agg(F.coalesce(first_under_way - 1, F.max("sequence")).alias("closed_upto"))
    )


def _transforming_since(inputs: ProfileInputs, closed_until: float) -> float:
    """When the transformation began that may go on; infinity without one."""
    changes = inputs.telemetry["link_changes"]
    periods = link_change_periods(changes, inputs.first_published_at, inputs.settings.settle_s)
    spans = periods.groupBy("transformation").agg(
        F.min("from_at").alias("from_at"), F.max("to_at").alias("to_at")
    )
    return min(
        (row["from_at"] for row in spans.collect() if row["to_at"] >= closed_until),
        default=math.inf,
    )


def _old_closed(inputs: ProfileInputs) -> DataFrame | None:
    old = inputs.old(CLOSED)
    return None if old is None else old.select("publisher", "closed_upto")


def _side(rows: DataFrame, upto: DataFrame, *, is_closed: bool) -> DataFrame:
    """The rows of publications that are over, or of the others."""
    closed = F.coalesce(F.col("sequence") <= F.col("closed_upto"), F.lit(False))
    joined = rows.join(F.broadcast(upto), "publisher", "left")
    return joined.where(closed if is_closed else ~closed).select(*rows.columns)
