"""The blob store: media by reference, so that a Box stays small (DESIGN §7).

A blob is a file `data/blobs/<2 hex>/<64 hex>` named by the SHA-256 of its bytes; the same bytes are stored once. What
nobody has used for a while is collected.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from lumia.errors import BlobError

MAX_BYTES = 32 * 1024 * 1024
KEEP_SECONDS = 7 * 24 * 3600.0

_MAGIC: tuple[tuple[bytes, int, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", 0, "image/png"),
    (b"\xff\xd8\xff", 0, "image/jpeg"),
    (b"GIF87a", 0, "image/gif"),
    (b"GIF89a", 0, "image/gif"),
    (b"WEBP", 8, "image/webp"),
    (b"%PDF-", 0, "application/pdf"),
    (b"OggS", 0, "audio/ogg"),
    (b"ID3", 0, "audio/mpeg"),
    (b"\xff\xfb", 0, "audio/mpeg"),
    (b"\xff\xf3", 0, "audio/mpeg"),
    (b"\xff\xf2", 0, "audio/mpeg"),
    (b"fLaC", 0, "audio/flac"),
    (b"WAVE", 8, "audio/wav"),
    (b"ftyp", 4, "video/mp4"),
    (b"\x1aE\xdf\xa3", 0, "video/webm"),
    (b"PK\x03\x04", 0, "application/zip"),
    (b"PK\x05\x06", 0, "application/zip"),
)
_MEDIA_TYPE = re.compile(r"(?P<essence>[\w!#$&^.+-]+/[\w!#$&^.+-]+)(?:;[\x20-\x7e]{0,100})?", re.ASCII)
_CHECKED = {media for _, _, media in _MAGIC}


@dataclass(frozen=True)
class BlobRef:
    """What travels instead of the bytes. digest: SHA-256 in hex. size: bytes."""

    digest: str
    size: int
    media_type: str

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return asdict(self)


class Blobs:
    """The blob store of one bot root."""

    def __init__(
        self, folder: Path, *, max_bytes: int = MAX_BYTES, allowed: tuple[str, ...] = ("*/*",), touch: bool = True
    ) -> None:
        """touch: note on each blob that it was used, so that it is kept."""
        self._folder = folder
        self._max = max_bytes
        self._allowed = allowed
        self._touch = touch

    def at(self, folder: Path | None = None, *, touch: bool = True) -> Blobs:
        """Return a store that takes the same, in another folder if one is given; touch: as for the class."""
        return Blobs(folder or self._folder, max_bytes=self._max, allowed=self._allowed, touch=touch)

    def put(self, data: bytes, media_type: str) -> BlobRef:
        """Store bytes and return their reference.

        Raises `BlobError` when they are too large, of a refused type, or not what `media_type` says.
        """
        media_type = self._checked(data, media_type)
        ref = BlobRef(hashlib.sha256(data).hexdigest(), len(data), media_type)
        path = self._path(ref.digest)
        try:
            if not _used_again(path, len(data)):
                _write(path, data)
        except OSError as error:
            raise BlobError(f"blob {ref.digest[:12]} can't be written to {path.parent}: {error}") from error
        return ref

    def get(self, ref: BlobRef | dict[str, Any] | str) -> bytes:
        """Return the bytes of a reference or digest; raises `BlobError` when they are gone or damaged."""
        digest = _digest(ref)
        with self.open(digest) as file:
            data = file.read()
        if hashlib.sha256(data).hexdigest() != digest:
            raise BlobError(f"blob {digest[:12]} in {self._folder} is damaged: its bytes don't match its name")
        return data

    def open(self, ref: BlobRef | dict[str, Any] | str) -> BinaryIO:
        """Return a file to read the bytes from, unchecked, to be closed by the caller; raises `BlobError`."""
        digest = _digest(ref)
        path = self._path(digest)
        try:
            file = path.open("rb")
        except OSError as error:
            raise BlobError(f"blob {digest[:12]} is not in {self._folder} (collected, or from another bot)") from error
        with suppress(OSError):  # a folder that is only readable serves reads
            if self._touch:
                os.utime(path)
        return file

    def collect(self, unused_for: float = KEEP_SECONDS, *, now: float | None = None) -> int:
        """Remove blobs that nobody has stored or read for `unused_for` seconds; returns their number."""
        limit = (time.time() if now is None else now) - unused_for
        gone = 0
        for path in self._folder.glob("??/*"):
            try:
                if path.stat().st_mtime < limit:
                    path.unlink()
                    gone += 1
            except FileNotFoundError:
                continue
        return gone

    def _checked(self, data: bytes, media_type: str) -> str:
        if not isinstance(data, bytes):
            raise BlobError(f"a blob is bytes, got a {type(data).__name__}")
        essence = _essence(media_type)
        if len(data) > self._max:
            raise BlobError(f"a blob of {len(data)} bytes is over the limit of {self._max}; raise [blobs] max_bytes")
        if not any(_fits(essence, allowed) for allowed in self._allowed):
            raise BlobError(f"media type {media_type!r} is refused; [blobs] allowed is {', '.join(self._allowed)}")
        if essence in _CHECKED and not _looks_like(data, essence):
            raise BlobError(f"these {len(data)} bytes say they are {essence}, but don't begin like it")
        return essence + media_type[len(essence) :]

    def _path(self, digest: str) -> Path:
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
            raise BlobError(f"{digest[:80]!r} is no blob digest (64 hexadecimal characters)")
        return self._folder / digest[:2] / digest


def _used_again(path: Path, size: int) -> bool:
    """Tell whether the bytes are there already, and note that they were used; a cut-off file is written anew."""
    try:
        os.utime(path)
        return path.stat().st_size == size
    except FileNotFoundError:
        return False


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _essence(media_type: str) -> str:
    found = _MEDIA_TYPE.fullmatch(media_type) if isinstance(media_type, str) else None
    if found is None:
        raise BlobError(f"{str(media_type)[:80]!r} is no media type such as image/png")
    return found["essence"].lower()


def _digest(ref: BlobRef | dict[str, Any] | str) -> str:
    if isinstance(ref, BlobRef):
        return ref.digest
    return str(ref.get("digest", "") if isinstance(ref, dict) else ref)


def _fits(media_type: str, allowed: str) -> bool:
    kind, _, rest = allowed.partition("/")
    mine, _, detail = media_type.partition("/")
    return bool(mine and detail) and kind in ("*", mine) and rest in ("*", detail)


def _looks_like(data: bytes, media_type: str) -> bool:
    return any(media == media_type and data[at : at + len(magic)] == magic for magic, at, media in _MAGIC)


def _blobs() -> Blobs:
    from lumia import runtime

    found = runtime.current().blobs
    if found is None:
        raise BlobError("this bot was opened without a blob store")
    return found


def put(data: bytes, media_type: str) -> BlobRef:
    """Store bytes in the running bot's blob store and return their reference."""
    return _blobs().put(data, media_type)


def get(ref: BlobRef | dict[str, Any] | str) -> bytes:
    """Return the bytes of a reference or digest."""
    return _blobs().get(ref)


def open(ref: BlobRef | dict[str, Any] | str) -> BinaryIO:
    """Return a file to read a blob's bytes from, to be closed by the caller."""
    return _blobs().open(ref)
