"""Journal files: what the database can't take yet, or the whole archive where there is no database.

`spill-<from>-<to>.jsonl.gz` holds the stream's rows of that stretch, one JSON line each. A file gets its name only when
its bytes are on the disk, so a reader sees whole files or none.
"""

from __future__ import annotations

import errno
import gzip
import os
import re
import socket
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lumia.atomic import replace
from tasks.archive.rows import Position, StreamRow, cursor_of, position

_NAME = re.compile(r"spill-(\d+-\d+)-(\d+-\d+)\.jsonl\.gz")
_DAMAGED = (OSError, EOFError, zlib.error, ValueError, TypeError)


@dataclass(frozen=True)
class SpillFile:
    """One file. first, last: places of its first and last row. size: bytes on the disk."""

    path: Path
    first: Position
    last: Position
    size: int

    def lines(self) -> list[str]:
        """Return its lines; raises `ValueError` when the file is damaged."""
        try:
            return gzip.decompress(self.path.read_bytes()).decode().splitlines()
        except FileNotFoundError:  # loaded or expired meanwhile
            return []
        except _DAMAGED as error:
            raise ValueError(f"{self.path} is damaged: {error}") from error

    def rows(self, containing: str = "") -> list[StreamRow]:
        """Return its rows, only those whose text contains something; raises `ValueError` when it is damaged."""
        try:
            return [StreamRow.load(line) for line in self.lines() if containing in line]
        except _DAMAGED as error:
            raise ValueError(f"{self.path} is damaged: {error}") from error


class Spill:
    """The journal's folder of one machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def host(self) -> str:
        """The machine whose folder it is."""
        return socket.gethostname()

    def write(self, rows: Sequence[StreamRow]) -> SpillFile:
        """Keep the rows in a new file, on the disk when this returns; raises `OSError` when they can't be kept."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        first, last = rows[0].cursor, rows[-1].cursor
        path = self.folder / f"spill-{first}-{last}.jsonl.gz"
        data = gzip.compress("".join(row.dump() + "\n" for row in rows).encode(), compresslevel=3, mtime=0)
        replace(path, data, mode=0o600)
        return SpillFile(path, position(first), position(last), len(data))

    def files(self) -> list[SpillFile]:
        """Return the files, oldest first."""
        return sorted(self._found(), key=lambda file: (file.first, file.last))

    def _found(self) -> Iterator[SpillFile]:
        for path in self.folder.glob("spill-*.jsonl.gz"):
            match = _NAME.fullmatch(path.name)
            try:
                size = path.stat().st_size
            except FileNotFoundError:
                continue
            if match:
                yield SpillFile(path, position(match[1]), position(match[2]), size)

    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(file.size for file in self._found())

    def remove(self, file: SpillFile) -> None:
        """Delete a file; one that is gone is fine."""
        file.path.unlink(missing_ok=True)

    def set_aside(self, file: SpillFile) -> Path:
        """Rename a damaged file so that it stands in nobody's way."""
        aside = file.path.with_suffix(".damaged")
        os.replace(file.path, aside)
        return aside


def stretch(file: SpillFile) -> str:
    """Return what a file covers, `from – to`."""
    return f"{cursor_of(*file.first)} – {cursor_of(*file.last)}"


def is_full(error: OSError) -> bool:
    """Tell whether an error means that the disk has no room."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)
