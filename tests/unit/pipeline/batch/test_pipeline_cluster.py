"""The same job on a cluster of a master and two workers, of which one does not survive."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pubweave.model.files.profile import WorkloadProfile
from pubweave.pipeline.frames.settings import ProfileSettings
from tests.naive.profiles import assert_same_tables
from tests.naive.telemetry_world import make_world, write_world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.sockets, pytest.mark.timeout(900)]


@dataclass
class Cluster:
    """A standalone cluster on loopback."""

    url: str
    environment: dict[str, str]
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, log: Path, *arguments: str) -> subprocess.Popen[bytes]:
        import pyspark

        launcher = Path(pyspark.__file__).parent / "bin" / "spark-class"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(launcher), *arguments],
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def stop(self) -> None:
        for process in self.processes:
            kill_group(process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and its children at once; each was started in a session of its own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait(30)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(condition: object, what: str, seconds: float) -> None:
    assert callable(condition)
    ends_at = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends_at, f"no {what} after {seconds} s"
        time.sleep(0.1)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    port = free_port()
    environment = os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
    }
    found = Cluster(f"spark://127.0.0.1:{port}", environment)
    master_log = tmp_path / "master.log"
    found.start(
        master_log, "org.apache.spark.deploy.master.Master",
        "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(free_port()),
    )  # fmt: skip
    try:
        wait_for(lambda: b"Starting Spark master" in master_log.read_bytes(), "master", 60)
        for number in (1, 2):
            found.start(
                tmp_path / f"worker{number}.log", "org.apache.spark.deploy.worker.Worker",
                "--cores", "1", "--memory", "1g", "--host", "127.0.0.1",
                "--webui-port", str(free_port()), "--work-dir", str(tmp_path / f"w{number}"),
                found.url,
            )  # fmt: skip
        registered = b"Registering worker"
        wait_for(lambda: master_log.read_bytes().count(registered) == 2, "two workers", 60)
        yield found
    finally:
        found.stop()


def test_a_worker_killed_in_the_middle_does_not_change_the_tables(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    from pubweave.pipeline.batch import run_profile

    write_world(make_world(31, publications=200), tmp_path / "run")
    output = tmp_path / "cluster"
    job = subprocess.Popen(
        [
            sys.executable, "-m", "pubweave", "profile", str(tmp_path / "run"), "-o", str(output),
            "--master", cluster.url, "--memory", "1g", "--json",
            "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.executor.memory=512m",
        ],
        env=cluster.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        # Some tables are done, most are not.
        wait_for(lambda: len(list(output.glob("tables-*/*"))) >= 5, "five tables", 300)
        kill_group(cluster.processes[1])
        told, errors = job.communicate(timeout=600)
    finally:
        kill_group(job)  # type: ignore[arg-type]
    assert job.returncode == 0, errors
    assert cluster.url in told
    run_profile(spark, str(tmp_path / "run"), str(tmp_path / "local"), ProfileSettings(), now=0.0)
    assert_same_tables(WorkloadProfile(output), WorkloadProfile(tmp_path / "local"))


def test_a_killed_job_leaves_the_profile_before_it(spark: SparkSession, tmp_path: Path) -> None:
    from pubweave.pipeline.batch import run_profile

    write_world(make_world(32), tmp_path / "run")
    output = tmp_path / "profile"
    run_profile(spark, str(tmp_path / "run"), str(output), ProfileSettings(), now=0.0)
    before = (output / "profile.json").read_bytes()
    job = subprocess.Popen(
        [sys.executable, "-m", "pubweave", "profile", str(tmp_path / "run"), "-o", str(output),
         "--master", "local[2]", "--memory", "1g"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    wait_for(lambda: len(list(output.glob("tables-*/*"))) >= 40, "unfinished tables", 300)
    kill_group(job)
    assert (output / "profile.json").read_bytes() == before
    old = WorkloadProfile(output)
    verdict = old.rows("audit")
    run_profile(spark, str(tmp_path / "run"), str(output), ProfileSettings(), now=0.0)
    assert WorkloadProfile(output).rows("audit") == verdict
    assert len(list(output.glob("tables-*"))) == 2, "the new tables and those before"
