"""Exports: whole run trees in one compressed file, to be explained and replayed on a machine without the bot's servers.

The file is gzipped JSONL: a header, then journal entries and blobs in any order, then a line that says how many there
were, so that a file that was cut short is noticed. docs/history.md describes each line.
"""

from __future__ import annotations

import gzip
import hmac
import json
import os
import re
import zlib
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from lumia.errors import ExportError
from lumia.history import MemoryHistory
from lumia.journal import JournalEntry

FORMAT = 1
SUFFIX = ".jsonl.gz"
Blob = Callable[[str], "bytes | None"]
_DIGEST = re.compile(r'"digest":\s*"([0-9a-f]{64})"')
_SIGNED = re.compile(r'^\{"d":"')
_DOMAIN = b"lumia.export.secret.v1"


@dataclass(frozen=True)
class Header:
    """The first line. created, since, until: seconds since 1970. plugins: generation of each that was loaded.

    redacted: secrets were taken out of the Boxes that runs began with.
    secret: a fingerprint of the bot's secret, which tells whether signed Boxes can be read elsewhere, and nothing else.
    """

    bot: str = ""
    lumia: str = ""
    created: float = 0.0
    since: float = 0.0
    until: float = 0.0
    secret: str = ""
    plugins: Mapping[str, str] = field(default_factory=dict)
    blobs: bool = False
    redacted: bool = False


@dataclass(frozen=True)
class Export:
    """A file that was read. signed: how many entries hold values only a bot with the same secret can read."""

    header: Header
    entries: tuple[JournalEntry, ...]
    blobs: Mapping[str, bytes]
    signed: int = 0

    @property
    def history(self) -> MemoryHistory:
        """Return its runs."""
        return MemoryHistory(self.entries)


def fingerprint(secret: bytes) -> str:
    """Return what tells two secrets apart without giving either away."""
    return hmac.digest(secret, _DOMAIN, "sha256").hex()[:16]


def blob_digests(entry: JournalEntry) -> set[str]:
    """Return the digests of the blobs an entry refers to."""
    return digests(json.dumps(entry.detail))


def digests(text: str) -> set[str]:
    """Return the digests of the blobs that JSON text refers to, also within texts in it."""
    return set(_DIGEST.findall(text.replace('\\"', '"')))


class Writer:
    """Writes an export; it stands under its name once `close` has written the last line."""

    def __init__(self, path: Path, header: Header) -> None:
        self._path, self._draft = path, path.with_name(f".{path.name}.{os.getpid()}.part")
        self.entries = self.blobs = 0
        try:
            descriptor = os.open(self._draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        except OSError as error:
            raise ExportError(f"{path}: can't be written: {error.strerror or error}") from error
        self._raw = os.fdopen(descriptor, "wb")
        self._file: IO[str] = gzip.open(self._raw, "wt", encoding="utf-8")  # noqa: SIM115 (closed by close or abandon)
        self._line({"lumia_export": FORMAT, **asdict(header)})

    def _line(self, value: dict[str, Any]) -> None:
        self._file.write(f"{json.dumps(value, separators=(',', ':'))}\n")

    def entry(self, entry: JournalEntry) -> None:
        """Add an entry."""
        self._line({"c": entry.cursor, "t": entry.time, "e": json.loads(entry.dump())})
        self.entries += 1

    def blob(self, digest: str, data: bytes) -> None:
        """Add a blob."""
        self._line({"b": digest, "data": b2a_base64(data, newline=False).decode()})
        self.blobs += 1

    def close(self) -> None:
        """Write the last line and give the file its name."""
        self._line({"end": True, "entries": self.entries, "blobs": self.blobs})
        self._file.close()
        self._raw.close()
        self._draft.replace(self._path)

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._file.close()
        self._raw.close()
        self._draft.unlink(missing_ok=True)


def read(path: Path) -> Export:
    """Return what an export holds; raises `ExportError` naming the line of a file that is damaged or no export."""
    lines = _lines(path)
    header = _header(path, next(lines, (1, {})))
    entries: list[JournalEntry] = []
    blobs: dict[str, bytes] = {}
    end: Mapping[str, Any] | None = None
    number = 1
    for number, value in lines:
        if end is not None:
            raise ExportError(f"{path}, line {number}: something follows the last line; the file is damaged")
        if "e" in value:
            entries.append(_entry(path, number, value))
        elif "b" in value:
            blobs[str(value["b"])] = _blob(path, number, value)
        elif value.get("end") is True:
            end = value
    _check_end(path, number, end, len(entries), len(blobs))
    return Export(header, tuple(entries), blobs, sum(map(is_signed, entries)))


def is_signed(entry: JournalEntry) -> bool:
    """Tell whether an entry holds a value that only a bot with the same secret can read."""
    return any(isinstance(text, str) and _SIGNED.match(text) for text in _wires(entry))


def _wires(entry: JournalEntry) -> Iterator[object]:
    yield entry.detail.get("box")
    yield entry.detail.get("value")


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each line's number and value."""
    number = 0
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                yield number, _parsed(path, number, line)
    except FileNotFoundError as error:
        raise ExportError(f"{path} is not there; `lumia journal export FILE{SUFFIX}` makes one") from error
    except gzip.BadGzipFile as error:
        raise _damaged(path, number + 1, f"no gzip data ({error})") from error
    except (EOFError, zlib.error, UnicodeDecodeError) as error:
        raise _damaged(path, number + 1, f"it can't be unpacked from here on ({error})") from error
    except OSError as error:
        raise ExportError(f"{path}: can't be read: {error.strerror or error}") from error


def _damaged(path: Path, number: int, what: str) -> ExportError:
    return ExportError(f"{path}, line {number}: {what}; the file is damaged or no export: copy it again")


def _parsed(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, number, f"no JSON ({error})") from error
    if not isinstance(value, dict):
        raise _damaged(path, number, "no JSON object")
    return value


def _header(path: Path, first: tuple[int, dict[str, Any]]) -> Header:
    number, value = first
    if "lumia_export" not in value:
        raise _damaged(path, number, 'it does not begin with "lumia_export"')
    if value["lumia_export"] != FORMAT:
        raise ExportError(
            f"{path}: written in format {value['lumia_export']} by Lumia {value.get('lumia', '?')}, and this one reads "
            f"format {FORMAT}; use the version that wrote it, or a later one"
        )
    known = {name: value[name] for name in Header.__dataclass_fields__ if name in value}
    return Header(**known)


def _entry(path: Path, number: int, value: dict[str, Any]) -> JournalEntry:
    try:
        return JournalEntry.load(json.dumps(value["e"]), cursor=str(value["c"]), time=float(value["t"]))
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, number, f"no journal entry ({type(error).__name__}: {error})") from error


def _blob(path: Path, number: int, value: dict[str, Any]) -> bytes:
    try:
        return a2b_base64(value["data"], strict_mode=True)
    except (KeyError, TypeError, Base64Error) as error:
        raise _damaged(path, number, f"no blob ({type(error).__name__}: {error})") from error


def _check_end(path: Path, number: int, end: Mapping[str, Any] | None, entries: int, blobs: int) -> None:
    if end is None:
        raise _damaged(path, number + 1, "the last line is missing, the file was cut short")
    if (end.get("entries"), end.get("blobs")) != (entries, blobs):
        told = f"{end.get('entries')} entries and {end.get('blobs')} blobs"
        raise _damaged(path, number, f"it tells of {told}, and there are {entries} and {blobs}")


def write(writer: Writer, trees: Iterable[Iterable[JournalEntry]], blob: Blob | None = None) -> int:
    """Write whole trees and the blobs they refer to, and return the number of trees.

    blob: returns a digest's bytes, or None for one that is gone; without it no blob is written.
    """
    number, written = 0, set[str]()
    for entries in trees:
        number += 1
        for entry in entries:
            writer.entry(entry)
            if blob is not None:
                fresh = blob_digests(entry) - written
                written |= fresh
                _write_blobs(writer, fresh, blob)
    return number


def _write_blobs(writer: Writer, digests: set[str], blob: Blob) -> None:
    for digest in sorted(digests):
        data = blob(digest)
        if data is not None:
            writer.blob(digest, data)
