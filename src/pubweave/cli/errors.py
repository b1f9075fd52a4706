"""What an exception means for whoever typed the command: one message and an exit code.

Input that cannot be used (a file, a filter, an address, a broker that does not answer) is one
clear message and code 2. Ctrl-C is silent and code 130. Everything else is a bug of ours and
shows its traceback.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import traceback
from collections.abc import Iterator

import click

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 128 + signal.SIGINT

_ENVIRONMENT_ERRORS = frozenset(
    {
        errno.EACCES,
        errno.EADDRINUSE,
        errno.EADDRNOTAVAIL,
        errno.ECONNREFUSED,
        errno.EISDIR,
        errno.ENOENT,
        errno.ENOSPC,
        errno.ENOTDIR,
        errno.EPERM,
        errno.EROFS,
    }
)
"""System errors that say something about the user's files and addresses, not about our code."""


class BadInput(click.ClickException):
    """Something the user gave cannot be used; the message says what and why."""

    exit_code = BAD_INPUT


@contextlib.contextmanager
def blaming(subject: str) -> Iterator[None]:
    """Any ValueError inside is about what the user gave as ``subject``."""
    try:
        yield
    except ValueError as error:
        raise BadInput(f"{subject}: {error}") from error


def exit_code_for(error: BaseException) -> int:
    """Say on standard error what went wrong, if anything; return the exit code."""
    error = _unwrapped(error)
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else FAILED
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return INTERRUPTED
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if isinstance(error, BrokenPipeError):
        return _on_broken_pipe()
    if is_input_error(error):
        click.echo(f"Error: {_in_words(error)}", err=True)
        return BAD_INPUT
    traceback.print_exception(error)
    return FAILED


def is_input_error(error: BaseException) -> bool:
    """Whether an exception tells of the user's input rather than of a bug.

    Ours are ValueErrors with a class of their own; a bare ValueError may come from anywhere."""
    if isinstance(error, OSError):
        return error.errno in _ENVIRONMENT_ERRORS
    is_ours = type(error).__module__.startswith("pubweave.")
    return is_ours and (isinstance(error, ValueError) or type(error).__name__ == "ClientError")


def _unwrapped(error: BaseException) -> BaseException:
    """Of a group that agrees on what happened, the first."""
    while isinstance(error, BaseExceptionGroup):
        first = error.exceptions[0]
        if len({type(member) for member in error.exceptions}) > 1:
            return error
        error = first
    return error


def _in_words(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _on_broken_pipe() -> int:
    # Whoever read our output has enough; keep Python from complaining about it at exit.
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED
