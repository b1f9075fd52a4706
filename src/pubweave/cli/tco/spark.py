"""``pubweave tco build --spark``: the session around a build in parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pubweave.design.tco.interests import Indices, Subscriptions
from pubweave.design.tco.low_oda import Mode

PARTS_SHARE = 0.9
"""Of the work, as far as a progress bar is concerned."""


def build_on_spark(
    wanted: Subscriptions,
    mode: Mode,
    rho: float,
    *,
    part_size: int,
    variant: str,
    master: str,
    memory: str,
    log: Path,
    tell: Callable[[float], None],
) -> Indices:
    """The links of an overlay, by whichever variant."""
    from pubweave.design.tco.divided import build_attached, build_divided
    from pubweave.pipeline.batch.tco_build import on_spark
    from pubweave.pipeline.frames.session import spark_session

    # Tasks are sent and collected as single values, as large as parts are.
    conf = {"spark.rpc.message.maxSize": "1024", "spark.driver.maxResultSize": "0"}
    session = spark_session(
        master, memory=memory, quick=True, conf=conf, log=log, name="pubweave tco build"
    )
    try:
        run_all = on_spark(session, lambda share: tell(PARTS_SHARE * share))
        if variant == "backbone":
            return build_attached(wanted, part_size, run_all, mode, rho=rho, on_progress=tell)
        return build_divided(wanted, part_size, run_all, mode, rho=rho, on_progress=tell)
    finally:
        session.stop()
