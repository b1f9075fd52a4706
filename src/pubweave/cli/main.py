"""``pubweave``: the one command, with a verb for each thing one can do.

A verb's module is imported when the verb is used: ``pubweave --help`` needs none of them. What a
verb raises is turned into a message and an exit code in `errors`, and only there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from typing import NamedTuple, NoReturn

import click

from pubweave.cli.errors import exit_code_for


class Verb(NamedTuple):
    """Where a verb is defined, and what the overview says of it."""

    module: str
    attribute: str
    summary: str


VERBS = {
    "up": Verb("pubweave.cli.run.up", "up", "Start an overlay of brokers on this machine."),
    "broker": Verb("pubweave.cli.run.broker", "broker", "Start a single broker on its own host."),
    "config": Verb("pubweave.cli.run.config", "config", "Check, show and explain settings."),
    "status": Verb("pubweave.cli.run.status", "status", "Show brokers, links, tables and rates."),
    "pub": Verb("pubweave.cli.run.pub", "pub", "Publish from the command line."),
    "sub": Verb("pubweave.cli.run.sub", "sub", "Subscribe and print what comes."),
    "security": Verb(
        "pubweave.cli.security.security", "security", "Certificates, users; what is open."
    ),
    "demo": Verb("pubweave.cli.lab.demo", "demo", "An overlay that improves itself, with proof."),
    "topology": Verb(
        "pubweave.cli.design.topology", "topology", "Make, change and show topologies."
    ),
    "cost": Verb("pubweave.cli.design.cost", "cost", "What a tree costs for measured traffic."),
    "design": Verb("pubweave.cli.design.design", "design", "A cheaper tree for measured traffic."),
    "relocate": Verb(
        "pubweave.cli.relocate.relocate", "relocate", "Publishers to where they cost least."
    ),
    "remap": Verb("pubweave.cli.deploy.remap", "remap", "Brokers of a ring to other positions."),
    "tco": Verb("pubweave.cli.tco.tco", "tco", "Topic-connected overlays: build, churn, verify."),
    "plan": Verb(
        "pubweave.cli.deploy.plan", "plan", "Plan from one topology to another; judge plans."
    ),
    "apply": Verb("pubweave.cli.deploy.apply", "apply", "Walk a running overlay through a plan."),
    "dashboard": Verb(
        "pubweave.cli.autopilot.dashboard", "dashboard", "A live page over an overlay."
    ),
    "autopilot": Verb(
        "pubweave.cli.autopilot.autopilot", "autopilot", "Change an overlay when it pays."
    ),
    "decisions": Verb(
        "pubweave.cli.autopilot.decisions", "decisions", "What the autopilot decided; review."
    ),
    "whatif": Verb("pubweave.cli.design.whatif", "whatif", "Recorded traffic on two overlays."),
    "simulate": Verb("pubweave.cli.lab.simulate", "simulate", "Run scenarios in virtual time."),
    "profile": Verb("pubweave.cli.data.profile", "profile", "Telemetry into a workload profile."),
    "import": Verb(
        "pubweave.cli.data.import_data", "import_data", "Data of other systems as a run."
    ),
    "report": Verb("pubweave.cli.data.report", "report", "A profile as one page with pictures."),
    "reproduce": Verb(
        "pubweave.cli.lab.reproduce", "reproduce", "The papers' figures beside ours."
    ),
}


class Verbs(click.Group):
    """A group whose commands are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        verb = VERBS.get(cmd_name)
        if verb is None:
            return None
        command = getattr(import_module(verb.module), verb.attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            ctx.fail(f"no such command {args[0]!r}; there are {', '.join(VERBS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.summary) for name, verb in VERBS.items()])


def _print_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        click.echo(f"pubweave {version('pubweave')}")
        ctx.exit()


@click.command(
    cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "show_default": True}
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """A self-optimizing publish/subscribe overlay.

    \b
    Example:
      pubweave topology generate hierarchical -n 5 -o tree.json
      pubweave up tree.json
      pubweave sub "class = 'STOCK' and volume > 1000"     (elsewhere)
      pubweave pub STOCK --attr volume=2000 --payload hello
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        result = cli.main(
            None if arguments is None else list(arguments),
            prog_name="pubweave",
            standalone_mode=False,
        )
    except BaseException as error:
        return exit_code_for(error)
    # click hands back the code of ctx.exit(), or else whatever the command returned.
    return result if type(result) is int else 0


def main() -> NoReturn:
    """The entry point."""
    sys.exit(run())
