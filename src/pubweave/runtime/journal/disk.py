"""The directory of a broker's journal on this machine: plain files, synced when it matters."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from pubweave.model.files.atomic import replace_file

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


class FileDisk:
    """Files of one directory, made if it is not there (`wire.journal_files.Disk`). Only this
    user can read it: a journal has what clients publish."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: tuple[str, int] | None = None
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)

    def close(self) -> None:
        if self._open is not None:
            os.close(self._open[1])
            self._open = None

    def names(self) -> list[str]:
        return sorted(os.listdir(self._directory))

    def read(self, name: str) -> bytes:
        return (self._directory / name).read_bytes()

    def put(self, name: str, content: bytes) -> None:
        replace_file(self._directory / name, content, 0o600)
        self._sync_directory()

    def append(self, name: str, data: bytes) -> None:
        descriptor = self._descriptor(name)
        os.lseek(descriptor, 0, os.SEEK_END)
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]

    def sync(self, name: str) -> None:
        os.fdatasync(self._descriptor(name))

    def cut(self, name: str, size: int) -> None:
        # Afresh: a descriptor that failed once may not tell of what it has lost.
        self.close()
        os.ftruncate(self._descriptor(name), size)
        self._sync_directory()

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self._directory / name).unlink()
            self._sync_directory()

    def _descriptor(self, name: str) -> int:
        if self._open is None or self._open[0] != name:
            self.close()
            self._open = name, os.open(self._directory / name, _FLAGS, 0o600)
        return self._open[1]

    def _sync_directory(self) -> None:
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# Whether other code can read the state that this code wrote: what its classes have, by a digest.
#
# A journal with events behind its snapshot is for the very code that wrote it: other code would
# decide differently on the way. A snapshot alone is only state. Other code may go on with it if
# what brokers consist of has the same shape there: the same classes with the same attributes and
# fields, whatever their methods do. That is read from the sources, because a class says only
# there which attributes its objects will have, and line by line, because a broker that stops
# should not take longer for it. It errs on the safe side: an attribute more, and it is refused.


STATE = 1
"""Grows when something in a snapshot keeps its name and changes its meaning."""
_PACKAGES = ("core", "design", "model")
_OUTERMOST = re.compile(r"(class|def|async|@|\w)")
_FIELD = re.compile(r"    (\w+: [^=]*|\w+ = .*)$|    (\w+: [^=]*)=.*$")
_METHOD = re.compile(r"\bdef (\w+)\(")
_ATTRIBUTE = re.compile(r"\bself\.(\w+)")


def state_shape(package: Path = Path(__file__).parents[2]) -> str:
    """A digest of what the state of a broker consists of. O(source), some 0.1 s.

    >>> state_shape() == state_shape()
    True
    """
    digest = hashlib.sha256(str(STATE).encode())
    for name in _PACKAGES:
        for path in sorted((package / name).rglob("*.py")):
            digest.update(f"{path.relative_to(package)}\n".encode())
            for line in _shape(path.read_text()):
                digest.update(f"{line}\n".encode())
    return digest.hexdigest()[:16]


def _shape(source: str) -> Iterator[str]:
    """The classes of a module with their fields, in order, and all attributes of ``self``.

    >>> list(_shape("class A(B):\\n    size: int = 3\\n    def f(self):\\n        self.x = 1\\n"))
    ['class A(B):', 'size: int', 'x']
    """
    is_class = False
    for line in source.splitlines():
        if _OUTERMOST.match(line):
            is_class = line.startswith("class ")
            if is_class:
                yield line
        elif is_class and (field := _FIELD.match(line)):
            yield (field[1] or field[2]).strip()
    yield from sorted(set(_ATTRIBUTE.findall(source)) - set(_METHOD.findall(source)))
