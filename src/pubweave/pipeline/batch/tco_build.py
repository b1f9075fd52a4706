"""Large topic-connected overlays on Spark: parts and attachments side by side.

The subscriptions are in the driver's memory (25 million take about half a gigabyte); a task
gets the nodes of its part and returns links.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillRunning
from typing import TypeVar

from pyspark.sql import SparkSession

Task = TypeVar("Task")
Result = TypeVar("Result")

LOOK_S = 0.3


def on_spark(
    spark: SparkSession, on_progress: Callable[[float], None]
) -> Callable[[Callable[[Task], Result], Sequence[Task]], list[Result]]:
    """What runs tasks as a Spark job, one partition each, and tells which share has ended."""

    def run_all(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        context = spark.sparkContext
        jobs = context.parallelize(tasks, len(tasks)).map(function)
        with ThreadPoolExecutor(1) as thread:
            collected = thread.submit(jobs.collect)
            while True:
                try:
                    return collected.result(timeout=LOOK_S)
                except StillRunning:
                    on_progress(_completed(spark) / len(tasks))
                except BaseException:
                    context.cancelAllJobs()
                    raise

    return run_all


def _completed(spark: SparkSession) -> int:
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)
