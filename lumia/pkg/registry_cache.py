"""Answers of a registry, kept on disk with their ETags; a damaged or missing file only costs a request."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

MAX_FILES = 500
KEPT_HEADERS = ("x-total-count",)


@dataclass(frozen=True)
class Kept:
    """An answer and when it came (seconds of the epoch)."""

    etag: str
    at: float
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    def of(cls, headers: Mapping[str, str], body: bytes) -> Kept:
        """Return an answer that came just now."""
        kept = {name: headers[name] for name in KEPT_HEADERS if name in headers}
        return cls(headers.get("etag", ""), time.time(), kept, body)

    @property
    def day(self) -> str:
        """Return when it came, to the minute, in local time."""
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(self.at))


class Cache:
    """A folder of answers, the oldest of which are dropped."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, url: str) -> Kept | None:
        """Return the answer kept for `url`."""
        try:
            data = json.loads(self._file(url).read_bytes())
            if data["url"] != url:
                return None
            return Kept(str(data["etag"]), float(data["at"]), dict(data["headers"]), base64.b64decode(data["body"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, url: str, kept: Kept) -> None:
        """Keep an answer; a disk that takes none is no reason to fail."""
        data = {"url": url, **asdict(kept), "headers": dict(kept.headers), "body": base64.b64encode(kept.body).decode()}
        file = self._file(url)
        new = file.with_name(f".{file.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(json.dumps(data), "utf-8")
            new.replace(file)
            self._trim()

    def drop(self, url: str) -> None:
        """Forget the answer to `url`."""
        with contextlib.suppress(OSError):
            self._file(url).unlink(missing_ok=True)

    def clear(self) -> int:
        """Forget all answers; return the bytes that are free now."""
        freed = 0
        for file in self._files():
            with contextlib.suppress(OSError):
                size = file.stat().st_size
                file.unlink()
                freed += size
        return freed

    def _trim(self) -> None:
        files = self._files()
        if len(files) > MAX_FILES:
            for file in sorted(files, key=lambda one: one.stat().st_mtime)[: len(files) - MAX_FILES]:
                file.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return [file for file in self._folder.glob("*.json") if file.is_file()] if self._folder.is_dir() else []

    def _file(self, url: str) -> Path:
        return self._folder / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"
