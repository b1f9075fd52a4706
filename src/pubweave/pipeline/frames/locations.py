"""Directories anywhere: a local path or any URI that Hadoop's file systems know.

Local paths go through Python, everything else through the JVM that Spark has started. Replacing a
file is atomic in both (on stores that have a rename).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pubweave.model.files.atomic import replace_file


class LocationError(ValueError):
    """A path or URI that cannot be used, with the reason."""


def local_path(location: str) -> Path | None:
    """The local path that a location names; None if it is elsewhere."""
    parts = urlsplit(location)
    if len(parts.scheme) <= 1:
        return Path(location)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    return None


def joined(location: str, *names: str) -> str:
    return "/".join([location.rstrip("/"), *names])


def absolute(location: str) -> str:
    """A location that means the same in every process: Spark's workers have other directories."""
    path = local_path(location)
    return location if path is None else str(path.absolute())


def is_hidden(name: str) -> bool:
    """Whether readers skip a file of this name: half-written ones begin with a dot."""
    return name.startswith((".", "_"))


class Storage:
    """Listing, reading, replacing and removing below any location."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def names(self, location: str) -> list[str]:
        """The names in a directory, sorted; empty if there is no such directory."""
        path = local_path(location)
        if path is not None:
            return sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []
        system, remote = self._remote(location)
        if not system.exists(remote):
            return []
        return sorted(str(status.getPath().getName()) for status in system.listStatus(remote))

    def exists(self, location: str) -> bool:
        path = local_path(location)
        if path is not None:
            return path.exists()
        system, remote = self._remote(location)
        return bool(system.exists(remote))

    def read(self, location: str) -> bytes | None:
        """A small file's content; None if it is not there."""
        path = local_path(location)
        if path is not None:
            try:
                return path.read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None
        system, remote = self._remote(location)
        if not system.exists(remote):
            return None
        stream = system.open(remote)
        try:
            content = self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream)
        finally:
            stream.close()
        return bytes(content)

    def replace(self, location: str, content: bytes) -> None:
        """Put a small file in place at once, or leave what was there."""
        path = local_path(location)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, content)
            return
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(
            self._path(location).toUri(), self._configuration
        )
        system, remote = self._remote(location)
        scratch = self._path(f"{location}.{os.getpid()}.tmp")
        stream = system.create(scratch, True)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()
        options = self._spark.sparkContext._gateway.new_array(  # type: ignore[union-attr]
            self._jvm.org.apache.hadoop.fs.Options.Rename, 1
        )
        options[0] = self._jvm.org.apache.hadoop.fs.Options.Rename.OVERWRITE
        context.rename(scratch, remote, options)

    def remove(self, location: str) -> None:
        """Remove a file or a directory with all it has; nothing happens if it is not there."""
        path = local_path(location)
        if path is None:
            system, remote = self._remote(location)
            system.delete(remote, True)
        elif path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    @property
    def _jvm(self) -> Any:
        return self._spark.sparkContext._jvm

    @property
    def _configuration(self) -> Any:
        return self._spark.sparkContext._jsc.hadoopConfiguration()

    def _path(self, location: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(location)

    def _remote(self, location: str) -> tuple[Any, Any]:
        remote = self._path(location)
        try:
            return remote.getFileSystem(self._configuration), remote
        except (
            Py4JJavaError,
            PySparkException,
        ) as error:  # nobody claims the scheme, or it refuses
            reason = str(error).strip().splitlines()[-1].strip()
            raise LocationError(f"{location} cannot be reached: {reason}") from error
