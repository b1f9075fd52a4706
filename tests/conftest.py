"""What tests of several folders share: one Spark session for the whole run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A small local session; it takes seconds to start, so all tests use this one."""
    from pubweave.pipeline.frames.session import SessionError, check_java, spark_session

    try:
        check_java()
    except SessionError as error:
        pytest.skip(str(error))
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    session = spark_session("local[2]", memory="1g", quick=True, log=log, name="tests")
    yield session
    session.stop()
