"""As whom the dashboard asks an overlay, and whether that user may."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pubweave.cli.errors import BadInput
from pubweave.cli.security_options import SecurityChoice

if TYPE_CHECKING:
    from pubweave.runtime.credentials import Credentials
    from pubweave.runtime.dashboard_source import Finder, Found

ASKED_AT_MOST = 3
"""Brokers that are asked whether a user may operate; the first that answers decides."""
ANSWER_LIMIT_S = 2.0


def credentials_for(choice: SecurityChoice, found: Found) -> Credentials | None:
    """Whom to be at an overlay; None: it asks nobody. OverlayError if the options do not fit."""
    from pubweave.runtime.overlay_spec import OverlayError

    if found.security is None and found.addresses is not None:
        return None  # its run directory says that it is open
    directory = choice.directory or (None if found.security is None else Path(found.security))
    try:
        return replace(choice, directory=directory).credentials()
    except BadInput as error:
        raise OverlayError(str(error)) from error


async def check_operates(
    finder: Finder, credentials: Callable[[Found], Credentials | None]
) -> None:
    """BadInput if the brokers of a secured overlay say that this user may not operate. Where none
    answers, or there is no overlay yet, nothing is known that could be shown either."""
    from pubweave.runtime.overlay_spec import OverlayError

    try:
        found = finder.find()
    except OverlayError:
        return
    chosen = credentials(found)
    if chosen is None or found.addresses is None:
        return
    for address in list(found.addresses.values())[:ASKED_AT_MOST]:
        refusal = await _refusal(str(address), chosen)
        if refusal is not None:
            if refusal:
                raise BadInput(f"the dashboard is for operators: {refusal}")
            return


async def _refusal(address: str, credentials: Credentials) -> str | None:
    """Why a broker does not let a user operate; empty if it does, None if it is down."""
    import msgspec

    from pubweave.model.status import STATUS_SUBJECT
    from pubweave.runtime.client import ClientError, NoConnectionError
    from pubweave.runtime.connect import connect

    try:
        async with connect(address, timeout_s=ANSWER_LIMIT_S, credentials=credentials) as client:
            answer = msgspec.json.decode(await client.query(STATUS_SUBJECT))
    except NoConnectionError:
        return None
    except ClientError as error:
        return str(error)
    return str(answer.get("error", ""))
