"""The profile's schema as data: consistent with itself, with its document, and free of Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pubweave.model.files.profile import WorkloadProfile
from pubweave.model.profile import PROFILE_TABLES, ProfileError, ProfileTable

DOCUMENT = Path(__file__).parents[4] / "docs" / "profile.md"
BEGIN = "<!-- tables: written by `python -m tests.unit.model.profile.test_tables` -->\n"
END = "<!-- end of tables -->\n"


def rendered_tables() -> str:
    """The part of docs/profile.md that follows from the schema."""
    lines: list[str] = []
    for table in PROFILE_TABLES.values():
        head = [f"### {table.name}", "", table.meaning, ""]
        lines += [*head, "| column | type | unit | meaning |", "| --- | --- | --- | --- |"]
        for column in table.columns:
            null = ", may be null" if column.nullable else ""
            name = f"**`{column.name}`**" if column.key else f"`{column.name}`"
            lines.append(
                f"| {name} | {column.kind.value}{null} | {column.unit} | {column.meaning} |"
            )
        lines.append("")
    return "\n".join(lines)


def with_tables(document: str) -> str:
    before, rest = document.split(BEGIN)
    return before + BEGIN + "\n" + rendered_tables() + "\n" + END + rest.split(END)[1]


def test_the_document_says_what_the_schema_says() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    assert document == with_tables(document), "run: python -m tests.unit.model.profile.test_tables"


@pytest.mark.parametrize("table", PROFILE_TABLES.values(), ids=list(PROFILE_TABLES))
def test_every_table_is_well_described(table: ProfileTable) -> None:
    assert PROFILE_TABLES[table.name] is table
    assert len(set(table.column_names)) == len(table.columns)
    assert table.meaning.endswith(".")
    for column in table.columns:
        assert column.meaning
        assert not (column.key and column.nullable)


def test_a_directory_without_a_profile_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="make a profile with 'pubweave profile"):
        WorkloadProfile(tmp_path)
    (tmp_path / "profile.json").write_text("{")
    with pytest.raises(ProfileError, match="profile the run again"):
        WorkloadProfile(tmp_path)


def test_only_the_verbs_that_need_spark_import_it() -> None:
    code = (
        "import sys, pkgutil, importlib, pubweave;"
        "names = [m.name for m in pkgutil.walk_packages(pubweave.__path__, 'pubweave.')"
        " if not m.name.startswith('pubweave.pipeline.') and '__main__' not in m.name];"
        "[importlib.import_module(n) for n in names if n.startswith(('pubweave.cli', "
        "'pubweave.model', 'pubweave.core', 'pubweave.runtime', 'pubweave.sim'))];"
        "sys.exit('pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=120, check=False)
    assert done.returncode == 0


if __name__ == "__main__":
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
