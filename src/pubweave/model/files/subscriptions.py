"""Files of subscriptions: pairs of client and topic, as CSV (gzip or not) or Parquet.

A CSV file begins with the names of its columns. Besides ``client,topic`` the names that public
data sets use are understood. Every complaint names the file, the line and what to write instead.
Needs pyarrow, imported when a file is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

HEADERS = (
    ("client", "topic"),
    ("follower", "topic"),
    ("user", "artist"),
    ("user", "friend"),
    ("u", "v"),
)


class SubscriptionFileError(ValueError):
    """A file of subscriptions that cannot be used, and why."""


class SubscriptionPairs(NamedTuple):
    """Clients and topics by name, in the order they first come, and the pairs by number."""

    clients: tuple[str, ...]
    topics: tuple[str, ...]
    owners: npt.NDArray[np.int64]
    wanted: npt.NDArray[np.int64]


def read_subscriptions(path: Path) -> SubscriptionPairs:
    """The pairs in a file; raises `SubscriptionFileError`. A pair may come twice."""
    if not path.exists():
        raise SubscriptionFileError(f"{path}: there is no such file")
    table = _read_parquet(path) if _is_parquet(path) else _read_csv(path)
    if not table.num_rows:
        raise SubscriptionFileError(f"{path}: has no rows below its header")
    owners, clients = _encoded(path, table, 0)
    wanted, topics = _encoded(path, table, 1)
    return SubscriptionPairs(clients, topics, owners, wanted)


def _is_parquet(path: Path) -> bool:
    if path.is_dir():
        return True
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def _read_parquet(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        names = pq.read_schema(path).names if path.is_file() else pq.read_table(path).column_names
        chosen = list(_columns(path, names))
        return pq.read_table(path, columns=chosen, read_dictionary=chosen)
    except (pa.ArrowException, OSError) as error:
        raise SubscriptionFileError(f"{path}: not Parquet: {_first_line(error)}") from error


def _read_csv(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    names = _header(path)
    chosen = _columns(path, names)
    # Short files: rows of another length are named by their line, which needs one thread.
    read = csv.ReadOptions(use_threads=path.stat().st_size > 1 << 20)
    convert = csv.ConvertOptions(
        column_types={name: pa.string() for name in names},
        include_columns=list(chosen),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
    )
    try:
        return csv.read_csv(path, read_options=read, convert_options=convert)
    except (pa.ArrowException, OSError) as error:
        raise SubscriptionFileError(f"{path}: {_first_line(error)}") from error


def _header(path: Path) -> Sequence[str]:
    import csv as lines
    import gzip

    is_gzip = path.suffix == ".gz"
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8-sig")
            if is_gzip
            else path.open(encoding="utf-8-sig") as file
        ):
            return next(lines.reader(file), [])
    except (OSError, UnicodeDecodeError, lines.Error) as error:
        raise SubscriptionFileError(f"{path}: not CSV: {error}") from error


def _columns(path: Path, names: Sequence[str]) -> tuple[str, str]:
    for wanted in HEADERS:
        if set(wanted) <= set(names):
            return wanted
    if not names:
        raise SubscriptionFileError(f"{path}: is empty; expected a first line client,topic")
    expected = " or ".join(",".join(header) for header in HEADERS)
    raise SubscriptionFileError(
        f"{path}: has the columns {','.join(names)}; expected {expected} (in the first line)"
    )


def _encoded(path: Path, table: Any, column: int) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """A column's values by number, and the values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = table.column(column)
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    coded = values.unify_dictionaries().combine_chunks()
    coded = coded.chunk(0) if isinstance(coded, pa.ChunkedArray) else coded
    try:
        names = coded.dictionary.cast(pa.string())
    except pa.ArrowException as error:
        raise SubscriptionFileError(f"{path}: {_first_line(error)}; give texts") from error
    blank = pc.equal(pc.fill_null(pc.utf8_trim_whitespace(names), ""), "")
    is_blank = pc.fill_null(pc.take(blank, coded.indices), True)
    place = pc.index(is_blank, True).as_py()
    if place >= 0:
        name = table.column_names[column]
        raise SubscriptionFileError(f"{path}: row {place + 1} below the header has no {name}")
    # A dictionary may have its own order, and values that no row has.
    order = coded.indices.unique().to_numpy()
    number = np.zeros(len(names), np.int64)
    number[order] = np.arange(len(order))
    return number[coded.indices.to_numpy()], tuple(names.take(pa.array(order)).to_pylist())


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
