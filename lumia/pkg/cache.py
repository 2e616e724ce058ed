"""The download cache: one bare mirror per repository below data/pkg/cache, capped in size (spec §13.2, `pkg -Sc`)."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lumia.atomic import locked
from lumia.errors import SourceError
from lumia.pkg.git_process import run

MAX_BYTES = 512 * 1024 * 1024
_WAIT = 600.0
_SECONDS = 30.0


class Cache:
    """Mirrors by public URL. folder: made when it is needed. max_bytes: the least recently used beyond it go."""

    def __init__(self, folder: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self.folder = folder
        self._max_bytes = max_bytes

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the cache for this process; another one waits. Raises `SourceError` when it can't be had."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with locked(self.folder, timeout=_WAIT):
                yield
        except TimeoutError:
            raise SourceError(f"{self.folder}: another `pkg` is still fetching; try again when it is done") from None
        except OSError as error:
            raise SourceError(f"{self.folder} can't be used: {error.strerror}; free the disk, or `pkg -Sc`") from error

    def mirror(self, url: str) -> Path:
        """Return the mirror of a public URL, made if absent. Call it inside `held`."""
        path = self.path(url)
        if not (path / "HEAD").exists():
            self.drop(path)
            run(["init", "-q", "--bare", "--template=", "--", str(path)], timeout=_SECONDS)
            (path / "description").write_text(url + "\n", encoding="utf-8")
        os.utime(path)
        return path

    def path(self, url: str) -> Path:
        """Return where the mirror of a public URL is, or would be."""
        last = re.sub(r"[^a-z0-9-]+", "-", url.rstrip("/").rpartition("/")[2].lower().removesuffix(".git"))[:40]
        return self.folder / f"{last.strip('-') or 'repository'}-{hashlib.sha256(url.encode()).hexdigest()[:16]}.git"

    def drop(self, mirror: Path) -> None:
        """Remove one mirror."""
        shutil.rmtree(mirror, ignore_errors=True)

    def trim(self) -> None:
        """Remove the mirrors used longest ago until the rest fits, the newest one excepted."""
        mirrors = sorted(self._mirrors(), key=lambda path: path.stat().st_mtime, reverse=True)
        total = 0
        for number, mirror in enumerate(mirrors):
            total += _size(mirror)
            if total > self._max_bytes and number:
                self.drop(mirror)

    def clear(self) -> int:
        """Remove all mirrors and return how many bytes they held."""
        if not self.folder.is_dir():
            return 0
        with self.held():
            freed = sum(map(_size, self._mirrors()))
            for mirror in self._mirrors():
                self.drop(mirror)
        return freed

    def _mirrors(self) -> list[Path]:
        return [path for path in self.folder.glob("*.git") if path.is_dir() and not path.is_symlink()]


def _size(folder: Path) -> int:
    return sum(os.lstat(os.path.join(parent, name)).st_size for parent, _, names in os.walk(folder) for name in names)
