"""``pubweave report``: a profile as one self-contained HTML page."""

from __future__ import annotations

from pathlib import Path

import click

from pubweave.cli.kinds import DIRECTORY, FILE
from pubweave.cli.output import json_option, tell
from pubweave.model.files.atomic import replace_file
from pubweave.model.files.profile import WorkloadProfile
from pubweave.plots.report import profile_page

PAGE_NAME = "report.html"


@click.command()
@click.argument("profile_dir", type=DIRECTORY)
@click.option(
    "-o", "--output", type=FILE, help=f"The page; default {PAGE_NAME} in the profile's directory."
)
@json_option
def report(profile_dir: Path, output: Path | None, as_json: bool) -> None:
    """Draw the profile in PROFILE_DIR as one HTML page that needs nothing else.

    \b
    Example:
      pubweave report profile
      pubweave report profile -o today.html
    """
    profile = WorkloadProfile(profile_dir)
    target = output or profile_dir / PAGE_NAME
    replace_file(target, profile_page(profile).encode())
    tell({"page": str(target)}, as_json, lambda: click.echo(f"wrote {target}"))
