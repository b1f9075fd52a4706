"""``pubweave security``: certificates, users and rules for an overlay; what is open."""

from __future__ import annotations

import datetime
from pathlib import Path

import click

from pubweave.cli.errors import FAILED, BadInput, blaming
from pubweave.cli.kinds import COUNT, DIRECTORY, FILE
from pubweave.cli.options.target import run_dir_option
from pubweave.cli.output import json_option, print_json, progress_bar, remark
from pubweave.model.files.topology import read_topology
from pubweave.runtime.observe.security_check import check_directory, check_run, reload_run
from pubweave.runtime.security.directory import SecurityDirectory
from pubweave.runtime.security.setup import SecuritySetup, made_whole

_directory_argument = click.argument("directory", type=DIRECTORY)
_days_option = click.option(
    "--days", default=365, type=COUNT, help="How long certificates are valid."
)


@click.group()
def security() -> None:
    """Secure an overlay: certificates, users, rules; and see what is open.

    \b
    Example:
      pubweave security init secure --topology tree.json --user alice
      pubweave security add secure --user bob
      pubweave security revoke secure --user bob
      pubweave security reload
      pubweave security check secure
    """


@security.command()
@_directory_argument
@click.option("--topology", type=FILE, help="Certificates for all brokers of this topology file.")
@click.option("--broker", "brokers", multiple=True, help="A certificate for this broker, too.")
@click.option("--user", "users", multiple=True, help="A user besides 'operator'.")
@_days_option
@json_option
def init(
    directory: Path,
    topology: Path | None,
    brokers: tuple[str, ...],
    users: tuple[str, ...],
    days: int,
    as_json: bool,
) -> None:
    """Make DIRECTORY with all that a secured overlay needs.

    A certificate authority of its own, a certificate for each broker and user, a password for
    each user, rules (access.toml) by which users may do everything until you change them, and a
    login for ZooKeeper. Secrets are readable by you only.

    \b
    Example:
      pubweave security init secure --topology tree.json --user alice
      pubweave up tree.json --security secure
      pubweave sub "*" --user alice
    """
    named = list(brokers)
    if topology is not None:
        with blaming(str(topology)):
            named += sorted(read_topology(topology).brokers)
    if not named:
        raise BadInput("name the brokers: --topology FILE, or --broker ID for each")
    named = list(dict.fromkeys(named))
    with made_whole(directory) as scratch:
        setup = SecuritySetup(SecurityDirectory(scratch), datetime.datetime.now(datetime.UTC))
        steps = len(named) + len(users) + 1
        with progress_bar("making certificates", steps, shown=not as_json) as advance:
            for done, _ in enumerate(setup.create(named, users, days)):
                advance.to(done)
    if as_json:
        made = {"directory": str(directory), "brokers": named, "users": ["operator", *users]}
        print_json(made)
        return
    remark(f"made {directory}: an authority, {len(named)} brokers, {len(users) + 1} users")
    remark("next:")
    remark(f"  edit {directory}/access.toml: who may publish and subscribe to what")
    if topology is not None:
        remark(f"  pubweave up {topology} --security {directory}")
    else:
        remark(f"  pubweave broker --id {named[0]} --listen HOST:PORT --security {directory}")
    user = users[0] if users else "operator"
    remark(f"  pubweave sub '*' --security {directory} --user {user}")
    remark(f"  pubweave security check {directory}")
    remark(
        f"on other hosts: ca.crt, access.toml, passwords, brokers/ID.*; ca.key stays in {directory}"
    )


@security.command()
@_directory_argument
@click.option("--broker", "brokers", multiple=True, help="A certificate for one more broker.")
@click.option("--user", "users", multiple=True, help="A certificate and password for a user.")
@click.option("--ask-password", is_flag=True, help="Ask for the user's password; or it is random.")
@click.option("--scram", is_flag=True, help="MQTT 5 clients may prove it by SCRAM-SHA-256.")
@_days_option
def add(
    directory: Path,
    brokers: tuple[str, ...],
    users: tuple[str, ...],
    ask_password: bool,
    scram: bool,
    days: int,
) -> None:
    """Certify more brokers and users. A user also needs a table in access.toml.

    \b
    Example:
      pubweave security add secure --broker b21
      pubweave security add secure --user carol --ask-password
      pubweave security add secure --user sensor --scram
    """
    if not brokers and not users:
        raise BadInput("name a --broker or a --user")
    known = SecurityDirectory(directory)
    if not known.ca_key.exists():
        raise BadInput(f"{directory}: no authority is here; make it by 'pubweave security init'")
    setup = SecuritySetup(known, datetime.datetime.now(datetime.UTC))
    for broker in brokers:
        setup.add_broker(broker, days)
        remark(f"broker {broker}: {known.broker_files(broker).cert}")
    for user in users:
        password = None
        if ask_password:
            password = click.prompt(
                f"password of {user}", hide_input=True, confirmation_prompt=True, err=True
            )
        setup.add_user(user, days, password, is_scram=scram)
        remark(f"user {user}: {known.user_files(user).cert}")
        remark(f"give it rights: [users.{user}] in {known.access}; then {_RELOAD}")


_RELOAD = "'pubweave security reload' (elsewhere: kill -HUP of each broker)"


@security.command()
@_directory_argument
@click.option("--broker", "brokers", multiple=True, help="Revoke the certificate of this broker.")
@click.option("--user", "users", multiple=True, help="Revoke the certificate of this user.")
@click.option(
    "--certificate",
    "certificates",
    multiple=True,
    type=FILE,
    help="Revoke the certificate in this file.",
)
def revoke(
    directory: Path,
    brokers: tuple[str, ...],
    users: tuple[str, ...],
    certificates: tuple[Path, ...],
) -> None:
    """Put certificates on the list of those that do not count any more (revoked.crl).

    Brokers look at it when they start and when they are told to ('pubweave security reload');
    connections that stand with such a certificate end then. A user's password and rights stay:
    those are lines of DIRECTORY/passwords and access.toml.

    \b
    Example:
      pubweave security revoke secure --user bob
      pubweave security revoke secure --certificate stolen.crt
    """
    known = SecurityDirectory(directory)
    files = [known.broker_files(broker) for broker in brokers]
    files += [known.user_files(user) for user in users]
    paths = [*(Path(str(file.cert)) for file in files), *certificates]
    if not paths:
        raise BadInput("name a --broker, a --user or a --certificate")
    is_first = not known.crl.exists()
    SecuritySetup(known, datetime.datetime.now(datetime.UTC)).revoke(paths)
    for path in paths:
        remark(f"revoked {path}")
    if is_first:
        remark(f"{known.crl} is new: brokers that run already must be started again, once")
    else:
        remark(f"next: {_RELOAD}; on other hosts, copy {known.crl} first")


@security.command()
@run_dir_option
def reload(run_dir: Path) -> None:
    """Let the brokers of the overlay in --run-dir read their security files again.

    Certificates, revoked certificates, passwords and rules; not the limits. Clients whose user
    may not be there any more are told and let go, and so are single subscriptions. Files that
    cannot be used are refused here, before any broker is told. Brokers elsewhere do the same on
    SIGHUP, and say in their log what came of it.

    \b
    Example:
      pubweave security reload
    """
    remark(f"{reload_run(run_dir)} brokers read their security files again")


@security.command()
@click.argument("directory", required=False, type=DIRECTORY)
@run_dir_option
@json_option
@click.pass_context
def check(ctx: click.Context, directory: Path | None, run_dir: Path, as_json: bool) -> None:
    """Say what is open: in a security DIRECTORY, or in the overlay that runs in --run-dir.

    Exit code 1 if anything is. Certificates that expire within 30 days count as open. Users who
    may do everything are named, too.

    \b
    Example:
      pubweave security check secure
      pubweave security check
    """
    now = datetime.datetime.now(datetime.UTC)
    report = check_run(run_dir, now) if directory is None else check_directory(directory, now)
    if as_json:
        print_json(report.document())
    else:
        for line in report.lines():
            click.echo(line)
    ctx.exit(FAILED if report.findings else 0)
