"""``pubweave pub``: publications from the command line."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec

from pubweave.cli.errors import BadInput, blaming
from pubweave.cli.kinds import COUNT, POSITIVE
from pubweave.cli.options.security import SecurityChoice, client_security_options
from pubweave.cli.options.target import attached, broker_address, broker_options
from pubweave.cli.output import Advance, json_option, print_json, progress_bar, remark
from pubweave.core.client import NotAdvertisedError
from pubweave.model.filters.filter import Filter, topic_filter
from pubweave.model.filters.lexer import NotationError, Reader, TokenKind, tokens_of
from pubweave.model.filters.text import parse_filter
from pubweave.model.publications import Value, validate_publication_content
from pubweave.runtime.client.client import Client
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.signals import StopRequest, run_async
from pubweave.runtime.security.credentials import Credentials

CHUNKS_AHEAD = 4
"""How much of standard input is read before it is wanted."""


class StdinLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of ``--stdin``."""

    topic: str | None = None
    attributes: dict[str, str | int | float | bool] = {}
    payload: str | None = None


@dataclass(frozen=True)
class Draft:
    """A publication before it is published; ``source`` is for error messages."""

    topic: str
    attributes: dict[str, Value]
    payload: bytes
    source: str


def parse_attribute(text: str) -> tuple[str, Value]:
    """``name=value``."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise click.BadParameter(f"{text!r}: write name=value, for example volume=1000")
    try:
        return name.strip(), parse_value(value)
    except NotationError as error:
        raise click.BadParameter(str(error)) from error


def parse_value(text: str) -> Value:
    """What a value on the command line means: anything that is no other literal is a string.

    >>> parse_value("18.5"), parse_value("true"), parse_value("'18.5'"), parse_value("IBM & Co")
    (18.5, True, '18.5', 'IBM & Co')
    """
    found = [token for token in tokens_of(text) if token.kind is not TokenKind.END]
    is_whole = len(found) == 1 and found[0].text == text.strip()
    if is_whole and found[0].kind in (TokenKind.STRING, TokenKind.NUMBER):
        return Reader(text, NotationError).take_value()
    if is_whole and text.strip().lower() in ("true", "false"):
        return text.strip().lower() == "true"
    return text


@click.command()
@click.argument("topic", required=False)
@click.option(
    "-a",
    "--attr",
    "attributes",
    multiple=True,
    type=parse_attribute,
    metavar="NAME=VALUE",
    help="An attribute; numbers, true and false are recognised, quotes force a string.",
)
@click.option(
    "-p", "--payload", default="", show_default=False, help="TEXT, @FILE, or - for standard input."
)
@click.option("-n", "--count", default=1, type=COUNT, help="How many times to publish it.")
@click.option(
    "--rate",
    type=POSITIVE,
    help="Publications per second. [default: as fast as the broker takes them]",
)
@click.option(
    "--stdin",
    "from_stdin",
    is_flag=True,
    help='One JSON object per line: {"topic", "attributes", "payload"}.',
)
@click.option("--advertise", help="A filter of what will be published. [default: the topic]")
@broker_options
@client_security_options
@json_option
@click.pass_context
def pub(
    ctx: click.Context,
    topic: str | None,
    attributes: tuple[tuple[str, Value], ...],
    payload: str,
    count: int,
    rate: float | None,
    from_stdin: bool,
    advertise: str | None,
    broker: str | None,
    address: Address | None,
    run_dir: Path,
    security: SecurityChoice,
    as_json: bool,
) -> None:
    """Publish on TOPIC and wait until the broker has everything.

    \b
    Example:
      pubweave pub STOCK --attr symbol=YHOO --attr volume=2000 --payload hello
      pubweave pub load --attr cpu=0.7 --count 1000 --rate 100
      pubweave pub --stdin --advertise "class prefix 'sensor/'" < readings.jsonl
    """
    if topic is None and not from_stdin:
        raise click.UsageError("name a TOPIC, or give publications on standard input (--stdin)")
    if from_stdin and payload == "-":
        raise click.UsageError("--stdin and --payload - would both read standard input")
    if from_stdin and count != 1:
        raise click.UsageError("--count is for one publication: --stdin has its own lines")
    advertisement = None if advertise is None else parse_filter(advertise)
    content = _payload(payload)
    if topic is None or from_stdin:
        drafts = _stdin_drafts(topic, dict(attributes), content)
    else:
        with blaming("the publication"):
            validate_publication_content(topic, dict(attributes))
        drafts = _repeated(Draft(topic, dict(attributes), content, "the publication"), count)
    target = broker_address(broker, address, run_dir)
    total = None if from_stdin else count

    def make_publisher(client: Client) -> Publisher:
        return Publisher(client, advertisement, rate)

    credentials = security.credentials(run_dir if address is None else None)
    ctx.exit(run_async(_run(target, credentials, make_publisher, drafts, total, as_json)))


class Publisher:
    """Publishes drafts at a steady rate, advertising what it has not advertised yet."""

    def __init__(self, client: Client, advertisement: Filter | None, rate: float | None) -> None:
        self.published = 0
        self._client = client
        self._advertisement = advertisement
        self._rate = rate
        self._topics: set[str] = set()
        self._began_at: float | None = None
        self._ended_at = 0.0

    @property
    def seconds(self) -> float:
        """From the first publication to the broker's word that it has the last."""
        return 0.0 if self._began_at is None else self._ended_at - self._began_at

    async def publish_all(self, drafts: AsyncIterator[Draft], advance: Advance) -> None:
        try:
            async for draft in drafts:
                await self._publish(draft)
                if self._rate is not None or not self.published & 255:
                    advance.to(self.published)
        finally:
            await self._client.flush()
            self._ended_at = time.monotonic()

    async def _publish(self, draft: Draft) -> None:
        """Publish one draft when it is due; BadInput for what cannot be published."""
        if draft.topic not in self._topics:
            await self._advertise(draft)
        if self._began_at is None:
            self._began_at = time.monotonic()
        if self._rate is not None:
            due = self._began_at + self.published / self._rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        with blaming(draft.source):
            try:
                await self._client.publish(draft.topic, draft.attributes, draft.payload)
            except NotAdvertisedError as error:
                raise BadInput(
                    f"--advertise does not match {draft.source} on {draft.topic!r}: "
                    "widen it or leave it out"
                ) from error
        self.published += 1

    async def _advertise(self, draft: Draft) -> None:
        is_first = not self._topics
        self._topics.add(draft.topic)
        if self._advertisement is None:
            await self._client.advertise(topic_filter(draft.topic))
        elif is_first:
            await self._client.advertise(self._advertisement)


async def _run(
    address: Address,
    credentials: Credentials | None,
    make_publisher: Callable[[Client], Publisher],
    drafts: AsyncIterator[Draft],
    total: int | None,
    as_json: bool,
) -> int:
    async with StopRequest() as stop, attached(address, credentials) as client:
        publisher = make_publisher(client)
        with progress_bar("publishing", total, shown=not as_json and total != 1) as advance:
            await stop.unless(publisher.publish_all(drafts, advance))
        _tell_summary(client, publisher, as_json)
        return stop.exit_code


def _tell_summary(client: Client, publisher: Publisher, as_json: bool) -> None:
    published, seconds = publisher.published, publisher.seconds
    rate = published / seconds if seconds else 0.0
    if as_json:
        print_json(
            {
                "published": published,
                "seconds": round(seconds, 6),
                "rate_per_s": round(rate, 1),
                "broker": client.broker,
                "client": client.id,
            }
        )
    else:
        remark(f"published {published:,} at {client.broker} in {seconds:.3f} s ({rate:,.0f}/s)")


async def _repeated(draft: Draft, count: int) -> AsyncIterator[Draft]:
    for _ in range(count):
        yield draft


def _payload(text: str) -> bytes:
    """What ``--payload`` means; OSError for a file that cannot be read."""
    if text == "-":
        return sys.stdin.buffer.read()
    if text.startswith("@"):
        return Path(text[1:]).read_bytes()
    return text.encode()


async def _stdin_drafts(
    topic: str | None, attributes: dict[str, Value], payload: bytes
) -> AsyncIterator[Draft]:
    """The lines of standard input; the command line fills in what a line leaves out."""
    number = 0
    async for line in _stdin_lines():
        number += 1
        if line.strip():
            source = f"standard input, line {number}"
            yield _draft(line, source, topic, attributes, payload)


def _draft(
    line: bytes, source: str, topic: str | None, attributes: dict[str, Value], payload: bytes
) -> Draft:
    try:
        given = msgspec.json.decode(line, type=StdinLine)
    except msgspec.DecodeError as error:
        raise BadInput(f"{source}: {error}") from error
    chosen = given.topic or topic
    if not chosen:
        raise BadInput(f"{source}: it has no topic, and none was given as TOPIC")
    content = payload if given.payload is None else given.payload.encode()
    return Draft(chosen, {**attributes, **given.attributes}, content, source)


async def _stdin_lines() -> AsyncIterator[bytes]:
    """Lines as they come, without holding up the event loop.

    A thread of our own, because a terminal may keep it waiting forever: nobody joins it. It reads
    the bare file, because the lock of sys.stdin must not be held when the interpreter ends. It
    hands over plain calls, because a coroutine would complain if the loop ends before it begins.
    """
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue()
    room = threading.Semaphore(CHUNKS_AHEAD)

    def read() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended before the input did
            chunk = b"\n"
            while chunk:
                room.acquire()
                chunk = os.read(0, 1 << 16)
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)

    threading.Thread(target=read, name="standard input", daemon=True).start()
    unread = b""
    while chunk := await chunks.get():
        room.release()
        *lines, unread = (unread + chunk).split(b"\n")
        for line in lines:
            yield line
    if unread:
        yield unread
