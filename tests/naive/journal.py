"""A journal's batches, found the slow and obvious way."""

from __future__ import annotations

import zlib

HEAD_BYTES = 20


def naive_batches(data: bytes) -> list[bytes]:
    """The records of whole batches from the beginning on, one byte field after the other."""
    found = []
    while len(data) >= HEAD_BYTES:
        length = int.from_bytes(data[4:8], "little")
        checksum = int.from_bytes(data[8:12], "little")
        records = data[HEAD_BYTES : HEAD_BYTES + length]
        if data[:4] != b"pwJ1" or len(records) < length or zlib.crc32(records) != checksum:
            break
        found.append(records)
        data = data[HEAD_BYTES + length :]
    return found
