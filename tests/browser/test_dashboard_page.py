"""The page in a real browser, over overlays that are made up: 20 and 200 brokers, phone, dark."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

import pytest

from pubweave.dashboard.documents import steps_of
from pubweave.dashboard.snapshot import Alert, Severity
from pubweave.model.decisions import DecisionState
from pubweave.model.deployment import DeploymentState
from pubweave.model.ids import Link
from tests.browser.look import TOKEN, ServedOverlay, keep_screenshot, needs_chromium, opened_page
from tests.browser.made_overlay import MadeOverlay, with_history

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.sockets, needs_chromium()]

DESK: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}}
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 2,
    "is_mobile": True,
    "has_touch": True,
}


def made(broker_count: int) -> MadeOverlay:
    return with_history(MadeOverlay(broker_count, seed=3, began_at=time.time() - 60))


def standing(page: Page) -> set[Link]:
    """The links that the picture draws as standing."""
    keys = page.locator("line.wire:not(.absent) + line.touch").evaluate_all(
        "lines => lines.map(line => line.dataset.link)"
    )
    return {Link.between(*key.split("|")) for key in keys}


def text_changes(page: Page, selector: str) -> None:
    before = page.locator(selector).inner_text()
    page.wait_for_function(
        "([s, t]) => document.querySelector(s).innerText !== t", arg=[selector, before]
    )


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    width = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert isinstance(width, int)
    return width


def test_values_live_and_a_plan_is_approved_by_a_click_and_seen_through(browser: Browser) -> None:
    overlay = made(20)
    before = set(overlay.topology.links)
    with ServedOverlay(overlay) as served, opened_page(browser, served.address, **DESK) as page:
        page.wait_for_selector("#pulse[data-state=live]")
        assert standing(page) == before
        assert page.locator(".broker").count() == 20
        assert page.locator("line.halo.new.proposed.absent").count() > 0
        assert page.locator("line.wire.removed.proposed").count() > 0
        text_changes(page, "#tile-publications .value")
        text_changes(page, "#chart-latency .chart-value")
        keep_screenshot(page, "20-waiting")

        page.click("#approve-000004")
        page.fill("#token", TOKEN)
        page.keyboard.press("Enter")
        page.wait_for_selector("#toast.shown")
        assert "is approved" in page.locator("#toast").inner_text()
        page.wait_for_selector("line.wire.removed.now")
        page.wait_for_selector(".broker.acting")
        assert re.search(r"step [1-4] of 4", page.inner_text("#plan-headline"))
        keep_screenshot(page, "20-in-motion")

        page.wait_for_selector(".progress.done")
        assert set(overlay.topology.links) != before
        page.wait_for_function("() => !document.querySelector('line.halo.now, line.halo.proposed')")
        assert standing(page) == set(overlay.topology.links)
        keep_screenshot(page, "20-done")


def test_a_wrong_token_is_asked_for_again_and_changes_nothing(browser: Browser) -> None:
    overlay = made(8)
    with (
        ServedOverlay(overlay) as served,
        opened_page(browser, served.address, may_complain=True, **DESK) as page,
    ):
        page.click("#approve-000004")
        page.fill("#token", "not-the-right-token")
        page.click("#token-dialog button[type=submit]")
        page.wait_for_function("() => document.querySelector('#token-error').textContent !== ''")
        page.click("#token-cancel")
        page.wait_for_selector("#token-dialog", state="hidden")
        assert overlay.decisions[-1].state is DecisionState.WAITING
        page.click("#reject-000004")
        page.fill("#token", TOKEN)
        page.keyboard.press("Enter")
        page.wait_for_selector("#decision-000004 .chip.rejected")
    assert overlay.decisions[-1].state is DecisionState.REJECTED


def test_a_plan_is_stopped_by_a_click(browser: Browser) -> None:
    overlay = made(20)
    overlay.moves_by_itself = False
    overlay.deploy(steps_of(overlay.decisions[-1]))
    with ServedOverlay(overlay) as served, opened_page(browser, served.address, **DESK) as page:
        page.click("#abort")
        page.fill("#token", TOKEN)
        page.keyboard.press("Enter")
        page.wait_for_selector(".progress.aborted")
    assert overlay.deployment is not None
    assert overlay.deployment.state is DeploymentState.ABORTED


def test_without_a_token_there_is_nothing_to_click(browser: Browser) -> None:
    with (
        ServedOverlay(made(8), token=None) as served,
        opened_page(browser, served.address, **DESK) as page,
    ):
        page.wait_for_selector("article.waiting")
        page.wait_for_function(
            "() => document.querySelector('#access').textContent.startsWith('Read-only')"
        )
        assert page.locator("#waiting button").count() == 0
        assert "pubweave decisions approve 000004" in page.locator("#waiting").inner_text()


def test_two_hundred_brokers_are_readable_and_names_do_not_cover_each_other(
    browser: Browser,
) -> None:
    overlay = made(200)
    with (
        ServedOverlay(overlay, interval_s=0.5) as served,
        opened_page(browser, served.address, **DESK) as page,
    ):
        page.wait_for_selector("#pulse[data-state=live]")
        page.wait_for_function("() => document.querySelectorAll('.broker').length === 200")
        time.sleep(1.0)  # brokers glide to their places
        assert standing(page) == set(overlay.topology.links)
        boxes = page.locator(".broker.named .label").evaluate_all(
            "ls => ls.map(l => { const b = l.getBoundingClientRect();"
            " return [b.left, b.top, b.right, b.bottom]; })"
        )
        assert len(boxes) > 60
        assert crossings(boxes) <= 2
        assert off_screen(page) == 0
        keep_screenshot(page, "200-waiting")
        named = page.locator(".broker.named").count()
        page.click("#zoom-in")
        page.click("#zoom-in")
        page.wait_for_function(
            "n => document.querySelectorAll('.broker.named').length > n", arg=named
        )
        keep_screenshot(page, "200-zoomed")
        overlay.deploy(steps_of(overlay.decisions[-1]))
        page.click("#zoom-fit")
        page.wait_for_selector(".broker.acting")
        page.locator(".broker .disc").nth(4).click()
        page.wait_for_selector("#detail table")
        keep_screenshot(page, "200-in-motion")


def crossings(boxes: list[list[float]]) -> int:
    """Pairs of names of which one covers the other by more than two pixels."""
    found = 0
    for number, (left, top, right, bottom) in enumerate(boxes):
        for l2, t2, r2, b2 in boxes[:number]:
            wide, high = min(right, r2) - max(left, l2), min(bottom, b2) - max(top, t2)
            found += wide > 2 and high > 2
    return found


def off_screen(page: Page) -> int:
    """Brokers outside of the picture."""
    count = page.evaluate(
        """() => { const p = document.querySelector('#picture').getBoundingClientRect();
        return [...document.querySelectorAll('.disc')].filter(d => {
          const b = d.getBoundingClientRect();
          return d.closest('#picture')
            && (b.left < p.left || b.right > p.right || b.top < p.top || b.bottom > p.bottom);
        }).length; }"""
    )
    assert isinstance(count, int)
    return count


@pytest.mark.parametrize("count", [20, 200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_sideways_scrolling(browser: Browser, count: int, scheme: Any) -> None:
    with (
        ServedOverlay(made(count), interval_s=0.5) as served,
        opened_page(browser, served.address, color_scheme=scheme, **PHONE) as page,
    ):
        page.wait_for_selector("#pulse[data-state=live]")
        time.sleep(1.0)
        assert overflow(page) <= 0
        assert off_screen(page) == 0
        short = page.locator("button:visible:not(.plain)").evaluate_all(
            "bs => bs.filter(b => b.getBoundingClientRect().height < 32).map(b => b.innerText)"
        )
        assert short == [], "fingers need room"
        keep_screenshot(page, f"{count}-phone-{scheme}")


def contrast(page: Page, selector: str) -> float:
    """The contrast of a text with the ground behind it (WCAG's measure)."""
    colours = page.locator(selector).first.evaluate(
        """e => { const own = getComputedStyle(e).color; let g = e;
        while (g && getComputedStyle(g).backgroundColor === 'rgba(0, 0, 0, 0)') g = g.parentElement;
        return [own, getComputedStyle(g).backgroundColor]; }"""
    )
    light, dark = sorted((luminance(colour) for colour in colours), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_their_ground(browser: Browser, scheme: Any) -> None:
    overlay = made(20)
    overlay.troubles = (
        Alert("zookeeper_away", Severity.WARNING, "ZooKeeper does not answer", time.time()),
        Alert("brokers_down", Severity.ERROR, "broker b3 does not answer", time.time()),
    )
    overlay.down = frozenset({"b3"})
    with (
        ServedOverlay(overlay) as served,
        opened_page(browser, served.address, color_scheme=scheme, **DESK) as page,
    ):
        page.wait_for_selector(".trouble")
        page.wait_for_selector(".broker.down")
        for selector in (
            ".tile dd", ".tile dd.note", ".trouble.warning span", ".trouble.error .since",
            "#pulse", ".chip.waiting", ".chip.deployed", ".chip.rejected", ".chip.closed",
            "button.primary", "article.waiting .muted", "footer", "#autopilot", ".facts dt",
        ):  # fmt: skip
            assert contrast(page, selector) >= 4.5, selector
        keep_screenshot(page, f"20-troubles-{scheme}")


def test_empty_states_are_said_in_words(browser: Browser) -> None:
    overlay = MadeOverlay(3)
    overlay.has_telemetry = False
    with ServedOverlay(overlay) as served, opened_page(browser, served.address, **DESK) as page:
        page.wait_for_selector("#pulse[data-state=live]")
        assert "No plan was applied" in page.locator("#plan-body").inner_text()
        assert "No decision was made" in page.locator("#decisions-body").inner_text()
        assert "No telemetry" in page.locator("#chart-latency").inner_text()
        assert "not known yet" in page.locator("#chart-cost").inner_text()
        keep_screenshot(page, "3-empty")
        overlay.has_telemetry = True
        page.wait_for_function(
            "() => document.querySelector('#chart-latency .chart-value').innerText.includes('ms')"
        )


def test_the_page_says_that_the_dashboard_is_gone_and_goes_on_when_it_is_back(
    browser: Browser,
) -> None:
    overlay = made(8)
    with (
        ServedOverlay(overlay) as served,
        opened_page(browser, served.address, may_complain=True, **DESK) as page,
    ):
        page.wait_for_selector("#pulse[data-state=live]")
        served.stop()
        page.wait_for_selector("#pulse[data-state=away]")
        assert "does not answer" in page.locator("#troubles").inner_text()
        overlay.decide(DecisionState.CLOSED, "made while the dashboard was away")
        served.start()
        page.wait_for_selector("#pulse[data-state=live]")
        page.wait_for_selector("#decision-000005")
        assert page.locator(".trouble").count() == 0
        text_changes(page, "#tile-publications .value")


def test_the_overlay_is_walked_by_keyboard(browser: Browser) -> None:
    with ServedOverlay(made(20)) as served, opened_page(browser, served.address, **DESK) as page:
        page.wait_for_selector("#pulse[data-state=live]")
        page.focus("#zoom-in")
        page.keyboard.press("Tab")
        first = focused_broker(page)
        assert first is not None
        reached = {first}
        for key in ("ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown") * 2:
            page.keyboard.press(key)
            reached.add(focused_broker(page))
        assert len(reached) > 3
        page.keyboard.press("Enter")
        selected = focused_broker(page)
        assert page.locator("#detail strong").inner_text() == f"Broker {selected}"
        page.keyboard.press("Escape")
        assert "Select a broker" in page.locator("#detail").inner_text()
        label = page.evaluate("document.activeElement.getAttribute('aria-label')")
        assert f"Broker {selected}, " in label
        assert "publications/s" in label


def focused_broker(page: Page) -> str | None:
    broker = page.evaluate("document.activeElement.dataset.broker ?? null")
    assert broker is None or isinstance(broker, str)
    return broker


def test_nothing_is_asked_of_other_hosts_and_texts_are_never_markup(browser: Browser) -> None:
    overlay = made(5)
    evil = "<img src=x onerror=alert(1)>"
    overlay.decide(DecisionState.CLOSED, evil)
    overlay.troubles = (Alert("odd", Severity.NOTE, evil, time.time()),)
    asked: list[str] = []
    with ServedOverlay(overlay) as served, opened_page(browser, served.address, **DESK) as page:
        page.on("request", lambda request: asked.append(request.url))
        page.reload()
        page.wait_for_selector(".trouble")
        page.wait_for_selector("#decision-000005")
        assert evil in page.locator("#decision-000005 .reason").inner_text()
        assert page.locator("img[src=x]").count() == 0
        assert len(asked) > 8
        assert [url for url in asked if not url.startswith(served.address)] == []
        shown = json.loads(page.evaluate("fetch('/api/access').then(a => a.text())"))
        assert shown == {"is_read_only": False}
