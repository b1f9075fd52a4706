"""The smallest pieces of written filters and publications, and the error that points at one.

Both written forms share these tokens, names and values; what may follow what is decided in
`filters/text`. The lexer never fails on a piece it does not know: it hands it on as
`TokenKind.UNKNOWN`, so that whoever knows what belongs there can say so. Every token knows its
place in the text, and every error is raised at one.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from pubweave.model.publications import WHOLE_NUMBER_MAX, WHOLE_NUMBER_MIN, Value

EXCERPT_RADIUS = 40
"""How many characters on either side of its place an error shows."""

RESERVED_WORDS = frozenset({"and", "or", "not", "true", "false"})
"""Bare words that cannot be attribute names, so that a slip is found where it is made."""

_WHOLE_NUMBER_DIGITS = len(str(WHOLE_NUMBER_MAX))
_BOOLEANS = {"true": True, "false": False}
_BARE_NAME = r"[^\W\d][\w.%/-]*"
_TOKEN = re.compile(
    rf"""
      (?P<space>\s+)
    | (?P<string>'(?:[^']|'')*'(?!') | "(?:[^"]|"")*"(?!"))
    | (?P<quoted_name>`(?:[^`]|``)+`(?!`))
    | (?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<word>{_BARE_NAME})
    | (?P<symbol><=|>=|<>|!=|==|[=<>*,\[\]])
    | (?P<unclosed>['"`])
    | (?P<unknown>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_BARE_NAME_ONLY = re.compile(_BARE_NAME)


class TokenKind(enum.Enum):
    """What a token is, before anyone knows what it is for."""

    STRING = "string"
    QUOTED_NAME = "quoted_name"
    NUMBER = "number"
    WORD = "word"
    SYMBOL = "symbol"
    UNCLOSED = "unclosed"
    UNKNOWN = "unknown"
    END = "end"


class Token(NamedTuple):
    """A piece of the text as it is written, and its 0-based offset."""

    kind: TokenKind
    text: str
    position: int

    @property
    def content(self) -> str:
        """What is between the quotes, with doubled quotes read as one."""
        quote = self.text[0]
        return self.text[1:-1].replace(quote * 2, quote)


def tokens_of(text: str) -> Iterator[Token]:
    """The tokens of a text in order, ending with one `TokenKind.END`.

    >>> [token.text for token in tokens_of("volume>=-1.5e3")]
    ['volume', '>=', '-1.5e3', '']
    """
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup
        if kind is not None and kind != "space":
            yield Token(TokenKind(kind), found.group(), found.start())
    yield Token(TokenKind.END, "", len(text))


def is_bare_name(name: str) -> bool:
    """Whether an attribute name can be written without backquotes."""
    return _BARE_NAME_ONLY.fullmatch(name) is not None


def quoted(content: str, quote: str) -> str:
    """The content between quotes, its own quotes doubled.

    >>> print(quoted("it's", "'"))
    'it''s'
    """
    return quote + content.replace(quote, quote * 2) + quote


class NotationError(ValueError):
    """A text that cannot be read: ``expected`` says what belongs at offset ``position``.

    >>> print(NotationError("volume > much", 9, "a number"))
    cannot be read at position 9: expected a number
      volume > much
               ^
    """

    subject = "cannot be read"

    def __init__(self, text: str, position: int, expected: str) -> None:
        self.text = text
        self.position = position
        self.expected = expected
        line, caret = _excerpt(text, position)
        super().__init__(
            f"{self.subject} at position {position}: expected {expected}\n"
            f"  {line}\n  {' ' * caret}^"
        )

    def __reduce__(self) -> tuple[type[NotationError], tuple[str, int, str]]:
        # Exceptions are rebuilt from their message by default, which is not what __init__ takes.
        return type(self), (self.text, self.position, self.expected)


class FilterSyntaxError(NotationError):
    """A written filter that cannot be read."""

    subject = "the filter cannot be read"


class PublicationSyntaxError(NotationError):
    """A written publication that cannot be read."""

    subject = "the publication cannot be read"


class Reader:
    """The tokens of a text, one at a time, each taken as what is expected or refused."""

    def __init__(self, text: str, error: type[NotationError]) -> None:
        self._text = text
        self._error = error
        self._tokens = tokens_of(text)
        if lone := _SURROGATE.search(text):
            raise error(text, lone.start(), "a character that UTF-8 can carry, not a surrogate")
        self.token = next(self._tokens)

    def error(self, expected: str, token: Token | None = None) -> NotationError:
        """The error that something else was expected at a token (default: the current one)."""
        return self._error(self._text, (token or self.token).position, expected)

    def take(self) -> Token:
        taken = self.token
        self.token = next(self._tokens, taken)
        return taken

    def at_symbol(self, symbol: str) -> bool:
        return self.token.kind is TokenKind.SYMBOL and self.token.text == symbol

    def take_symbol(self, symbol: str) -> None:
        if not self.at_symbol(symbol):
            raise self.error(repr(symbol))
        self.take()

    def at_word(self, word: str) -> bool:
        return self.token.kind is TokenKind.WORD and self.token.text.lower() == word

    def take_word(self, word: str, expected: str) -> None:
        if not self.at_word(word):
            raise self.error(expected)
        self.take()

    def at_end(self) -> bool:
        return self.token.kind is TokenKind.END

    def at_end_or_comma(self) -> bool:
        """True at the end; False after taking the comma that announces another bracket."""
        if self.at_end():
            return True
        if not self.at_symbol(","):
            raise self.error("',' or the end")
        self.take()
        return False

    def take_name(self) -> str:
        token = self.token
        if token.kind is TokenKind.QUOTED_NAME:
            return self.take().content
        if token.kind is TokenKind.UNCLOSED and token.text == "`":
            raise self.error("a name in backquotes, closed and not empty")
        if token.kind is not TokenKind.WORD:
            raise self.error("an attribute name")
        if token.text.lower() in RESERVED_WORDS:
            raise self.error(f"an attribute name (`{token.text}` needs backquotes to be one)")
        return self.take().text

    def take_value(self) -> Value:
        token = self.token
        if token.kind is TokenKind.STRING:
            return self.take().content
        if token.kind is TokenKind.NUMBER:
            return self._take_number()
        if token.kind is TokenKind.UNCLOSED and token.text != "`":
            raise self.error(f"a string that ends with {token.text} (it is never closed)")
        if token.kind is TokenKind.WORD:
            if token.text.lower() in _BOOLEANS:
                return _BOOLEANS[self.take().text.lower()]
            hint = f" (a string needs quotes: {quoted(token.text, chr(39))})"
            raise self.error(f"a quoted string, a number, true or false{hint}")
        raise self.error("a quoted string, a number, true or false")

    def _take_number(self) -> int | float:
        written = self.token.text
        if any(c in ".eE" for c in written):
            number = float(written)
            if not math.isfinite(number):
                raise self.error("a number that fits into 64 bits")
            self.take()
            return number
        digits = written.lstrip("+-0")
        # Python refuses to read very long numbers: look at their length first.
        whole = int(written) if len(digits) <= _WHOLE_NUMBER_DIGITS else WHOLE_NUMBER_MAX + 1
        if not WHOLE_NUMBER_MIN <= whole <= WHOLE_NUMBER_MAX:
            raise self.error("a whole number that fits into 64 bits (write it as 1e30)")
        self.take()
        return whole


def _excerpt(text: str, position: int) -> tuple[str, int]:
    """The part of the position's line that is worth showing, and the caret's column in it."""
    line_start = text.rfind("\n", 0, position) + 1
    line_end = text.find("\n", position)
    if line_end < 0:
        line_end = len(text)
    start = max(line_start, position - EXCERPT_RADIUS)
    end = min(line_end, position + EXCERPT_RADIUS)
    before = "…" if start > line_start else ""
    after = "…" if end < line_end else ""
    shown = "".join(c if c.isprintable() else " " for c in text[start:end])
    return before + shown + after, len(before) + position - start
