"""Files of subscriptions: what is understood, and what the complaints say."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pubweave.model.files.subscriptions import SubscriptionFileError, read_subscriptions


def pairs(path: Path) -> list[tuple[str, str]]:
    found = read_subscriptions(path)
    return [
        (found.clients[a], found.topics[b])
        for a, b in zip(found.owners.tolist(), found.wanted.tolist(), strict=True)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "client,topic\nb,x\na,y\nb,y\n",
        "\ufeffclient,topic\r\nb,x\r\na,y\r\nb,y\r\n",
        'topic,since,client\nx,1,b\ny,2,a\n"y",,b\n',
        "user,artist,listens\nb,x,3\na,y,4\nb,y,5\n",
    ],
)
def test_columns_are_found_by_their_names(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.csv").write_text(text)
    assert pairs(tmp_path / "s.csv") == [("b", "x"), ("a", "y"), ("b", "y")]


def test_gzip_and_parquet_say_the_same(tmp_path: Path) -> None:
    text = "client,topic\n7,1\n8,1\n"
    (tmp_path / "s.csv.gz").write_bytes(gzip.compress(text.encode()))
    pq.write_table(pa.table({"client": [7, 8], "topic": [1, 1]}), tmp_path / "s.parquet")
    (tmp_path / "folder").mkdir()
    pq.write_table(
        pa.table({"topic": ["1", "1"], "client": ["7", "8"]}), tmp_path / "folder/1.parquet"
    )
    for name in ("s.csv.gz", "s.parquet", "folder"):
        assert pairs(tmp_path / name) == [("7", "1"), ("8", "1")]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty; expected a first line client,topic"),
        (b"client,topic\n", "has no rows below its header"),
        (b"a,x\nb,y\n", "has the columns a,x; expected client,topic"),
        (b"client,topic\na,x\n ,y\n", "row 2 below the header has no client"),
        (b"client,topic\na,x\nb,\n", "row 2 below the header has no topic"),
        (b"client,topic\na,x\nb\n", "Row #3: Expected 2 columns, got 1"),
        (b"client,topic\na,\xff\n", "not CSV: 'utf-8' codec"),
        (b"PAR1 but no Parquet", "not Parquet"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "s.csv"
    path.write_bytes(content)
    with pytest.raises(SubscriptionFileError) as caught:
        read_subscriptions(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert words in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SubscriptionFileError, match=r"none\.csv: there is no such file"):
        read_subscriptions(tmp_path / "none.csv")
