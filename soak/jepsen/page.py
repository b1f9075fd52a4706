"""The report of a trial: one HTML file with everything in it, and its chart as SVG."""

from __future__ import annotations

import json
import math
from collections import Counter
from html import escape
from pathlib import Path
from typing import Any

WIDTH, LEFT, RIGHT = 1100, 60, 12
PANEL, GAP, LANE = 120, 34, 15
COLORS = {
    "stop": "#8a6d1d",
    "kill": "#a3262a",
    "cut": "#2b5f8f",
    "disk": "#6b4a8b",
    "clock": "#3d7a6a",
    "plan": "#666666",
}
_STYLE = """
body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1120px;padding:0 1em;color:#222}
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
td,th{padding:2px 12px 2px 0;text-align:left;vertical-align:top}td.n{text-align:right}
th{border-bottom:1px solid #999}
.bad{color:#a3262a;font-weight:600}.good{color:#2c6e3f;font-weight:600}
pre{background:#f4f4f2;padding:8px;overflow-x:auto;font-size:12px}
svg text{font:11px system-ui,sans-serif;fill:#444}details{margin:.4em 0}.wide{overflow-x:auto}
"""


def write_page(found: dict[str, Any], path: Path) -> None:
    path.write_text(page(found))


def page(found: dict[str, Any]) -> str:
    settings = found["settings"]
    title = f"soak: {found['strategy']}, {settings['minutes']:g} min, seed {settings['seed']}"
    mark = "bad" if found["violations"] else "good"
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>",
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}: <span class={mark}>{escape(found['verdict'])}</span></h1>",
    ]
    if found["ended_early"]:
        parts.append(f"<p class=bad>Ended early: {escape(found['ended_early'])}.</p>")
    if found["violations"]:
        parts.append(_table(("violation", "count"), sorted(found["violations"].items())))
    parts += [_summary(found), "<h2>What happened when</h2>", chart(found)]
    parts += ["<h2>Counts</h2>", _counts(found)]
    parts += ["<h2>Violations</h2>", _violations(found)]
    parts += ["<h2>Faults</h2>", _faults(found)]
    parts += ["<h2>Settings</h2>", _settings(found), "</body></html>"]
    return "\n".join(parts)


def _summary(found: dict[str, Any]) -> str:
    counts, line = found["counts"], found["timeline"]
    wanted, due = counts.get("wanted", 0), counts.get("due", 0)
    share = f" ({due / wanted:.1%} of what was wanted)" if wanted else ""
    return (
        f"<p>{counts.get('published', 0):,} publications, {counts.get('acknowledged', 0):,} of "
        f"them acknowledged; {counts.get('delivered', 0):,} deliveries; {due:,} due{share}; "
        f"{counts.get('missing', 0):,} missing; {counts.get('faults', 0)} faults; "
        f"{found['restarts']} starts of brokers. Latency: median up to "
        f"{_ms(line['all_median_ms'])}, 99% up to {_ms(line['all_p99_ms'])}.</p>"
    )


def _ms(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:g} ms" if value < 1000 else f"{value / 1000:.1f} s"


# --- tables -------------------------------------------------------------------------------------


def _table(columns: tuple[str, ...], rows: list[Any]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(_cell(each) for each in row)}</tr>" for row in rows)
    return f"<div class=wide><table><tr>{head}</tr>{body}</table></div>"


def _cell(value: Any) -> str:
    if isinstance(value, (int, float)):
        return f"<td class=n>{value:,}</td>"
    return f"<td>{escape(str(value))}</td>"


def _counts(found: dict[str, Any]) -> str:
    return _table(("what", "count"), list(found["counts"].items()))


def _faults(found: dict[str, Any]) -> str:
    kinds = Counter(each["kind"] for each in found["faults"])
    seconds: Counter[str] = Counter()
    for each in found["faults"]:
        seconds[each["kind"]] += each["for_s"]
    rows = [(kind, count, round(seconds[kind], 1)) for kind, count in kinds.most_common()]
    all_of_them = [
        (
            each["at_s"],
            each["for_s"],
            each["kind"],
            " ".join(each["targets"]),
            each["amount"] or "",
            each["outcome"],
        )
        for each in found["faults"]
    ]
    columns = ("at s", "for s", "fault", "whom", "how much", "outcome")
    return (
        _table(("fault", "times", "seconds"), rows)
        + "<details><summary>all of them</summary>"
        + _table(columns, all_of_them)
        + "</details>"
    )


def _violations(found: dict[str, Any]) -> str:
    if not found["examples"]:
        return "<p class=good>None.</p>"
    parts = []
    for each in found["examples"]:
        during = f"; during {', '.join(each['during'])}" if each["during"] else ""
        head = f"{each['at_s']:.1f} s: {each['kind']}: {each['text'][:400]}{during}"
        lines = "\n".join(json.dumps(line) for line in each["excerpt"])
        if len(each["text"]) > 400:
            lines = f"{each['text']}\n{lines}"
        parts.append(
            f"<details><summary>{escape(head)}</summary><pre>{escape(lines)}</pre></details>"
        )
    kept, all_of_them = len(found["examples"]), sum(found["violations"].values())
    if kept < all_of_them:
        parts.append(f"<p>{kept} of {all_of_them:,} are shown; the histories have all.</p>")
    return "\n".join(parts)


def _settings(found: dict[str, Any]) -> str:
    rows = [*found["settings"].items(), *found["rules"].items(), *found["versions"].items()]
    can = found["capabilities"]
    rows += [(name, can[name]) for name in can if name != "missing"]
    rows += [("not possible here", each) for each in can["missing"]]
    return _table(("setting", "value"), [(name, str(value)) for name, value in rows])


# --- the chart ----------------------------------------------------------------------------------


def chart(found: dict[str, Any]) -> str:
    """Faults as bars in lanes; below them throughput and latency on the same axis of time."""
    line, faults = found["timeline"], found["faults"]
    end = max([1.0, *line["second"], *(each["at_s"] + each["for_s"] for each in faults)])
    lanes = _lanes(faults)
    top = 18 + LANE * max(1, len(set(lanes)))
    height = top + 2 * (PANEL + GAP) + 20

    def x(second: float) -> float:
        return float(LEFT + (WIDTH - LEFT - RIGHT) * second / end)

    parts = [
        f'<div class=wide><svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img" '
        'aria-label="faults, throughput and latency over time">'
    ]
    for each, lane in zip(faults, lanes, strict=True):
        parts.append(_bar(each, x, 14 + lane * LANE, top, height - 20))
    low = top + GAP
    parts.append(_panel(line, ("published", "delivered"), x, low, "per second", is_log=False))
    low += PANEL + GAP
    parts.append(_panel(line, ("median_ms", "p99_ms"), x, low, "latency, ms", is_log=True))
    step = next(s for s in (10, 30, 60, 120, 300, 600, 1800, 3600) if end / s <= 16)
    for second in range(0, int(end) + 1, step):
        text = f"{second // 60}:{second % 60:02}"
        parts.append(
            f'<text x="{x(second):.1f}" y="{height - 4}" text-anchor="middle">{text}</text>'
        )
    return "".join([*parts, "</svg></div>"])


def _lanes(faults: list[dict[str, Any]]) -> list[int]:
    """For each fault the first lane that is free: with room for its name."""
    free: list[float] = []
    lanes = []
    end = max((each["at_s"] + each["for_s"] for each in faults), default=1.0)
    for each in faults:
        name_s = end * (len(_name(each)) * 6.2) / (WIDTH - LEFT - RIGHT)
        lane = next((n for n, at in enumerate(free) if at <= each["at_s"]), len(free))
        if lane == len(free):
            free.append(0.0)
        free[lane] = each["at_s"] + max(each["for_s"], name_s)
        lanes.append(lane)
    return lanes


def _name(fault: dict[str, Any]) -> str:
    return f"{fault['kind']} {' '.join(fault['targets']) if len(fault['targets']) < 3 else ''}"


def _bar(fault: dict[str, Any], x: Any, y: int, top: int, bottom: int) -> str:
    words = fault["kind"].split()
    color = next((COLORS[w] for w in reversed(words) if w in COLORS), COLORS["cut"])
    if fault["kind"] in ("remap", "churn"):
        color = COLORS["plan"]
    left, right = x(fault["at_s"]), x(fault["at_s"] + fault["for_s"])
    width = max(1.5, right - left)
    title = f"{_name(fault)}: {fault['for_s']} s from {fault['at_s']} s {fault['outcome']}"
    return (
        f"<g><title>{escape(title)}</title>"
        f'<rect x="{left:.1f}" y="{top + 8}" width="{width:.1f}" height="{bottom - top - 8}" '
        f'fill="{color}" opacity="0.10"/>'
        f'<rect x="{left:.1f}" y="{y - 10}" width="{width:.1f}" height="3" fill="{color}"/>'
        f'<text x="{left:.1f}" y="{y + 2}" style="font-size:9px">{escape(_name(fault))}</text></g>'
    )


def _panel(
    line: dict[str, Any], names: tuple[str, str], x: Any, top: float, label: str, *, is_log: bool
) -> str:
    """Two lines over time; the second one darker."""
    values = sorted(v for name in names for v in line[name] if v is not None)
    highest = max([1000.0, *values])
    if not is_log:  # what was held up comes all at once, and would flatten the rest
        highest = max(1.0, 1.3 * values[int(0.98 * (len(values) - 1))]) if values else 1.0

    def y(value: float) -> float:
        share = math.log10(max(value, 1.0)) / math.log10(highest) if is_log else value / highest
        share = min(share, 1.0)
        return float(top + PANEL * (1.0 - share))

    parts = [
        f'<text x="{LEFT}" y="{top - 6}">{escape(label)}: {names[0]} (light), {names[1]}</text>'
    ]
    ticks = [highest * share for share in (0.0, 0.5, 1.0)]
    if is_log:
        ticks = [10.0**power for power in range(7) if 10.0**power <= highest]
    for tick in ticks:
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" '
            'stroke="#ddd" stroke-width="0.7"/>'
            f'<text x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:,.0f}</text>'
        )
    for name, color in zip(names, ("#9bb7d4", "#1f4e79"), strict=True):
        parts.append(_line(line["second"], line[name], x, y, color))
    return "".join(parts)


def _line(seconds: list[int], values: list[float | None], x: Any, y: Any, color: str) -> str:
    """Interrupted where there is nothing for more than two seconds."""
    parts: list[str] = []
    last = -10
    for second, value in zip(seconds, values, strict=True):
        if value is None:
            continue
        parts.append(f"{'L' if second - last <= 2 else 'M'}{x(second):.1f},{y(value):.1f}")
        last = second
    return f'<path d="{"".join(parts)}" fill="none" stroke="{color}" stroke-width="1.1"/>'
