"""What is open in a security directory or a running overlay: each finding with its remedy."""

from __future__ import annotations

import datetime
import os
import signal
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.entry_limits import EntryLimits
from pubweave.model.files.access import AccessFileError
from pubweave.model.filters.filter import Filter
from pubweave.model.filters.relations import covers
from pubweave.model.records.access import EVERYBODY, AccessRules
from pubweave.runtime.net.addresses import Address, is_loopback
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.net.tls import TlsFiles, server_context
from pubweave.runtime.overlay.run_directory import ZOOKEEPER_AUTH_FILE, read_live_state
from pubweave.runtime.security.broker_files import BrokerSecurity, read_revoked, secured
from pubweave.runtime.security.certificates import facts_of
from pubweave.runtime.security.directory import SecurityDirectory, is_private
from pubweave.runtime.security.passwords import read_passwords

EXPIRY_WARNING = datetime.timedelta(days=30)


@dataclass(frozen=True)
class CheckReport:
    """What is open, and the limits that hold."""

    subject: str
    findings: tuple[str, ...]
    entry: EntryLimits = field(default_factory=EntryLimits)
    unlimited: tuple[str, ...] = ()
    """Users who may do everything: somebody has to, but an operator should know who."""

    def document(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "open": list(self.findings),
            "may_do_everything": list(self.unlimited),
            "limits": asdict(self.entry),
        }

    def lines(self) -> Iterator[str]:
        """What is open, what is as the rules say and yet worth a look, and the limits."""
        yield from (f"open: {finding}" for finding in self.findings)
        for user in self.unlimited:
            yield (
                f"note: user {user} may do everything: operate, and publish and subscribe to all "
                "there is; whoever has its key or password has the overlay"
            )
        told = ", ".join(f"{name} {value:,}" for name, value in asdict(self.entry).items())
        yield f"limits: {told}"
        yield f"{len(self.findings)} open" if self.findings else "nothing is open"


def check_directory(path: Path, now: datetime.datetime) -> CheckReport:
    """A security directory; OverlayError if it is none."""
    directory = SecurityDirectory(path)
    if not directory.ca.exists():
        raise OverlayError(f"{path}: no ca.crt: make one with 'pubweave security init {path}'")
    findings = [*_files(directory), *_certificates(directory, now)]
    entry = EntryLimits()
    unlimited: tuple[str, ...] = ()
    try:
        files = TlsFiles(str(directory.ca))
        config = secured(BrokerConfig("check"), BrokerSecurity(files, None, str(directory.access)))
    except (OverlayError, AccessFileError) as error:
        findings.append(f"{error}: without rules every user may do everything")
    else:
        entry = config.entry
        if config.access is not None:
            findings += _rules(config.access, directory)
            unlimited = tuple(_unlimited(config.access))
    return CheckReport(str(path), tuple(findings), entry, unlimited)


def _unlimited(rules: AccessRules) -> Iterator[str]:
    """Users whose rights, with those of everybody, leave nothing out."""
    for user in sorted(rules.users.keys() - {EVERYBODY}):
        rights = rules.of(user)
        if rights is not None and rights.operate:
            kinds = rights.publish, rights.subscribe
            if all(any(covers(right, Filter()) for right in kind) for kind in kinds):
                yield user


def _files(directory: SecurityDirectory) -> Iterator[str]:
    for path in sorted(directory.path.rglob("*")):
        is_secret = path.suffix != ".crt" and path != directory.access
        if path.is_file() and is_secret and not is_private(path):
            yield f"{path} can be read by others: chmod 600 it"
    if directory.access.exists() and directory.access.stat().st_mode & 0o022:
        yield f"{directory.access} can be changed by others: chmod 644 it"


def _certificates(directory: SecurityDirectory, now: datetime.datetime) -> Iterator[str]:
    for path in sorted(directory.path.rglob("*.crt")):
        try:
            facts = facts_of(path)
        except OverlayError as error:
            yield f"{error}"
            continue
        if facts.expires_at < now:
            yield f"{path} expired on {facts.expires_at:%Y-%m-%d}: {_RENEW}"
        elif facts.expires_at < now + EXPIRY_WARNING:
            yield f"{path} expires on {facts.expires_at:%Y-%m-%d}: {_RENEW}"
        if path != directory.ca and facts.owner is None:
            yield f"{path} names no broker and no user: it proves nothing"


_RENEW = "remove it with its key, and make another with 'pubweave security add'"


def _rules(rules: AccessRules, directory: SecurityDirectory) -> Iterator[str]:
    if rules.anonymous:
        yield f"{directory.access}: anonymous clients are let in: set anonymous = false"
    try:
        users = read_passwords(directory.passwords) if directory.passwords.exists() else {}
    except OverlayError as error:
        yield f"{error}"
        return
    for user in sorted(users.keys() - rules.users.keys()):
        yield f"{directory.passwords}: user {user} has a password and no rules: remove the line"


def check_run(run_dir: Path, now: datetime.datetime) -> CheckReport:
    """The overlay in a run directory, as its state file tells."""
    state = read_live_state(run_dir)
    found: list[str] = []
    entry = EntryLimits()
    unlimited: tuple[str, ...] = ()
    addresses = {b: Address.parse(known.address) for b, known in state.brokers.items()}
    reachable = [b for b, address in addresses.items() if not is_loopback(address.host)]
    if state.security is None:
        for broker in reachable:
            found.append(
                f"broker {broker} at {addresses[broker]} can be reached from other machines "
                "without TLS: start the overlay with --security"
            )
        found.append(
            "anonymous clients are let in, and may do everything: start the overlay with --security"
        )
    else:
        inner = check_directory(Path(state.security), now)
        found += inner.findings
        entry, unlimited = inner.entry, inner.unlimited
    own_login = run_dir / ZOOKEEPER_AUTH_FILE
    if state.zookeeper is not None:
        has_login = own_login.exists() or (
            state.security is not None
            and SecurityDirectory(Path(state.security)).zookeeper_auth.exists()
        )
        if not has_login:
            found.append(
                f"ZooKeeper at {state.zookeeper} may be used without a login: give one with "
                "--zookeeper-auth-file"
            )
    if own_login.exists() and not is_private(own_login):
        found.append(f"{own_login} can be read by others: chmod 600 it")
    return CheckReport(str(run_dir), tuple(found), entry, unlimited)


def reload_run(run_dir: Path) -> int:
    """How many brokers were told. OverlayError if there is nothing to read again, or
    it cannot be used: then nobody was told."""
    state = read_live_state(run_dir)
    if state.security is None:
        raise OverlayError(f"the overlay in {run_dir} is open: it has no security files")
    directory = SecurityDirectory(Path(state.security))
    running = {name: known.pid for name, known in state.brokers.items() if known.pid is not None}
    if state.pid in running.values():
        raise OverlayError("brokers of 'up --in-process' cannot be told: start the overlay again")
    for broker in sorted(running):
        check_files(broker, directory.broker_security(broker))
    told = 0
    for pid in running.values():
        try:
            os.kill(pid, signal.SIGHUP)
        except ProcessLookupError:
            continue  # it has just died, and reads them when it is started again
        told += 1
    return told


def check_files(broker: str, security: BrokerSecurity) -> None:
    """OverlayError if one of the files cannot be used."""
    secured(BrokerConfig(broker), security)
    server_context(security.tls)
    read_revoked(security.tls)
    if security.passwords is not None:
        read_passwords(Path(security.passwords))
