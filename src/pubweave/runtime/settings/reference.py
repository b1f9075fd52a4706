"""The page of all settings, made from the tree: keys, types, defaults, and what they mean."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

from pubweave.runtime.net.addresses import Address
from pubweave.runtime.settings.text import (
    Keys,
    bare_kinds,
    bounds_of,
    choices_of,
    descriptions,
    dotted,
    is_table,
    item_kind,
    kinds_in,
    toml_value,
)
from pubweave.runtime.settings.tree import MUST_EXIST, Settings

_TOP = """# Configuration

<!-- Written by `pubweave config reference`; a test compares. -->

Every setting of `pubweave up`, `pubweave broker` and `pubweave autopilot`.
[Operating](../operating.md#configuration) says where settings are written and which goes before.
"""


def page() -> str:
    """The page as Markdown."""
    return "\n".join([_TOP, *_tables(Settings, ())])


def _tables(table: type, keys: Keys) -> Iterator[str]:
    known, made = kinds_in(table), table()
    values = {name: kind for name, kind in known.items() if not is_table(kind)}
    if keys:
        yield f"## `[{dotted(keys)}]`\n"
        yield " ".join((table.__doc__ or "").split("\n\n")[0].split()) + "\n"
    if keys and values:
        yield "| key | value | default | meaning |\n|---|---|---|---|"
        told = descriptions(table)
        for name, kind in values.items():
            default = _default_text(getattr(made, name))
            yield f"| `{name}` | {kind_text(kind)} | {default} | {told.get(name, '')} |"
        yield ""
    for name, kind in known.items():
        if is_table(kind):
            yield from _tables(kind, (*keys, name))


def _default_text(value: Any) -> str:
    return "" if value is None or value in ("", (), {}) else f"`{toml_value(value)}`"


def kind_text(kind: Any) -> str:
    """What a value has to be, in words.

    >>> from pubweave.core.config.bounds import Share
    >>> kind_text(Share)
    'number, 0 to 1'
    """
    if choices := choices_of(kind):
        return ", ".join(f"`{toml_value(choice)}`" for choice in choices)
    if (item := item_kind(kind)) is not None:
        return f"table: {kind_text(item)} by id"
    bare = bare_kinds(kind)[0]
    if get_origin(bare) is tuple:
        return f"list of {kind_text(get_args(bare)[0])}s"
    return f"{_NAMES[bare]}{_bounds_text(kind)}"


def _bounds_text(kind: Any) -> str:
    for bound in bounds_of(kind):
        if bound == MUST_EXIST:
            return " that exists"
        if bound.le is not None:
            return f", {bound.ge:g} to {bound.le:g}"
        if bound.gt is not None:
            return f" above {bound.gt:g}"
        if bound.ge is not None:
            return f", {bound.ge:g} or more"
    return ""


_NAMES = {
    bool: "`true` or `false`",
    int: "whole number",
    float: "number",
    str: "string",
    Path: "path",
    Address: "`host:port`",
}
