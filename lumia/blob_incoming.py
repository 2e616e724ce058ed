"""A blob on its way in: written piece by piece beside the store, given its name when all of it is there."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from lumia import mediatypes
from lumia.errors import BlobError, BlobWriteError

if TYPE_CHECKING:
    from lumia.blobs import BlobRef, Blobs


class Incoming:
    """Bytes on their way into a blob store. size: how many came so far. head: how they begin."""

    def __init__(self, blobs: Blobs, file: IO[bytes], path: Path) -> None:
        self._blobs, self._file, self._written = blobs, file, path
        self._hash = hashlib.sha256()
        self.size, self.head = 0, b""

    def write(self, data: bytes) -> None:
        """Take more; raises `BlobError` when it gets too large, or the disk is full."""
        self.size += len(data)
        if self.size > self._blobs.max_bytes:
            raise BlobError(f"it is over the limit of {self._blobs.max_bytes} bytes; raise [blobs] max_bytes")
        if len(self.head) < mediatypes.HEAD:
            self.head += data[: mediatypes.HEAD - len(self.head)]
        self._hash.update(data)
        with writing(self._written.parent):
            self._blobs.room(len(data))
            self._file.write(data)

    def keep(self, media_type: str) -> BlobRef:
        """Store what came and return its reference; raises `BlobError` as `Blobs.put` does."""
        from lumia.blobs import BlobRef  # it imports this module

        ref = BlobRef(self._hash.hexdigest(), self.size, self._blobs.check(self.head, self.size, media_type))
        path = self._blobs.path(ref.digest)
        with writing(path.parent):
            if not _used_again(path, self.size):
                self._file.flush()
                os.fsync(self._file.fileno())
                path.parent.mkdir(parents=True, exist_ok=True)
                os.replace(self._written, path)
        return ref


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn what the disk has against writing into `BlobError`."""
    try:
        yield
    except OSError as error:
        raise BlobWriteError(f"the blob can't be written to {folder}: {error.strerror or error}") from error


def _used_again(path: Path, size: int) -> bool:
    """Tell whether the bytes are there already, and note that they were used; a cut-off file is written anew."""
    try:
        os.utime(path)
        return path.stat().st_size == size
    except FileNotFoundError:
        return False
