"""Telling the brokers of a run on this machine to read their security files again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from pubweave.cli.errors import BadInput
from pubweave.core.config.broker import BrokerConfig
from pubweave.runtime.net.tls import server_context
from pubweave.runtime.overlay.run_directory import read_live_state
from pubweave.runtime.security.broker_files import BrokerSecurity, read_revoked, secured
from pubweave.runtime.security.directory import SecurityDirectory
from pubweave.runtime.security.passwords import read_passwords


def reload_run(run_dir: Path) -> int:
    """How many brokers were told. BadInput or OverlayError if there is nothing to read again, or
    it cannot be used: then nobody was told."""
    state = read_live_state(run_dir)
    if state.security is None:
        raise BadInput(f"the overlay in {run_dir} is open: it has no security files")
    directory = SecurityDirectory(Path(state.security))
    running = {name: known.pid for name, known in state.brokers.items() if known.pid is not None}
    if state.pid in running.values():
        raise BadInput("brokers of 'up --in-process' cannot be told: start the overlay again")
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
