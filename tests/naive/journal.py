"""A journal's batches, found the slow and obvious way."""

from __future__ import annotations

import zlib

HEAD_BYTES = 16
END = b"\xf1pwJend\n"


def naive_batches(data: bytes) -> list[bytes]:
    """The records of whole batches from the beginning on, one byte field after the other."""
    found = []
    while len(data) >= HEAD_BYTES:
        length = int.from_bytes(data[4:8], "little")
        checksums = [int.from_bytes(data[at : at + 4], "little") for at in (8, 12)]
        records, end = data[HEAD_BYTES:][:length], data[HEAD_BYTES + length :][: len(END)]
        if data[:4] != b"pwJ4" or end != END:
            break
        if checksums != [zlib.crc32(records), zlib.crc32(data[:12])]:
            break
        found.append(records)
        data = data[HEAD_BYTES + length + len(END) :]
    return found
