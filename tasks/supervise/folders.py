"""Where a supervised bot keeps its files, and the check that they can be written."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from lumia.errors import SupervisorError


@dataclass(frozen=True)
class Folders:
    """The folders of one bot root that `lumia up` writes to; nothing else of the root is touched."""

    root: Path

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def run(self) -> Path:
        return self.data / "run"

    @property
    def logs(self) -> Path:
        return self.data / "logs"

    @property
    def requests(self) -> Path:
        return self.run / "requests"

    @property
    def valkey(self) -> Path:
        return self.data / "valkey"

    @property
    def pgdata(self) -> Path:
        return self.data / "pgdata"

    @property
    def state(self) -> Path:
        return self.run / "state.json"

    @property
    def redis_url(self) -> Path:
        """Holds the URL of the running bot's Redis, 0600, for workers and commands started by hand."""
        return self.run / "redis.url"

    @property
    def database_url(self) -> Path:
        """Holds the URL of the running bot's database, 0600; empty when it has none."""
        return self.run / "database.url"

    @property
    def lock(self) -> Path:
        return self.run / "up.lock"

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def prepare(self) -> None:
        """Make the folders, private where they hold secrets; raise `SupervisorError` when one can't be written."""
        for folder, mode in ((self.data, 0o755), (self.run, 0o700), (self.requests, 0o700), (self.logs, 0o700)):
            _make(folder, mode)


def _make(folder: Path, mode: int) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=mode)
        probe = folder / f".write-{os.getpid()}"
        probe.write_bytes(b"x")
        probe.unlink()
    except OSError as error:
        raise SupervisorError(
            f"{folder} can't be written: {error.strerror or error}; "
            "make it a folder this user may write, or point LUMIA_ROOT at a bot root elsewhere"
        ) from error
