"""When a balance can be relied on, and which one counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pubweave.pipeline.profiling.screening import Coverage, Screening

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pubweave.pipeline.profiling.carried_state import CarriedState

KNOWN = Coverage("link_rtts", "b1", 7, 10, 10, 0, 0, 9, 5.0, 60.0)
NEXT = replace(KNOWN, first_number=10, last_number=12, first_at=61.0, last_at=63.0)
CHANGE = replace(NEXT, table="link_changes", first_number=0)


def frame(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist(rows))


@pytest.fixture(scope="module")
def balance(spark: SparkSession) -> CarriedState:
    from pubweave.pipeline.profiling.carried_state import CLOSED, BalanceDescription, CarriedState

    about = BalanceDescription(3, 50.0, {}, (KNOWN,), {})
    closed = [{"publisher": "p", "closed_upto": 20, "sample_ratio": 0.5}]
    return CarriedState(about, {CLOSED: frame(spark, closed)})


def records(spark: SparkSession, sequence: int, ratio: float = 0.5) -> dict[str, DataFrame]:
    row = {"publisher": "p", "sequence": sequence}
    one = frame(spark, [row])
    return {"deliveries": one, "hops": one, "publications": frame(spark, [
        row | {"sample_ratio": ratio}, {"publisher": "new", "sequence": 1, "sample_ratio": 0.1},
    ])}  # fmt: skip


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (NEXT, None),
        (CHANGE, None),
        (replace(NEXT, first_number=9), "link_rtts out of order"),
        (replace(NEXT, broker="b9"), "a broker that was not there"),
        (replace(NEXT, first_at=4.9), "from before the first"),
        (replace(CHANGE, first_at=51.9), "late record of link_changes"),
        (replace(NEXT, epoch=8, first_at=51.9), "late record of link_rtts"),
        (replace(NEXT, epoch=8), None),
    ],
)
def test_what_a_balance_should_have_known_is_disorder(
    spark: SparkSession, balance: CarriedState, found: Coverage, told: str | None
) -> None:
    from pubweave.pipeline.streaming.compaction import disorder, late_records

    late = late_records(balance, records(spark, 21))
    reason = disorder(balance, Screening((found,)), late, settle_s=2.0)
    assert (reason is None) if told is None else (told in (reason or ""))


def test_records_of_closed_publications_are_disorder(
    spark: SparkSession, balance: CarriedState
) -> None:
    from pubweave.pipeline.streaming.compaction import disorder, late_records

    found = Screening((NEXT,))
    assert late_records(balance, records(spark, 21)) == 0
    assert late_records(balance, records(spark, 20)) == 3
    assert late_records(balance, records(spark, 21, ratio=0.25)) == 1
    assert disorder(balance, found, 3, settle_s=2.0) == "3 records of closed publications"
    assert disorder(balance, found, 0, settle_s=2.0) is None


def test_a_repeated_batch_begins_from_the_balance_before_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    from pubweave.pipeline.profiling.carried_state import BalanceDescription, BalanceFolder

    folder = BalanceFolder(spark, str(tmp_path))
    for upto in (2, 5, 9):
        writer = folder.writer(upto, ("traffic",), small=True)
        writer.write("traffic", frame(spark, [{"topic": "t", "publications": upto}]))
        about = BalanceDescription(upto, 0.0, {"slot_s": 1.0}, (KNOWN,), writer.schemas)
        folder.publish(about)
    folder.writer(11, (), small=True)  # never completed
    same = {"slot_s": 1.0}

    def upto_of(batch: int) -> int | None:
        found = folder.before(batch, same)
        return None if found is None else found.frames["traffic"].collect()[0]["publications"]

    assert [upto_of(batch) for batch in (12, 9, 5)] == [9, 5, None]
    assert folder.before(12, {"slot_s": 2.0}) is None, "other settings, other sums"
    found = folder.before(12, same)
    assert found is not None
    assert found.description.coverage == (KNOWN,)
    assert folder.oldest() == 5

    folder.publish(BalanceDescription(14, 0.0, same, (KNOWN,), {}))
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        "upto=000000009",
        "upto=000000014",
    ]
    assert folder.oldest() == 9, "the last that is complete, not what was never completed"


def test_coverage_adds_up_and_comes_apart() -> None:
    whole = Screening((KNOWN,)).merged(Screening((NEXT, CHANGE)))
    [changes, rtts] = whole.coverage
    assert changes == CHANGE
    assert (rtts.records, rtts.first_number, rtts.last_number) == (20, 0, 12)
    assert (rtts.first_at, rtts.last_at) == (5.0, 63.0)
    assert rtts.missing == 13 - 20
    rest = whole.without(Screening((NEXT,)))
    assert [c.records for c in rest.coverage] == [10, 10]
    unknown = replace(NEXT, first_number=None, last_number=None, first_at=None, last_at=None)
    assert unknown.merged(KNOWN).first_at == KNOWN.merged(unknown).first_at == 5.0


def test_only_what_is_needed_is_made() -> None:
    from pubweave.pipeline.profiling.task_graph import TableTask, needed_for

    def task(name: str, *needs: str) -> TableTask:
        return TableTask(name, needs, lambda frames: frames[name])

    tasks = [task("a"), task("b", "a"), task("c"), task("d", "b"), task("e", "c", "d")]
    assert [t.name for t in needed_for(tasks, ["d"])] == ["a", "b", "d"]
    assert [t.name for t in needed_for(tasks, ["a", "c"])] == ["a", "c"]
