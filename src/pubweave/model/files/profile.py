"""Reading a profile back from its directory, for those who use it: design, control, reports.

Needs pyarrow, imported when a table is read. Tables come as Arrow tables or as rows in the order of
their keys; a profile is never written here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from pubweave.model.profile import (
    PROFILE_FILE,
    PROFILE_TABLES,
    PROFILE_VERSION,
    ProfileDescription,
    ProfileError,
)


class WorkloadProfile:
    """A profile in a directory, as it was when this was made."""

    def __init__(self, directory: Path) -> None:
        """Raises `ProfileError` if there is no profile that this version can read."""
        self.directory = directory
        self.description = read_profile_description(directory)

    def table(self, name: str) -> Any:
        """A table as a ``pyarrow.Table`` with the declared columns."""
        import pyarrow.parquet as pq

        summary = self.description.tables.get(name)
        if name not in PROFILE_TABLES or summary is None:
            known = ", ".join(sorted(self.description.tables))
            raise ProfileError(f"{self.directory} has no table {name!r}: it has {known}")
        folder = self.directory / summary.path
        files = sorted(p for p in folder.glob("*.parquet") if not p.name.startswith((".", "_")))
        try:
            return pq.read_table(files).select(list(PROFILE_TABLES[name].column_names))
        except (OSError, ValueError, KeyError) as error:
            raise ProfileError(
                f"{folder} cannot be read: {error}; profile the run again"
            ) from error

    def rows(self, name: str) -> list[dict[str, Any]]:
        """A table's rows, ordered by its key."""
        key = PROFILE_TABLES[name].key if name in PROFILE_TABLES else ()
        rows: list[dict[str, Any]] = self.table(name).to_pylist()
        return sorted(rows, key=lambda row: tuple(row[column] for column in key))


def read_profile_description(directory: Path) -> ProfileDescription:
    """``profile.json``; raises `ProfileError` where it is missing, broken or of the future."""
    path = directory / PROFILE_FILE
    try:
        description = msgspec.json.decode(path.read_bytes(), type=ProfileDescription)
    except (FileNotFoundError, NotADirectoryError):
        raise ProfileError(
            f"{directory} has no {PROFILE_FILE}: make a profile with 'pubweave profile RUN -o "
            f"{directory}'"
        ) from None
    except msgspec.DecodeError as error:
        raise ProfileError(f"{path}: {error}; profile the run again") from None
    if description.profile_version > PROFILE_VERSION:
        raise ProfileError(
            f"{path}: profile_version {description.profile_version} is newer than this pubweave's "
            f"{PROFILE_VERSION}: use the newer version"
        )
    return description
