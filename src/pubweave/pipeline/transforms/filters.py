"""Content filters inside Spark: which publications a subscription's filter matches.

Filters are parsed once per distinct text, by the model's own parser. What they say of an attribute
is mostly an interval of numbers or one text: these become bounds by attribute, compared inside
Spark's generated code. Other predicates become an array column, if there are any: they are looked
at one by one, and the join they are part of has no generated code at all. A publication satisfies a
filter if all hold. Comparisons are typed as in `pubweave.model.filters.filter`: a value of another
type never satisfies a predicate.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    StringType,
    StructField,
    StructType,
)

from pubweave.model.filters.filter import Operator, Predicate
from pubweave.model.filters.lexer import NotationError
from pubweave.model.filters.text import parse_filter
from pubweave.model.publications import TOPIC_ATTRIBUTE
from pubweave.pipeline.frames.schemas import local_frame

_PREDICATES = ArrayType(
    StructType(
        [
            StructField("attribute", StringType()),
            StructField("operator", StringType()),
            StructField("text", StringType()),
            StructField("number", DoubleType()),
            StructField("boolean", BooleanType()),
        ]
    )
)
_BOUNDS = StructType(
    [
        StructField("lower", DoubleType()),
        StructField("upper", DoubleType()),
        StructField("text", StringType()),
    ]
)
_BOUNDED_MAX = 32
"""Attributes with bounds: each is a column more to compare."""
_Typed = dict[str, str | float | bool | None]
_VALUE = "attributes[p.attribute]"
_IS_TOPIC = f"p.attribute = '{TOPIC_ATTRIBUTE}'"
_TEXT = f"CASE WHEN {_IS_TOPIC} THEN topic ELSE {_VALUE}.text END"


def _compared(operator: Operator) -> str:
    pairs = [(f"({_TEXT})", "p.text"), (f"{_VALUE}.number", "p.number")]
    if operator in (Operator.EQ, Operator.NE):
        pairs.append((f"{_VALUE}.boolean", "p.boolean"))
    comparisons = [f"{left} {operator.value} {right}" for left, right in pairs]
    # Another type leaves a null on one side: the comparison is unknown, the predicate false.
    return f"coalesce({', '.join(comparisons)}, false)"


def _part(function: str) -> str:
    return f"coalesce({function}({_TEXT}, p.text), false)"


_MEANINGS = {
    Operator.PRESENT: f"{_IS_TOPIC} OR {_VALUE} IS NOT NULL",
    Operator.PREFIX: _part("startswith"),
    Operator.SUFFIX: _part("endswith"),
    Operator.CONTAINS: _part("contains"),
} | {
    operator: _compared(operator)
    for operator in (Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE)
}
_CASES = " ".join(f"WHEN '{op.value}' THEN {meaning}" for op, meaning in _MEANINGS.items())
_HOLDS = f"CASE p.operator {_CASES} ELSE false END"
"""Whether a predicate ``p`` holds, as text: Spark's parser is quicker than building it."""


def is_plain(topic: str = "topic", filter_: str = "filter") -> Column:
    """Whether a filter asks for its topic and nothing else; others are parsed."""
    has_quotes = F.col(topic).contains("'") | F.col(topic).contains("\\")
    written = F.concat(F.lit(f"{TOPIC_ATTRIBUTE} = '"), F.col(topic), F.lit("'"))
    return F.coalesce((F.col(filter_) == written) & ~has_quotes, F.lit(False))


def parsed_filters(spark: SparkSession, filters: DataFrame) -> DataFrame:
    """``filter``, ``is_known``, ``bounds`` and, where bounds do not say all, ``predicates``.

    One row per distinct text; it is not known if it makes no sense. The texts come to the driver:
    there are as many as different subscriptions, not publications.
    """
    texts = [row["filter"] for row in filters.select("filter").distinct().collect()]
    parsed = {text: _parsed(text) for text in sorted(t for t in texts if t is not None)}
    bounded = _attributes([found for found in parsed.values() if found is not None])
    schema = StructType([
        StructField("filter", StringType()),
        StructField("is_known", BooleanType()),
        StructField("bounds", StructType([StructField(name, _BOUNDS) for name in bounded])),
        StructField("predicates", _PREDICATES),
    ])  # fmt: skip
    rows = []
    for text, predicates in parsed.items():
        bounds, others = _split(predicates or (), bounded)
        rows.append((text, predicates is not None, bounds, [_typed(p) for p in others]))
    frame = local_frame(spark, rows, schema)
    return frame if any(others for *_, others in rows) else frame.drop("predicates")


def asked_text(filters: DataFrame) -> tuple[str, str] | None:
    """The text that most filters ask an attribute for, and what a publication has there.

    Both as expressions; the first is null for a filter that does not ask for one. None if filters
    have bounds for the topic alone. Pairs that differ in it need not be looked at.
    """
    _, *others = _bounded(filters)
    if not others:
        return None
    name = others[0].replace("`", "``")
    return f"bounds.`{name}`.text", "text_1"


def with_values(publications: DataFrame, filters: DataFrame) -> DataFrame:
    """Publications with the values that the filters' bounds are compared with, once for all."""
    return publications.select("*", *(
        column
        for place, name in enumerate(_bounded(filters))
        for column in _values(place, name)
    ))  # fmt: skip


def satisfies(filters: DataFrame) -> Column:
    """Whether a row of both satisfies the filter, if that is known.

    The row has a publication's columns (see `with_values`) and a filter's; of ``filters`` only the
    columns matter.
    """
    fits = F.lit(True)
    for place, name in enumerate(_bounded(filters)):
        bound = F.col("bounds").getField(name)
        number, text = F.col(f"number_{place}"), F.col(f"text_{place}")
        for limit, holds in (
            (bound.getField("lower"), number >= bound.getField("lower")),
            (bound.getField("upper"), number <= bound.getField("upper")),
            (bound.getField("text"), text == bound.getField("text")),
        ):
            fits &= limit.isNull() | F.coalesce(holds, F.lit(False))
    if "predicates" not in filters.columns:
        return fits
    return fits & F.expr(f"size(predicates) = 0 or forall(predicates, p -> {_HOLDS})")


def _attributes(filters: Sequence[Sequence[Predicate]]) -> list[str]:
    """Attributes with bounds: the topic, then those that most filters ask for one text of."""
    asked = Counter(p.attribute for found in filters for p in found
                    if p.operator is Operator.EQ and isinstance(p.value, str))  # fmt: skip
    named = {p.attribute for found in filters for p in found} - {TOPIC_ATTRIBUTE}
    by_texts = sorted(named, key=lambda name: (-asked[name], name))
    return [TOPIC_ATTRIBUTE, *by_texts][:_BOUNDED_MAX]


def _bounded(filters: DataFrame) -> list[str]:
    bounds = filters.schema["bounds"].dataType
    assert isinstance(bounds, StructType)
    return bounds.names


def _values(place: int, name: str) -> list[Column]:
    value = F.col("attributes")[name]
    text = F.col("topic") if name == TOPIC_ATTRIBUTE else value["text"]
    return [value["number"].alias(f"number_{place}"), text.alias(f"text_{place}")]


def _parsed(text: str) -> tuple[Predicate, ...] | None:
    try:
        return tuple(parse_filter(text).predicates)
    except (NotationError, ValueError):
        return None


def _split(
    predicates: Sequence[Predicate], bounded: Sequence[str]
) -> tuple[dict[str, dict[str, float | str | None]], list[Predicate]]:
    """Predicates as bounds by attribute, and those that no bound can express."""
    bounds: dict[str, dict[str, float | str | None]] = {
        name: {"lower": None, "upper": None, "text": None} for name in bounded
    }
    others = []
    for predicate in predicates:
        bound = bounds.get(predicate.attribute)
        if bound is None or not _narrow(bound, predicate):
            others.append(predicate)
    return bounds, others


def _narrow(bound: dict[str, float | str | None], predicate: Predicate) -> bool:
    """Put a predicate into the bounds of its attribute, if they can express it."""
    value, operator = predicate.value, predicate.operator
    if isinstance(value, str) and operator is Operator.EQ and bound["text"] in (None, value):
        bound["text"] = value
        return True
    if not isinstance(value, int | float) or isinstance(value, bool) or math.isnan(value):
        return False
    number = float(value)
    # Beyond a number, without it, begins with the next one that a double can hold.
    lowest = {Operator.EQ: number, Operator.GE: number,
              Operator.GT: math.nextafter(number, math.inf)}.get(operator)  # fmt: skip
    highest = {Operator.EQ: number, Operator.LE: number,
               Operator.LT: math.nextafter(number, -math.inf)}.get(operator)  # fmt: skip
    lower, upper = bound["lower"], bound["upper"]
    if lowest is not None:
        bound["lower"] = max(lowest, lower) if isinstance(lower, float) else lowest
    if highest is not None:
        bound["upper"] = min(highest, upper) if isinstance(upper, float) else highest
    return lowest is not None or highest is not None


def _typed(predicate: Predicate) -> _Typed:
    value = predicate.value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return {
        "attribute": predicate.attribute,
        "operator": predicate.operator.value,
        "text": value if isinstance(value, str) else None,
        "number": float(value) if is_number and value is not None else None,
        "boolean": value if isinstance(value, bool) else None,
    }
