"""Settings of mosquitto's configuration files as settings of a broker of pubweave.

Where a script asks for passwords, rights or that nobody comes in without a name, the broker gets
certificates, rules and hashed passwords as `pubweave security init` makes them. It takes passwords
over TLS only, so a script's connections to it are wrapped. Names that nobody has to prove are
nobody's: rights of users without passwords are those of anonymous clients. A second listener is a
second port that leads to the first.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pubweave.core.mqtt.protocol.topics import filters_of
from pubweave.model.filters.text import format_filter
from pubweave.model.records.access import ANONYMOUS
from pubweave.runtime.security.directory import SecurityDirectory
from pubweave.runtime.security.passwords import HashedPassword

SECURE = "PUBWEAVE_SUITE_SECURE"
"""Names a directory of `pubweave security init` with a broker b1."""
RELOAD_S = 2.0
Settings = dict[str, list[str]]
"""By name: the values of each line with it."""
_NUMBERS = {
    "max_inflight_messages": "receive_max",
    "max_packet_size": "max_packet_bytes",
    "max_keepalive": "keep_alive_max_s",
    "message_size_limit": "max_payload_bytes",
    "max_queued_messages": "queue_messages",
    "max_queued_bytes": "queue_bytes",
    "maximum_qos": "qos_max",
}
_SWITCHES = {
    "allow_zero_length_clientid": "assigns_client_ids",
    "retain_available": "retains",
    "upgrade_outgoing_qos": "upgrades_qos",
}
_OURS = _NUMBERS | _SWITCHES
_TRANSLATED = {"port", "listener", "allow_anonymous", "password_file", "acl_file", "persistence"}
# What is under way is within our bound for what waits. Retained messages are always looked at.
_NOT_NEEDED = {"max_inflight_bytes", "check_retain_source", "persistence_file", "log_type"}
_NOT_NEEDED |= {"per_listener_settings", "autosave_interval", "connection_messages"}
_PASSWORDS = ("password",)
"""Those that the suite's files have hashes of."""
_forwarded: dict[int, int] = {}
_secured: set[int] = set()


def read_settings(config: str) -> Settings:
    """What a configuration file says; nothing if there is none."""
    found: Settings = {}
    lines = Path(config).read_text().splitlines() if config and Path(config).exists() else []
    for line in lines:
        name, _, value = line.strip().partition(" ")
        if name:
            found.setdefault(name, []).append(value.strip())
    return found


def strange(settings: Settings) -> list[str]:
    """Settings that only mosquitto has."""
    return sorted(settings.keys() - _TRANSLATED - _NOT_NEEDED - _OURS.keys())


def start(port: int, settings: Settings) -> subprocess.Popen[bytes]:
    """A broker with such settings, at the port and behind the other listeners."""
    command = [sys.executable, "-m", "pubweave", "broker", "--id", "b1"]
    command += ["--listen", "127.0.0.1:0", "--mqtt", f"127.0.0.1:{port}"]
    command += _journal(port, settings) + _door(port, settings)
    ports = {int(words.split()[0]) for words in settings.get("listener", [])} | {port}
    write_rules: Callable[[], None] | None = None
    if _needs_rules(settings):
        files = SecurityDirectory(Path(os.environ[SECURE])).broker_files("b1")
        rules, passwords = (Path(f"pubweave-{port}-{name}").absolute() for name in ("rules", "pw"))

        def write_rules() -> None:
            users = _users(settings, passwords)
            rules.write_text(_rules(settings, users))

        write_rules()
        named = {"ca": files.ca, "cert": files.cert, "key": files.key}
        named |= {"access": str(rules), "passwords": str(passwords)}
        for key, file in named.items():
            command += ["--set", f"broker.security.{key}={file}"]
        _secured.update(ports)
    else:
        _secured.difference_update(ports)
    for other in ports - {port}:
        _forward(other, port)
    broker = Broker(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    broker.write_rules = write_rules
    return broker


class Broker(subprocess.Popen[bytes]):
    """A process whose rules are written anew from the script's before it is told to read them."""

    write_rules: Callable[[], None] | None = None

    def send_signal(self, sig: int) -> None:
        is_reload = sig == 1 and self.write_rules is not None
        if is_reload and self.write_rules is not None:
            self.write_rules()
        super().send_signal(sig)
        if is_reload:
            time.sleep(RELOAD_S)  # mosquitto looks at signals before it lets the next client in


def _journal(port: int, settings: Settings) -> list[str]:
    if settings.get("persistence") != ["true"]:
        return []
    scratch = Path(f"pubweave-{port}").absolute()
    # A script that wants to begin anew removes the file in which mosquitto would have it.
    file = Path(settings.get("persistence_file", [f"mosquitto-{port}.db"])[0])
    if not file.exists():
        shutil.rmtree(scratch, ignore_errors=True)
    file.touch()
    return ["--durability", "journal", "--journal-dir", str(scratch)]


def _door(port: int, settings: Settings) -> list[str]:
    given = [f"{_OURS[name]} = {settings[name][0]}" for name in settings if name in _OURS]
    if not given:
        return []
    config = Path(f"pubweave-{port}.toml").absolute()
    config.write_text("\n".join(["[broker.mqtt]", *given, ""]))
    return ["--config", str(config)]


# --- who gets in -----------------------------------------------------------------------------


def _needs_rules(settings: Settings) -> bool:
    """Mosquitto lets everybody in who comes to a listener of its own making, or if it is told."""
    is_open = not settings.keys() & {"port", "listener"} or _lets_anonymous_in(settings)
    return not is_open or bool(settings.keys() & {"password_file", "acl_file"})


def _lets_anonymous_in(settings: Settings) -> bool:
    return "true" in settings.get("allow_anonymous", [])


def _users(settings: Settings, passwords: Path) -> list[str]:
    """The users of a file of passwords, which is written as ours."""
    lines, users = [], []
    for file in settings.get("password_file", []):
        for line in Path(file).read_text().split():
            user, _, hashed = line.partition(":")
            users.append(user)
            lines.append(HashedPassword.of(known_password(hashed)).line(user))
    passwords.write_text("".join(f"{line}\n" for line in lines))
    return users


def known_password(hashed: str) -> str:
    """The password that mosquitto has hashed so; StopIteration: none that is known here."""
    _, scheme, salt, digest = hashed.split("$")
    assert scheme == "6", "SHA-512, once"
    wanted = base64.b64decode(digest)
    salted = base64.b64decode(salt)
    return next(p for p in _PASSWORDS if hashlib.sha512(p.encode() + salted).digest() == wanted)


def _rules(settings: Settings, users: list[str]) -> str:
    """Rules as `access.toml` has them."""
    is_anonymous = _lets_anonymous_in(settings)
    names = [*users, *([ANONYMOUS] if is_anonymous else [])]
    lines = [f"anonymous = {str(is_anonymous).lower()}"]
    rights: dict[str, tuple[list[str], list[str]]] = {name: (["*"], ["*"]) for name in names}
    for file in settings.get("acl_file", []):
        rights = {name: ([], []) for name in names}
        _read_rights(Path(file).read_text(), rights)
    for name, (publish, subscribe) in rights.items():
        lines += ["", f'[users."{name}"]', f"publish = {publish}", f"subscribe = {subscribe}"]
    return "\n".join([*lines, ""])


def _read_rights(text: str, rights: dict[str, tuple[list[str], list[str]]]) -> None:
    """``topic [read|write|readwrite] PATTERN`` behind ``user NAME``, as mosquitto has them."""
    user = ANONYMOUS
    for line in text.splitlines():
        match line.split():
            case ["user", name]:
                user = name if name in rights else ANONYMOUS
            case ["topic", *access, pattern]:
                wanted = [format_filter(one) for one in filters_of(pattern)]
                for place, word in enumerate(("write", "read")):
                    if not access or word in access[0]:
                        rights[user][place].extend(wanted)


def wrapped(sock: socket.socket, port: int) -> socket.socket:
    """A connection as the broker at a port wants it."""
    if port not in _secured:
        return sock
    directory = SecurityDirectory(Path(os.environ[SECURE]))
    context = ssl.create_default_context(cafile=str(directory.ca))
    context.check_hostname = False
    return context.wrap_socket(sock)


# --- further listeners -----------------------------------------------------------------------


def _forward(port: int, to: int) -> None:
    """Whoever comes to a port is connected with the broker at another, from here on."""
    is_new = port not in _forwarded
    _forwarded[port] = to
    if not is_new:
        return
    listening = socket.create_server(("127.0.0.1", port))

    def accept() -> None:
        while True:
            near, _ = listening.accept()
            try:
                far = socket.create_connection(("127.0.0.1", _forwarded[port]))
            except OSError:
                near.close()
                continue
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=_carry, args=(one, other), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


def _carry(one: socket.socket, other: socket.socket) -> None:
    try:
        while data := one.recv(1 << 16):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
    except OSError:
        one.close()
        other.close()
