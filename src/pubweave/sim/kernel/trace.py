"""The trace of a run: one line per thing that happened, the same bytes for the same seed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TextIO

from pubweave.core.vocabulary.effects import CloseConnection, Effect, Notify, Transmit
from pubweave.model.filters.text import format_filter
from pubweave.model.messages.session import Advertise, Message, Subscribe
from pubweave.model.publications import Publication


class Trace:
    """Lines to a stream (None: nowhere) and into a digest that names the whole run."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()

    def write(self, now: float, who: str, text: str) -> None:
        line = f"{now:12.6f} {who:<8} {text}\n"
        self._digest.update(line.encode())
        if self._stream is not None:
            self._stream.write(line)

    def digest(self) -> str:
        return self._digest.hexdigest()


def show_message(message: Message) -> str:
    """A message in a few words."""
    if isinstance(message, Publication):
        values = ",".join(f"{k}={v}" for k, v in message.attributes.items())
        return f"{message.publisher}#{message.sequence} {message.topic}({values})"
    if isinstance(message, Advertise | Subscribe):
        return f"{type(message).__name__}({message.id}, {format_filter(message.filter)})"
    fields = ", ".join(str(getattr(message, name)) for name in message.__struct_fields__)
    return f"{type(message).__name__}({fields})"


def show_messages(messages: Sequence[Message]) -> str:
    return " | ".join(show_message(message) for message in messages)


def show_effect(effect: Effect) -> str:
    match effect:
        case Transmit(connection, messages):
            return f"transmit c{connection} {show_messages(messages)}"
        case CloseConnection(connection, reason):
            return f"close c{connection} {reason}"
        case Notify(publications):
            return f"notify {show_messages(publications)}"
        case _:
            return type(effect).__name__
