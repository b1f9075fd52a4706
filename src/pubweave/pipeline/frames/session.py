"""The Spark session: every setting in one place, with its reason.

Only this module starts Spark. It checks for Java first, because Spark's own message for a machine
without it is none, and it sends what the JVM prints to a file: a command's standard error is for
its user.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from py4j.java_gateway import java_import  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

DEFAULT_MASTER = "local[*]"
DEFAULT_MEMORY = "2g"
JAVA_MIN = 17

SETTINGS: Mapping[str, str] = {
    # Telemetry is aggregated early, so shuffles are small: 32 parts keep each below 100 MB at 50
    # million records, and adaptive execution joins them to one or two where there is little.
    "spark.sql.shuffle.partitions": "32",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "32m",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    # Every hash table and sort begins with a page; by default a page is 1/32 of the memory, which
    # hundreds of small queries would mostly spend on clearing it.
    "spark.buffer.pageSize": "2m",
    # A profile is some 800 generated classes, and a stream needs them again for every batch.
    "spark.sql.codegen.cache.maxEntries": "10000",
    # Tables of brokers, links and delivery trees go to every task; those of publications do not.
    "spark.sql.autoBroadcastJoinThreshold": "32m",
    # Brokers write many small files: opening one costs about as much as reading 256 kB.
    "spark.sql.files.openCostInBytes": "256k",
    "spark.sql.files.maxPartitionBytes": "64m",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    # Sketches are kept in a hash table by slot and broker instead of sorting all rows first.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",
    # Rows cross to Python by Arrow; without pandas.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Else every column tells the JVM which line of Python made it, by four calls more.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Most of what is written is read again a moment later: quick to write counts, not small.
    "spark.sql.parquet.compression.codec": "lz4_raw",
    "spark.sql.session.timeZone": "UTC",
    # The tables of a profile are computed side by side: a long one must not hold up short ones.
    "spark.scheduler.mode": "FAIR",
    # A profile is complete when its profile.json is there, not when a folder has a marker.
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # Generated classes fill the metaspace: from its small default size it would grow by a full
    # collection each time.
    "spark.driver.extraJavaOptions": (
        "-XX:+UseParallelGC -XX:ReservedCodeCacheSize=512m -XX:MetaspaceSize=512m"
    ),
    # Nobody looks at Spark's own pages: it need not remember and print every plan.
    "spark.ui.enabled": "false",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "200",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}

ONE_PARTITION = "1"
QUICK_SETTINGS: Mapping[str, str] = {
    # For up to a million records the time goes into planning queries, generating code and
    # compiling it: one partition, plans that are not changed while they run, and simple machine
    # code take half the time. Interpreting queries instead of compiling them is no quicker the
    # first time and slower from then on.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": ONE_PARTITION,
    "spark.default.parallelism": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.files.minPartitionNum": "1",
    "spark.buffer.pageSize": "1m",
    # Held frames would be evaluated row by row by the planner; and numbers that are others with
    # every profile would become part of the code: see `time_slots.moving`.
    "spark.sql.optimizer.excludedRules": (
        "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation,"
        "org.apache.spark.sql.catalyst.optimizer.ConstantFolding"
    ),
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m "
        "-XX:MetaspaceSize=400m -XX:NewSize=600m"
    ),
}

_LOOKED_UP = ("org.apache.spark.sql.functions", "org.apache.spark.api.python.PythonUtils",
              "org.apache.spark.sql.api.python.PythonSQLUtils")  # fmt: skip
"""What PySpark looks up by its bare name with every column; unnamed, Py4J would try one package
after the other, in all jars, which is the tenth part of a small profile."""


class SessionError(ValueError):
    """Spark cannot be started; the message says what is missing."""


def spark_session(
    master: str = DEFAULT_MASTER,
    *,
    memory: str = DEFAULT_MEMORY,
    quick: bool = False,
    conf: Mapping[str, str] | None = None,
    log: Path | None = None,
    name: str = "pubweave",
) -> SparkSession:
    """Start Spark, or raise `SessionError`; ``conf`` overrides the settings above.

    ``memory`` is that of the driver, which on one machine is all there is. ``quick`` is for little
    data: see `QUICK_SETTINGS`.
    """
    check_java()
    settings = {**SETTINGS, **(QUICK_SETTINGS if quick else {}), "spark.driver.memory": memory}
    if master.startswith("local"):
        # The machine's own name may lead nowhere; one machine needs no other than loopback.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {**settings, **(conf or {})}.items():
        builder = builder.config(key, value)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        with _standard_error_to(log):
            session = builder.getOrCreate()
    except (Py4JError, PySparkException, OSError) as error:  # depends on where it is noticed
        where = "" if log is None else f"; {log} has the details"
        raise SessionError(f"Spark does not start with master {master}: {error}{where}") from error
    session.sparkContext.setLogLevel((conf or {}).get("spark.log.level", "ERROR"))
    for name in _LOOKED_UP:
        java_import(session.sparkContext._jvm, name)
    return session


def in_one_partition(frame: DataFrame) -> DataFrame:
    """In a session for little data, a frame that nothing made of it need move.

    Spark moves rows before it groups, joins or orders them, by files on disk and a stage of its
    own, unless it knows that they are in one partition. It does not know of what it reads.
    """
    is_quick = frame.sparkSession.conf.get("spark.sql.shuffle.partitions") == ONE_PARTITION
    return frame.coalesce(1) if is_quick else frame


def check_java() -> None:
    """Raise `SessionError` unless a Java that Spark can use is there."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    if java is None:
        raise SessionError(
            f"Spark needs Java {JAVA_MIN} or newer and none was found: install a JDK or JRE of "
            "your system, or set JAVA_HOME"
        )
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = _major_version(told)
    if version is not None and version < JAVA_MIN:
        raise SessionError(
            f"Spark needs Java {JAVA_MIN} or newer, {java} is Java {version}: set JAVA_HOME"
        )


def _major_version(told: str) -> int | None:
    """The major version in what ``java -version`` prints; None if it says nothing we know."""
    quoted = told.split('"')
    if len(quoted) < 2:
        return None
    parts = quoted[1].split(".")
    major = parts[1] if parts[0] == "1" and len(parts) > 1 else parts[0]
    digits = major.split("-")[0].split("+")[0]
    return int(digits) if digits.isdigit() else None


@contextlib.contextmanager
def _standard_error_to(path: Path | None) -> Iterator[None]:
    """What child processes started inside print on standard error goes to a file."""
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(target, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(target)
