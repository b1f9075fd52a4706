"""Content filters inside Spark: which publications a subscription's filter matches.

Filters are parsed once per distinct text, by the model's own parser; their predicates become an
array column, and a publication satisfies a filter if all of them hold. Comparisons are typed as in
`pubweave.model.filters`: a value of another type never satisfies a predicate.
"""

from __future__ import annotations

from collections.abc import Iterable

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
    return F.forall(F.col(predicates), _holds)


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


def _holds(predicate: Column) -> Column:
    is_topic = predicate["attribute"] == TOPIC_ATTRIBUTE
    value = F.col("attributes")[predicate["attribute"]]
    text = F.when(is_topic, F.col("topic")).otherwise(value["text"])
    wanted = predicate["text"]

    def compared(operator: Operator) -> Column:
        pairs = [(text, wanted), (value["number"], predicate["number"])]
        if operator in (Operator.EQ, Operator.NE):
            pairs.append((value["boolean"], predicate["boolean"]))
        return _known(_compare(operator, left, right) for left, right in pairs)

    holds = F.when(predicate["operator"] == Operator.PRESENT.value, is_topic | value.isNotNull())
    for operator in (Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE):
        holds = holds.when(predicate["operator"] == operator.value, compared(operator))
    for operator, part in (
        (Operator.PREFIX, F.startswith(text, wanted)),
        (Operator.SUFFIX, F.endswith(text, wanted)),
        (Operator.CONTAINS, F.contains(text, wanted)),
    ):
        holds = holds.when(predicate["operator"] == operator.value, _known([part]))
    return holds.otherwise(F.lit(False))


def _known(comparisons: Iterable[Column]) -> Column:
    # Another type leaves a null on one side: the comparison is unknown, the predicate false.
    return F.coalesce(*comparisons, F.lit(False))


def _compare(operator: Operator, left: Column, right: Column) -> Column:
    match operator:
        case Operator.EQ:
            return left == right
        case Operator.NE:
            return left != right
        case Operator.LT:
            return left < right
        case Operator.LE:
            return left <= right
        case Operator.GT:
            return left > right
        case _:
            return left >= right
