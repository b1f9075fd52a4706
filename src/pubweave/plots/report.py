"""A profile as one self-contained HTML page."""

from __future__ import annotations

from html import escape
from typing import Any

from pubweave.model.files.profile import WorkloadProfile
from pubweave.plots import report_charts as pictures
from pubweave.plots.profile_summary import summary_lines

WORST_SHOWN = 12
_CSS = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2933; margin: 2rem auto; max-width: 62rem;
  padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .4rem; }
p.about, figcaption { color: #5c677d; margin: .2rem 0 .8rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid #e4e7eb;
  vertical-align: top; } td.number, th.number { text-align: right; }
table.facts td:first-child { white-space: nowrap; font-weight: 600; }
figure { margin: 0; } svg { width: 100%; height: auto; }
"""


def profile_page(profile: WorkloadProfile) -> str:
    """The profile in words and pictures, as a page that needs nothing else."""
    about = profile.description
    title = f"Workload profile of {about.run}"
    facts = "".join(
        f"<tr><td>{escape(label)}</td><td>{escape(text)}</td></tr>"
        for label, text in summary_lines(profile)
    )
    parts = [
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_CSS}</style></head><body><h1>{escape(title)}</h1>",
        f'<p class="about">{escape(about.source)} · Spark {escape(about.spark_version)} on '
        f"{escape(about.master)}</p><table class='facts'>{facts}</table>",
        *_figures(profile),
        "<h2>Dearest delivery trees</h2>",
        _tree_table(profile),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _figures(profile: WorkloadProfile) -> list[str]:
    wanted = (
        ("Traffic by topic", pictures.traffic_by_topic,
         f"Publication rate per slot; the {pictures.TOPICS_SHOWN} busiest topics by name."),
        ("Common interest", pictures.interest_heat_map,
         "Notifications that two brokers' clients both published or consumed; white: none. "
         f"The {pictures.BROKERS_SHOWN} brokers with most interest."),
        ("Delivery latency", pictures.latency_over_time,
         "By the slot of publishing. Grey: a transformation was under way; crosses: publications "
         "it affected."),
        ("Load per broker", pictures.load_per_broker,
         f"Mean over the window; the {pictures.BROKERS_SHOWN} busiest brokers."),
        ("Links by cost and traffic", pictures.links_by_cost_and_traffic,
         "Top right: much traffic over a dear link. The worst by the product are named."),
        ("Worst delivery trees", pictures.worst_delivery_trees,
         "Red: the publishers' broker. Filled: has receivers; hollow: only relays."),
    )  # fmt: skip
    figures = []
    for title, draw, caption in wanted:
        svg = pictures.drawn(draw, profile)
        body = "<p>Nothing was recorded.</p>" if svg is None else svg
        figures.append(
            f"<h2>{escape(title)}</h2><figure>{body}<figcaption>{escape(caption)}</figcaption>"
            "</figure>"
        )
    return figures


def _tree_table(profile: WorkloadProfile) -> str:
    rows = sorted(profile.rows("delivery_trees"), key=lambda row: -row["weight"] * row["cost_ms"])
    columns: tuple[tuple[str, str], ...] = (
        ("topic", "topic"), ("broker", "from"), ("publications", "publications"),
        ("brokers", "brokers"), ("receivers", "receivers"), ("relays", "relays"),
        ("cost_ms", "ms each"), ("delay_ms", "delay, ms"),
    )  # fmt: skip
    head = "".join(f'<th class="{_kind(rows, name)}">{label}</th>' for name, label in columns)
    body = "".join(
        "<tr>" + "".join(_cell(row[name]) for name, _ in columns) + "</tr>"
        for row in rows[:WORST_SHOWN]
    )
    left = len(rows) - WORST_SHOWN
    more = f'<p class="about">and {left:,} more</p>' if left > 0 else ""
    return f"<table><tr>{head}</tr>{body}</table>{more}"


def _kind(rows: list[dict[str, Any]], name: str) -> str:
    return "number" if rows and not isinstance(rows[0][name], str) else "text"


def _cell(value: object) -> str:
    if isinstance(value, str):
        return f"<td>{escape(value)}</td>"
    text = f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
    return f'<td class="number">{text}</td>'
