"""SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side: a password is proven and never sent.

What is kept of a password can check a proof, but cannot make one. Without channel binding: whoever
speaks this here does so over TLS. Texts are normalized by NFKC, which is what SASLprep (RFC 4013)
does to passwords that people type; letters that it forbids are not looked for.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import unicodedata
from collections.abc import Callable
from typing import NamedTuple

METHOD = "SCRAM-SHA-256"
SCHEME = "scram-sha-256"
"""How a file of passwords names it."""
ITERATIONS = 60_000
"""A client pays for them at each login: 20 ms of a server's processor, seconds of a small one."""
ITERATIONS_MIN = 4096
"""RFC 7677, 4."""
MESSAGE_BYTES_MAX = 1024
_KEY_BYTES = 32


class ScramError(ValueError):
    """A message that proves nothing."""


class ScramKeys(NamedTuple):
    """A password as it is kept (RFC 5802, 3)."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @classmethod
    def of(
        cls, password: str, iterations: int = ITERATIONS, salt: bytes | None = None
    ) -> ScramKeys:
        """Takes long on purpose. O(iterations)."""
        salt = secrets.token_bytes(16) if salt is None else salt
        salted = hashlib.pbkdf2_hmac("sha256", _normalized(password), salt, iterations)
        stored_key = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
        return cls(iterations, salt, stored_key, hmac.digest(salted, b"Server Key", "sha256"))

    def matches(self, password: str) -> bool:
        """Whether it is that password, where one was sent after all."""
        found = ScramKeys.of(password, self.iterations, self.salt)
        return hmac.compare_digest(found.stored_key, self.stored_key)

    def line(self, user: str) -> str:
        parts = (base64.b64encode(part).decode() for part in self[1:])
        return ":".join((user, SCHEME, str(self.iterations), *parts))

    @classmethod
    def parse(cls, fields: list[str]) -> ScramKeys:
        """What stands behind the scheme in a line; ValueError if it is nothing of the kind."""
        iterations, *parts = fields
        salt, stored_key, server_key = (base64.b64decode(part, validate=True) for part in parts)
        if int(iterations) < ITERATIONS_MIN or len(stored_key) != _KEY_BYTES:
            raise ValueError("no keys of SCRAM-SHA-256")
        return cls(int(iterations), salt, stored_key, server_key)


class ScramExchange:
    """One proof: the client's first message, ours, its final one, ours."""

    def __init__(self, keys_of: Callable[[str], ScramKeys], nonce: str = "") -> None:
        """``keys_of`` knows keys for every name, for unknown ones such as fit no password: names
        cannot be tried out. ``nonce`` is random unless a test gives it."""
        self.user = ""
        """Whom the client wants to be; it is nobody before `final` has returned."""
        self._keys_of = keys_of
        self._nonce = nonce or secrets.token_urlsafe(18)
        self._header = ""
        self._said = ""
        """The client's first message without its header, and our answer."""

    def first(self, message: bytes) -> bytes:
        """The answer to the client's first message; ScramError if it is none."""
        flag, identity, bare = _parts(_text(message), 2)
        if flag not in ("n", "y") or identity:
            raise ScramError("neither channel binding nor another's identity is spoken here")
        name, nonce = _fields(bare, "n", "r")
        self.user = _name(name)
        self._header = f"{flag},,"
        self._nonce = nonce + self._nonce
        keys = self._keys_of(self.user)
        salt = base64.b64encode(keys.salt).decode()
        answer = f"r={self._nonce},s={salt},i={keys.iterations}"
        self._said = f"{bare},{answer}"
        return answer.encode()

    def final(self, message: bytes) -> bytes:
        """Our proof, in answer to the client's; ScramError: it does not know the password."""
        if not self._said:
            raise ScramError("the exchange has not begun")
        text, _, proof = _text(message).rpartition(",p=")
        header, nonce = _fields(text, "c", "r")
        if _decoded(header) != self._header.encode() or nonce != self._nonce:
            raise ScramError("an answer to something else")
        keys = self._keys_of(self.user)
        signed = f"{self._said},{text}".encode()
        signature = hmac.digest(keys.stored_key, signed, "sha256")
        client_key = bytes(a ^ b for a, b in zip(_decoded(proof), signature, strict=False))
        if not hmac.compare_digest(hashlib.sha256(client_key).digest(), keys.stored_key):
            raise ScramError("wrong user or password")
        return b"v=" + base64.b64encode(hmac.digest(keys.server_key, signed, "sha256"))


def _text(message: bytes) -> str:
    if len(message) > MESSAGE_BYTES_MAX:
        raise ScramError("too long a message")
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise ScramError("no text") from error


def _parts(text: str, commas: int) -> list[str]:
    parts = text.split(",", commas)
    if len(parts) != commas + 1:
        raise ScramError("too short a message")
    return parts


def _fields(text: str, *names: str) -> list[str]:
    """The values of the first fields, which have to be these; what follows them is not looked at
    (RFC 5802, 5.1: extensions that are not mandatory)."""
    found = [part.partition("=") for part in text.split(",")][: len(names)]
    if [name for name, _, _ in found] != list(names) or not all(value for _, _, value in found):
        raise ScramError(f"no message with {' and '.join(names)}")
    return [value for _, _, value in found]


def _name(escaped: str) -> str:
    """
    >>> _name("a=2Cb=3D")
    'a,b='
    """
    if "=" in escaped.replace("=2C", "").replace("=3D", ""):
        raise ScramError("a name with '=' in it")
    return _normalized(escaped.replace("=2C", ",").replace("=3D", "=")).decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ScramError("no base64") from error


def _normalized(text: str) -> bytes:
    return unicodedata.normalize("NFKC", text).encode()
