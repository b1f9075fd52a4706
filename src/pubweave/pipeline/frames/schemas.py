"""Spark's schemas of the telemetry tables and of the profile's, made from the model's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from pubweave.model.profile import PROFILE_TABLES
from pubweave.model.telemetry import TABLES, ColumnKind

_TYPED_VALUE = StructType(
    [
        StructField("text", StringType()),
        StructField("number", DoubleType()),
        StructField("boolean", BooleanType()),
    ]
)
_TYPES: dict[ColumnKind, DataType] = {
    ColumnKind.FLOAT: DoubleType(),
    ColumnKind.INTEGER: LongType(),
    ColumnKind.TEXT: StringType(),
    ColumnKind.ATTRIBUTES: MapType(StringType(), _TYPED_VALUE),
    ColumnKind.BOOLEAN: BooleanType(),
    ColumnKind.WORDS: ArrayType(LongType()),
}
_ARROW_TYPES: dict[type[DataType], Any] = {
    BooleanType: pa.bool_(),
    DoubleType: pa.float64(),
    LongType: pa.int64(),
    StringType: pa.string(),
}


def telemetry_schema(table: str) -> StructType:
    """The schema that a telemetry table's files are read with."""
    return StructType([StructField(c.name, _TYPES[c.kind]) for c in TABLES[table].columns])


def profile_schema(table: str) -> StructType:
    """The declared schema of a profile table."""
    return StructType([StructField(c.name, _TYPES[c.kind]) for c in PROFILE_TABLES[table].columns])


def as_declared(frame: DataFrame, table: str) -> DataFrame:
    """The frame with exactly the declared columns and types, in their order.

    A column that a transform forgot fails here, when the query is made, not when it is read.
    """
    # As text: a column built call by call would cross to the JVM six times.
    return frame.selectExpr(
        *(
            f"cast({field.name} AS {field.dataType.simpleString()}) AS {field.name}"
            for field in profile_schema(table).fields
        )
    )


def empty_frame(spark: SparkSession, schema: StructType) -> DataFrame:
    return local_frame(spark, [], schema)


def local_frame(
    spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: StructType
) -> DataFrame:
    """A small frame of what the driver knows.

    By way of Arrow: a list of tuples would go through Python processes on the workers.
    """
    names = schema.names
    fields = [pa.field(field.name, _arrow_type(field.dataType)) for field in schema.fields]
    content = pa.Table.from_pylist(
        [dict(zip(names, row, strict=True)) for row in rows], schema=pa.schema(fields)
    )
    return spark.createDataFrame(content, schema)


def _arrow_type(type_: DataType) -> Any:
    if isinstance(type_, ArrayType):
        return pa.list_(_arrow_type(type_.elementType))
    if isinstance(type_, StructType):
        return pa.struct([pa.field(f.name, _arrow_type(f.dataType)) for f in type_.fields])
    if isinstance(type_, MapType):
        return pa.map_(_arrow_type(type_.keyType), _arrow_type(type_.valueType))
    return _ARROW_TYPES[type(type_)]


def columns(**types: DataType) -> StructType:
    """A schema in one line."""
    return StructType([StructField(name, type_) for name, type_ in types.items()])
