"""Whether other code can read the state that this code wrote: what its classes have, by a digest.

A journal with events behind its snapshot is for the very code that wrote it: other code would
decide differently on the way. A snapshot alone is only state. Other code may go on with it if what
brokers consist of has the same shape there: the same classes with the same attributes and fields,
whatever their methods do. That is read from the sources, because a class says only there which
attributes its objects will have, and line by line, because a broker that stops should not take
longer for it. It errs on the safe side: an attribute more, and it is refused.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

STATE = 1
"""Grows when something in a snapshot keeps its name and changes its meaning."""
_PACKAGES = ("core", "design", "model")
_OUTERMOST = re.compile(r"(class|def|async|@|\w)")
_FIELD = re.compile(r"    (\w+: [^=]*|\w+ = .*)$|    (\w+: [^=]*)=.*$")
_METHOD = re.compile(r"\bdef (\w+)\(")
_ATTRIBUTE = re.compile(r"\bself\.(\w+)")


def state_shape(package: Path = Path(__file__).parents[1]) -> str:
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
