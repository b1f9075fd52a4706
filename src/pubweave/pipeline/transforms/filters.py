"""Content filters inside Spark: which publications a subscription's filter matches.

Filters are parsed once per distinct text, by the model's own parser; their predicates become an
array column, and a publication satisfies a filter if all of them hold. Comparisons are typed as in
`pubweave.model.filters`: a value of another type never satisfies a predicate.
"""

from __future__ import annotations

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

from pubweave.model.filter_lexer import NotationError
from pubweave.model.filter_text import parse_filter
from pubweave.model.filters import Operator, Predicate
from pubweave.model.publications import TOPIC_ATTRIBUTE
from pubweave.pipeline.schemas import local_frame

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
_FILTERS = StructType([StructField("filter", StringType()), StructField("predicates", _PREDICATES)])
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
    """``filter``, ``predicates`` for every distinct text; null predicates where it makes no sense.

    The texts come to the driver: there are as many as different subscriptions, not publications.
    """
    texts = [row["filter"] for row in filters.select("filter").distinct().collect()]
    rows = [(text, _predicates(text)) for text in sorted(t for t in texts if t is not None)]
    return local_frame(spark, rows, _FILTERS)


def satisfies(predicates: str = "predicates") -> Column:
    """Whether a row with ``topic`` and ``attributes`` satisfies all predicates; null if unknown."""
    return F.expr(f"forall({predicates}, p -> {_HOLDS})")


def _predicates(text: str) -> list[_Typed] | None:
    try:
        return [_typed(predicate) for predicate in parse_filter(text).predicates]
    except (NotationError, ValueError):
        return None


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
