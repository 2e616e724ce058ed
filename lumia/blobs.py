"""The blob store: media by reference, so that a Box stays small (DESIGN §7).

A blob is a file `data/blobs/<2 hex>/<64 hex>` named by the SHA-256 of its bytes; the same bytes are stored once. What
nobody has used for a while is collected. Bytes on their way in are in `data/blobs/in`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from lumia import mediatypes
from lumia.blob_incoming import Incoming, writing
from lumia.errors import BlobError, BlobWriteError

MAX_BYTES = 32 * 1024 * 1024
KEEP_SECONDS = 7 * 24 * 3600.0

_MEDIA_TYPE = re.compile(r"(?P<essence>[\w!#$&^.+-]+/[\w!#$&^.+-]+)(?:;[\x20-\x7e]{0,100})?", re.ASCII)


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
        self,
        folder: Path,
        *,
        max_bytes: int = MAX_BYTES,
        allowed: tuple[str, ...] = ("*/*",),
        touch: bool = True,
        keep: float = KEEP_SECONDS,
        min_free: int = 0,
    ) -> None:
        """Make a store that keeps what is used for `keep` seconds, and leaves `min_free` bytes free on the disk.

        touch: note on each blob that it was used, so that it is kept.
        """
        self._folder = folder
        self._max = max_bytes
        self._allowed = allowed
        self._touch = touch
        self._keep = keep
        self._min_free = min_free

    @property
    def max_bytes(self) -> int:
        """Return the size of the largest blob that is taken."""
        return self._max

    def at(self, folder: Path | None = None, *, touch: bool = True) -> Blobs:
        """Return a store that takes the same, in another folder if one is given; touch: as for the class."""
        return Blobs(folder or self._folder, max_bytes=self._max, allowed=self._allowed, touch=touch, keep=self._keep,
                     min_free=self._min_free)  # fmt: skip

    def put(self, data: bytes, media_type: str) -> BlobRef:
        """Store bytes and return their reference.

        Raises `BlobError` when they are too large, of a refused type, or not what `media_type` says.
        """
        if not isinstance(data, bytes):
            raise BlobError(f"a blob is bytes, got a {type(data).__name__}")
        self.check(data[: mediatypes.HEAD], len(data), media_type)
        with self.incoming() as file:
            file.write(data)
            return file.keep(media_type)

    def check(self, head: bytes, size: int, media_type: str) -> str:
        """Return the media type as it is kept; raises `BlobError` as `put` does for bytes that begin with `head`."""
        essence = _essence(media_type)
        if size > self._max:
            raise BlobError(f"a blob of {size} bytes is over the limit of {self._max}; raise [blobs] max_bytes")
        if not any(mediatypes.fits(essence, allowed) for allowed in self._allowed):
            raise BlobError(f"media type {media_type!r} is refused; [blobs] allowed is {', '.join(self._allowed)}")
        if not mediatypes.agrees(head, essence):
            raise BlobError(f"these {size} bytes say they are {essence}, but don't begin like it")
        return essence + media_type[len(essence) :]

    @contextmanager
    def incoming(self) -> Iterator[Incoming]:
        """Return where bytes can be written piece by piece; without a `keep` nothing is left of them."""
        folder = self._folder / "in"
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                yield Incoming(self, file, Path(name))
        finally:
            Path(name).unlink(missing_ok=True)

    def room(self, size: int) -> None:
        """Raise `BlobError` when `size` more bytes would leave less free on the disk than is to be left."""
        free = shutil.disk_usage(self._folder).free if self._min_free else size
        if free - size < self._min_free:
            raise BlobWriteError(
                f"the disk of {self._folder} has {free >> 20} MiB left, and [blobs] min_free leaves "
                f"{self._min_free >> 20} MiB to the rest of the bot; make room"
            )

    def holds(self, ref: BlobRef | dict[str, Any] | str) -> bool:
        """Tell whether a blob is here, and note that it was used."""
        path = self.path(_digest(ref))
        with suppress(OSError):
            if self._touch:
                os.utime(path)
        return path.is_file()

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
        path = self.path(digest)
        try:
            file = path.open("rb")
        except OSError as error:
            raise BlobError(f"blob {digest[:12]} is not in {self._folder} (collected, or from another bot)") from error
        with suppress(OSError):  # a folder that is only readable serves reads
            if self._touch:
                os.utime(path)
        return file

    def collect(
        self,
        unused_for: float | None = None,
        *,
        now: float | None = None,
        held: Callable[[], set[str]] | None = None,
    ) -> int:
        """Remove blobs that nobody has stored or read for `unused_for` seconds (default: `keep`); returns their number.

        held: asked, once there is something to remove, for the digests of what is kept all the same.
        """
        limit = (time.time() if now is None else now) - (self._keep if unused_for is None else unused_for)
        old = [path for path in self._folder.glob("??/*") if _last_used(path) < limit]
        kept = held() if old and held is not None else set[str]()
        gone = 0
        for path in old:
            if path.name in kept:
                with suppress(FileNotFoundError):
                    os.utime(path)
            elif _last_used(path) < limit:
                with suppress(FileNotFoundError):  # another process was quicker
                    path.unlink()
                    gone += 1
        return gone

    def path(self, digest: str) -> Path:
        """Return where the bytes of a digest are, or would be; raises `BlobError` for what is none."""
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
            raise BlobError(f"{digest[:80]!r} is no blob digest (64 hexadecimal characters)")
        return self._folder / digest[:2] / digest


def _last_used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")


def _essence(media_type: str) -> str:
    found = _MEDIA_TYPE.fullmatch(media_type) if isinstance(media_type, str) else None
    if found is None:
        raise BlobError(f"{str(media_type)[:80]!r} is no media type such as image/png")
    return found["essence"].lower()


def _digest(ref: BlobRef | dict[str, Any] | str) -> str:
    if isinstance(ref, BlobRef):
        return ref.digest
    return str(ref.get("digest", "") if isinstance(ref, dict) else ref)


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


def holds(ref: BlobRef | dict[str, Any] | str) -> bool:
    """Tell whether a blob is here, and note that it was used."""
    return _blobs().holds(ref)


def incoming() -> AbstractContextManager[Incoming]:
    """Return where bytes can be written piece by piece, see `Blobs.incoming`."""
    return _blobs().incoming()


def max_bytes() -> int:
    """Return the size of the largest blob that is taken."""
    return _blobs().max_bytes
