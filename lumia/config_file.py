"""Reading a settings file with care: encoding, line ends, size, and errors that name the line (spec §8.1)."""

from __future__ import annotations

import dataclasses
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lumia.atomic import locked, replace
from lumia.errors import ConfigError

_BOM = b"\xef\xbb\xbf"
_LARGEST = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells two states of a file apart without reading it."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int
    mode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        """Return the stamp in a `stat` result; times in nanoseconds."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode)


@dataclass(frozen=True, slots=True)
class Document:
    """A file's text with plain line ends, and how to write it back as it was. stamp: None when there is no file."""

    text: str = ""
    bom: bool = False
    crlf: bool = False
    stamp: Stamp | None = None

    def encode(self, text: str) -> bytes:
        """Return the bytes of `text` with this file's line ends and byte-order mark."""
        body = text.replace("\n", "\r\n") if self.crlf else text
        return (_BOM if self.bom else b"") + body.encode()


def read(path: Path) -> Document:
    """Read a settings file; raises `FileNotFoundError`, else `ConfigError` saying why it is unreadable."""
    try:
        data, stamp = _read_bytes(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}; give this user the right to read it") from error
    bom = data.startswith(_BOM)
    try:
        text = data.removeprefix(_BOM).decode()
    except UnicodeDecodeError as error:
        raise ConfigError(_not_utf8(path, data, error)) from error
    plain = text.replace("\r\n", "\n")
    return Document(plain, bom, 2 * text.count("\r\n") > plain.count("\n"), stamp)


def read_if_there(path: Path) -> Document:
    """Read a settings file; an absent one is an empty document without a stamp."""
    try:
        return read(path)
    except FileNotFoundError:
        return Document()


def rewrite(path: Path, edit: Callable[[Document], str], *, mode: int = 0o644) -> Document:
    """Replace a file's text by what `edit` makes of the present one, as the only writer; a link stays a link.

    mode: of a new file. Raises `OSError`, `ConfigError` and what `edit` raises; then the file is as it was.
    """
    target = Path(os.path.realpath(path))
    with locked(target.parent):
        document = read_if_there(target)
        text = edit(document)
        if text == document.text and document.stamp is not None:
            return document
        replace(target, document.encode(text), mode=mode)
        return dataclasses.replace(document, text=text, stamp=Stamp.of(target.stat()))


def _read_bytes(path: Path) -> tuple[bytes, Stamp]:
    # Non-blocking, for a pipe in the place of the file would wait for its writer for ever.
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            raise ConfigError(f"{path} is no settings file: it must be a regular file of at most 4 MiB; move it away")
        return file.read(), Stamp.of(status)


def _not_utf8(path: Path, data: bytes, error: UnicodeDecodeError) -> str:
    where = data.count(b"\n", 0, error.start) + 1
    utf16 = " (it looks like UTF-16)" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else ""
    return f"{path}: line {where} is not UTF-8{utf16}; save the file as UTF-8"


def parse(text: str, path: Path | str) -> dict[str, Any]:
    """Return the data of a file's text; raises `ConfigError` naming file, line and column."""
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is no valid TOML: {error}; correct that line") from error
