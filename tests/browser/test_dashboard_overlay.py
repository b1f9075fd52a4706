"""The dashboard over a real overlay: eight brokers, ZooKeeper, traffic, an autopilot, a browser."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pubweave.control.records import append_decision, read_decision
from pubweave.deploy.documents import Layout
from pubweave.generate.topologies.trees import hierarchical_tree
from pubweave.model.decisions import (
    Alternative,
    ControlMode,
    DecisionRecord,
    DecisionState,
    Prediction,
    Verdict,
    hash_of,
)
from pubweave.model.files.plan import read_plan
from pubweave.model.ids import Link
from pubweave.runtime.overlay.run_directory import OverlayCondition
from pubweave.runtime.store.session import opened_store, run_command
from pubweave.runtime.store.zookeeper_target import parse_target
from tests.browser.look import TOKEN, keep_screenshot, needs_chromium, opened_page
from tests.contract.zookeeper_users import needs_zookeeper
from tests.integration.live_overlay import LiveOverlay, json_until, start, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.sockets,
    needs_chromium(),
    needs_zookeeper(),
]
DESK: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}}
SPARE_ID = "000001"
NOTE_HEADLINES = """() => {
  window.headlines = [];
  const note = () => {
    const shown = document.querySelector("#plan-headline");
    if (shown) window.headlines.push(shown.innerText);
  };
  new MutationObserver(note).observe(document.querySelector("#plan-body"), { childList: true });
}"""
"""Steps take tenths of a second: what the page showed is noted as it comes."""


@pytest.fixture
def overlay(tmp_path: Path) -> Iterator[LiveOverlay]:
    topology = hierarchical_tree(8, 4, True, np.random.default_rng(5))
    live = LiveOverlay(tmp_path, topology, telemetry=True)
    yield live
    live.close()


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A ``pubweave`` process that is ended at the end."""
    process = start(*arguments)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


@contextlib.contextmanager
def traffic(overlay: LiveOverlay) -> Iterator[None]:
    """A publisher at one broker, subscribers at others."""
    brokers = sorted(overlay.state.brokers)
    with contextlib.ExitStack() as stack:
        for broker in brokers[1:3]:
            wanted = ("sub", "class = 'load'", "--stats", "--broker", broker)
            stack.enter_context(running(*wanted, *overlay.options))
        sent = ("pub", "load", "--count", "1000000", "--rate", "40", "--broker", brokers[-1])
        stack.enter_context(running(*sent, *overlay.options))
        yield


@contextlib.contextmanager
def dashboard(overlay: LiveOverlay) -> Iterator[str]:
    """``pubweave dashboard`` as a process; its address."""
    token = overlay.directory / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    options = ("--port", "0", "--token-file", str(token), "--interval", "0.5", "--json")
    with running("dashboard", *options, *overlay.options) as process:
        yield json_until(process.stdout, lambda told: told["event"] == "started")["address"]


@contextlib.contextmanager
def autopilot(overlay: LiveOverlay) -> Iterator[None]:
    """One that has nothing to profile: it only sees to the decision that waits."""
    nothing = overlay.directory / "no-telemetry"
    nothing.mkdir()
    options = ("--mode", "approve", "--telemetry", str(nothing), "--json")
    with running("autopilot", *options, *overlay.options):
        yield


def in_store(overlay: LiveOverlay, script: Any) -> Any:
    """Run a command in the overlay's store."""

    async def ask() -> Any:
        assert overlay.state.zookeeper is not None
        async with opened_store(parse_target(overlay.state.zookeeper, overlay.login)) as store:
            return await run_command(store, script)

    with ThreadPoolExecutor(1) as elsewhere:  # the browser has an event loop in this thread
        return elsewhere.submit(lambda: asyncio.run(ask())).result()


def waiting_decision(overlay: LiveOverlay, plan_file: Path) -> DecisionRecord:
    """A decision with a real plan, on record as an autopilot would leave it."""
    plan = read_plan(plan_file)
    now = time.time()
    record = DecisionRecord(
        id=SPARE_ID,
        overlay=overlay.state.overlay,
        decided_at=now,
        mode=ControlMode.APPROVE,
        verdict=Verdict.CHANGE,
        reason="a test wants to see this plan carried out",
        state=DecisionState.WAITING,
        alternatives=(Alternative(name="stay", cost_ms_per_s=100.0),),
        chosen="stay",
        prediction=Prediction(cost_ms_per_s=60.0, cost_ms_per_notification=1.0, saving_share=0.4),
        plan_hash=hash_of(plan),
        plan=plan_file.read_text(),
        expires_at=now + 600,
    )
    stored = in_store(overlay, append_decision(Layout(overlay.state.overlay), record))
    assert isinstance(stored, DecisionRecord)
    return stored


def standing(page: Page) -> set[Link]:
    keys = page.locator("line.wire:not(.absent) + line.touch").evaluate_all(
        "lines => lines.map(line => line.dataset.link)"
    )
    return {Link.between(*key.split("|")) for key in keys}


def fetched(address: str, path: str) -> str:
    with urllib.request.urlopen(address + path, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def wait_for(page: Page, script: str) -> None:
    page.wait_for_function(f"() => {script}")


def test_a_plan_is_approved_by_a_click_and_the_picture_shows_the_new_tree(
    overlay: LiveOverlay, browser: Browser
) -> None:
    source = set(overlay.current().links)
    plan_file, plan, target = overlay.make_plan(seed=3, ratio=0.5)
    decision = waiting_decision(overlay, plan_file)
    with (
        traffic(overlay),
        autopilot(overlay),
        dashboard(overlay) as address,
        opened_page(browser, address, **DESK) as page,
    ):
        page.wait_for_selector(f"#approve-{decision.id}")
        wait_for(page, "document.querySelectorAll('.broker').length === 8")
        assert standing(page) == source
        wait_for(page, "document.querySelector('#autopilot').innerText.includes('your answer')")
        wait_for(page, "document.querySelector('#tile-p99 .value').innerText.includes('ms')")
        wait_for(page, "Number(document.querySelector('#tile-deliveries .value').innerText) > 20")
        keep_screenshot(page, "8-live-waiting")

        page.evaluate(NOTE_HEADLINES)
        page.click(f"#approve-{decision.id}")
        page.fill("#token", TOKEN)
        page.keyboard.press("Enter")
        page.wait_for_selector(".progress.done")
        headlines = page.evaluate("window.headlines")
        assert any("under way: step" in told for told in headlines), headlines
        assert f"done: all {plan.step_count} steps" in page.inner_text("#plan-headline")
        until(lambda: standing(page) == set(target.links), 20)
        page.wait_for_selector(f"#decision-{decision.id} .chip.deployed")
        keep_screenshot(page, "8-live-done")

        until(lambda: set(overlay.current().links) == set(target.links))
        until(overlay.is_whole)
        check_figures(address)
    record = in_store(overlay, read_decision(Layout(overlay.state.overlay), decision.id))
    assert (record.state, record.reviewed_by) == (DecisionState.DEPLOYED, "the dashboard")


def check_figures(address: str) -> None:
    """JSON and metrics tell of the same overlay."""
    status = json.loads(fetched(address, "api/status"))
    assert (status["brokers_up"], status["links_up"]) == (8, 7)
    assert status["totals"]["notifications_lost"] == 0
    families = {f.name: f for f in text_string_to_metric_families(fetched(address, "metrics"))}
    assert len(families["pubweave_broker_up"].samples) == 8
    assert families["pubweave_plan_progress_ratio"].samples[0].value == 1.0


def test_what_is_away_is_said_in_words_and_the_page_recovers(
    overlay: LiveOverlay, browser: Browser
) -> None:
    with dashboard(overlay) as address, opened_page(browser, address, **DESK) as page:
        page.wait_for_selector("[data-kind=no_telemetry]")
        wait_for(page, "document.querySelectorAll('.broker').length === 8")

        zookeeper = overlay.zookeeper_pid()
        os.kill(zookeeper, signal.SIGSTOP)
        try:
            page.wait_for_selector("[data-kind=zookeeper_away]")
            assert "since" in page.inner_text("[data-kind=zookeeper_away]")
        finally:
            os.kill(zookeeper, signal.SIGCONT)
        page.wait_for_selector("[data-kind=zookeeper_away]", state="detached")

        with overlay.stopped_broker("b3"):
            page.wait_for_selector("[data-broker=b3].down")
            assert "roker b3 does not answer" in page.inner_text("[data-kind=brokers_down]")
            keep_screenshot(page, "8-live-broker-down")
        page.wait_for_selector("[data-broker=b3]:not(.down)")
        page.wait_for_selector("[data-kind=brokers_down]", state="detached")

        overlay.close()
        page.wait_for_selector("[data-kind=no_overlay]")
        assert overlay.state.condition is OverlayCondition.STOPPED
        wait_for(page, "document.querySelectorAll('.broker.down').length === 8")
        keep_screenshot(page, "8-live-stopped")
        again = LiveOverlay(overlay.directory, overlay.topology)
        try:
            page.wait_for_selector("[data-kind=no_overlay]", state="detached")
            wait_for(page, "document.querySelectorAll('.broker:not(.down)').length === 8")
            assert standing(page) == set(overlay.topology.links)
        finally:
            again.close()
