"""A client's side of SCRAM-SHA-256, as RFC 5802 writes it down: the twin of
`runtime.security.scram`."""

from __future__ import annotations

import base64
import hashlib
import hmac


class ScramClient:
    """Proves a password, and looks whether the server knows it, too."""

    def __init__(self, user: str, password: str, nonce: str) -> None:
        self.password = password
        self.bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self.expected = b""
        """What a server says that knows the password."""

    def first(self) -> bytes:
        return f"n,,{self.bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        nonce, salt, iterations = (part[2:] for part in server_first.decode().split(","))
        salted = hi(self.password.encode(), base64.b64decode(salt), int(iterations))
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        stored_key = hashlib.sha256(client_key).digest()
        without_proof = f"c={base64.b64encode(b'n,,').decode()},r={nonce}"
        message = f"{self.bare},{server_first.decode()},{without_proof}".encode()
        signature = hmac.digest(stored_key, message, "sha256")
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key", "sha256")
        signed = hmac.digest(server_key, message, "sha256")
        self.expected = b"v=" + base64.b64encode(signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


def hi(password: bytes, salt: bytes, iterations: int) -> bytes:
    """RFC 5802, 2.2: U1 xor U2 xor ... . O(iterations)."""
    last = hmac.digest(password, salt + b"\0\0\0\1", "sha256")
    total = int.from_bytes(last)
    for _ in range(iterations - 1):
        last = hmac.digest(password, last, "sha256")
        total ^= int.from_bytes(last)
    return total.to_bytes(32)
