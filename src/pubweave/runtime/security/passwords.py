"""Passwords of users: hashed in a file, verified in a thread of their own.

The file has one line per user, ``name:scrypt:n:r:p:salt:hash`` (salt and hash in base64). scrypt
takes some 50 ms and 16 MB by design; one thread with low priority does it, so a flood of logins
makes logins slow and nothing else. What was verified lately is remembered as a keyed hash, so
that a thousand clients of one user that reconnect cost one scrypt. A user who is to prove a
password without sending it has keys of SCRAM in the place of that (`scram`):
``name:scram-sha-256:iterations:salt:stored key:server key``.
"""

from __future__ import annotations

import base64
import concurrent.futures
import contextlib
import hashlib
import hmac
import os
import secrets
import threading
import time
from pathlib import Path
from typing import NamedTuple

from pubweave.model.records.access import validate_user_name
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.security.scram import ITERATIONS, SCHEME, ScramKeys

COST_N, COST_R, COST_P = 2**14, 8, 1
MEMORY_BYTES_MAX = 64 << 20
SALT_BYTES = 16
PASSWORD_BYTES_MAX = 1024
REMEMBERED_S = 60.0
LOW_PRIORITY = 5
_SCHEME = "scrypt"


class PasswordFileError(OverlayError):
    """A file of passwords that cannot be used; names file and line, never what is in it."""


class HashedPassword(NamedTuple):
    """A password as it is kept."""

    n: int
    r: int
    p: int
    salt: bytes
    hash: bytes

    @classmethod
    def of(cls, password: str) -> HashedPassword:
        salt = secrets.token_bytes(SALT_BYTES)
        return cls(COST_N, COST_R, COST_P, salt, _scrypt(password, COST_N, COST_R, COST_P, salt))

    def matches(self, password: str) -> bool:
        """Takes long on purpose."""
        found = _scrypt(password, self.n, self.r, self.p, self.salt)
        return hmac.compare_digest(found, self.hash)

    def line(self, user: str) -> str:
        salt, hash_ = (base64.b64encode(part).decode() for part in (self.salt, self.hash))
        return f"{user}:{_SCHEME}:{self.n}:{self.r}:{self.p}:{salt}:{hash_}"

    @classmethod
    def parse(cls, fields: list[str]) -> HashedPassword:
        """What stands behind the scheme in a line; ValueError if it is no hash."""
        n, r, p, salt, hash_ = fields
        decoded = (base64.b64decode(part, validate=True) for part in (salt, hash_))
        return cls(int(n), int(r), int(p), *decoded)


KeptPassword = HashedPassword | ScramKeys


def _parse(line: str) -> tuple[str, KeptPassword]:
    """One line of the file; ValueError if it is none."""
    user, scheme, *fields = line.split(":")
    if scheme == SCHEME:
        return validate_user_name(user), ScramKeys.parse(fields)
    if scheme != _SCHEME:
        raise ValueError("an unknown scheme")
    return validate_user_name(user), HashedPassword.parse(fields)


def _scrypt(password: str, n: int, r: int, p: int, salt: bytes) -> bytes:
    return hashlib.scrypt(
        password.encode(), salt=salt, n=n, r=r, p=p, maxmem=MEMORY_BYTES_MAX, dklen=32
    )


def read_passwords(path: Path) -> dict[str, KeptPassword]:
    """The users of a file; PasswordFileError says where it is wrong."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise PasswordFileError(f"{path}: {reason}") from None
    users: dict[str, KeptPassword] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            user, hashed = _parse(line.strip())
        except ValueError:
            raise PasswordFileError(
                f"{path}, line {number}: no name:scrypt:n:r:p:salt:hash; "
                "write it with 'pubweave security add'"
            ) from None
        users[user] = hashed
    return users


class PasswordVerifier:
    """Compares passwords, one after the other, in a thread of its own."""

    def __init__(self, users: dict[str, KeptPassword]) -> None:
        self._users = users
        # An unknown user takes as long as a known one, or names could be tried out.
        self._nobody = HashedPassword(COST_N, COST_R, COST_P, secrets.token_bytes(16), b"\0" * 32)
        self._key = secrets.token_bytes(32)
        self._verified: dict[str, tuple[bytes, float]] = {}
        self._thread = concurrent.futures.ThreadPoolExecutor(
            1, thread_name_prefix="passwords", initializer=_yield_to_others
        )

    @property
    def has_scram(self) -> bool:
        """Whether any user can prove a password without sending it. O(users)."""
        return any(isinstance(kept, ScramKeys) for kept in self._users.values())

    def scram_keys(self, user: str) -> ScramKeys:
        """A user's; for one that has none, such as fit no password, the same at every broker with
        the same file: who asks does not learn which names there are."""
        kept = self._users.get(user)
        if isinstance(kept, ScramKeys):
            return kept
        digest = hmac.digest(self._stranger_key(), user.encode(), "sha256")
        return ScramKeys(ITERATIONS, digest[:SALT_BYTES], digest, digest)

    def _stranger_key(self) -> bytes:
        lines = sorted(kept.line(user) for user, kept in self._users.items())
        return hashlib.sha256("\n".join(lines).encode()).digest()

    def replace(self, users: dict[str, KeptPassword]) -> None:
        """From here on these are the users."""
        self._users = users
        self._verified.clear()

    def submit(self, user: str, password: str) -> concurrent.futures.Future[bool]:
        """Whether it is the user's password, in a while."""
        return self._thread.submit(self.verify, user, password)

    def verify(self, user: str, password: str) -> bool:
        """The same at once; for the thread and for tests."""
        if len(password) > PASSWORD_BYTES_MAX:
            return False
        digest = hmac.digest(self._key, f"{user}\0{password}".encode(), "sha256")
        known, until = self._verified.get(user, (b"", 0.0))
        now = time.monotonic()
        if now < until and hmac.compare_digest(known, digest):
            return True
        is_right = self._users.get(user, self._nobody).matches(password) and user in self._users
        if is_right:
            self._verified[user] = (digest, now + REMEMBERED_S)
        return is_right

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def _yield_to_others() -> None:
    # Linux sets this for one thread; elsewhere it may not be allowed, and is not needed.
    with contextlib.suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOW_PRIORITY)
