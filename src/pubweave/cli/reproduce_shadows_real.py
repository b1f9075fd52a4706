"""``pubweave reproduce shadows-real``: overlays for Twitter, Last.fm and Facebook subscriptions."""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path
from typing import Any

import click

from pubweave.cli.errors import blaming
from pubweave.cli.output import json_option, output_console, print_json, progress_bar, remark

KINDS = ("twitter", "lastfm", "facebook")


@click.command("shadows-real")
@click.option(
    "--data",
    required=True,
    envvar="PUBWEAVE_DATA",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="The folder with subscriptions/. [or PUBWEAVE_DATA]",
)
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="[default: all]")
@click.option("--rounds", default=400, show_default=True, type=click.IntRange(min=2))
@click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0))
@click.option(
    "--out",
    default="runs/shadows-real",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for the numbers.",
)
@json_option
def figure(
    data: Path, kinds: tuple[str, ...], rounds: int, seed: int, out: Path, as_json: bool
) -> None:
    """Overlays from scratch and under churn for subscriptions of real people.

    \b
    Example:
      pubweave reproduce shadows-real --data ../shared/data --kind lastfm
    """
    from pubweave.experiments.shadows.real import run_real

    out.mkdir(parents=True, exist_ok=True)
    documents = []
    wanted = kinds or KINDS
    with progress_bar("data sets", len(wanted), shown=not as_json) as bar:
        for number, kind in enumerate(wanted, 1):
            with blaming("--data"):
                run = run_real(kind, data, rounds, seed, time.perf_counter)
            documents.append(_document(run))
            bar.to(number)
    (out / "shadows-real.json").write_text(json.dumps(documents, indent=1) + "\n")
    if as_json:
        print_json({"data": documents, "output": str(out)})
        return
    for document in documents:
        _print(document)
    remark(f"wrote {out / 'shadows-real.json'}")


def _document(run: Any) -> dict[str, Any]:
    churn = {}
    for variant, records in run.rounds.items():
        kinds = {}
        for kind in ("join", "leave"):
            own = [record for record in records if record.kind == kind]
            kinds[kind] = {
                name: round(statistics.fmean(getattr(each, name) for each in own), 3)
                for name in ("changed", "repair_ms", "backups_ms", "tidy_ms", "shadow_size")
            }
        verified = [record for record in records if record.is_verified]
        churn[variant] = {
            **kinds,
            "verified_rounds": len(verified),
            "is_connected": all(record.gap is None for record in verified),
            **run.afresh[variant],
        }
    return {
        "kind": run.kind,
        "nodes": run.wanted.node_count,
        "topics": run.wanted.topic_count,
        "subscriptions": run.wanted.size,
        "built": run.built,
        "churn": churn,
    }


def _print(document: dict[str, Any]) -> None:
    from rich.table import Table

    title = (
        f"{document['kind']}: {document['nodes']:,} nodes, {document['topics']:,} topics, "
        f"{document['subscriptions']:,} subscriptions"
    )
    table = Table(title=title)
    for heading in ("overlay", "links", "average", "maximum", "connected", "s"):
        table.add_column(heading)
    rows = [(f"{mode}, from scratch", built) for mode, built in document["built"].items()]
    for variant, after in document["churn"].items():
        rows.append((f"{variant}, after churn", after["kept"]))
        rows.append(("  low-oda on the same nodes", after["low-oda"]))
    for name, row in rows:
        table.add_row(
            name,
            f"{row['links']:,}",
            f"{row['average_degree']:.2f}",
            str(row["max_degree"]),
            "yes" if row["is_connected"] else "NO",
            f"{row['seconds']:.2f}" if row["seconds"] else "",
        )
    output_console().print(table)
    for variant, after in document["churn"].items():
        for kind in ("join", "leave"):
            means = after[kind]
            click.echo(
                f"{variant}, {kind}: {means['changed']:.1f} links changed, repair "
                f"{means['repair_ms']:.2f} ms, backups {means['backups_ms']:.2f} ms, tidying "
                f"{means['tidy_ms']:.2f} ms"
            )
