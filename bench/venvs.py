"""The peers' virtual environments: made once per lock file, kept under bench/.peers."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / ".peers"
LOCKS = Path(__file__).parent / "peers"
STAMP = "bench-lock"
INSTALL_SECONDS = 600


class PeerMissing(Exception):
    """A peer's environment can't be made here; the text says why."""


def lock_of(peer: str) -> Path:
    """Return the lock file of a peer."""
    return LOCKS / f"{peer}.txt"


def stamp(peer: str) -> str:
    """Return what an environment must have been made of to be used again: the lock file and this Python."""
    return hashlib.sha256(lock_of(peer).read_bytes() + sys.version.encode()).hexdigest()


def python_of(peer: str, folder: Path = FOLDER) -> str:
    """Return the interpreter of a peer's environment and make it first where it is absent or outdated.

    Raises `PeerMissing` with the last line of what went wrong.
    """
    home = folder / peer
    python = home / "bin" / "python"
    if (home / STAMP).is_file() and (home / STAMP).read_text() == stamp(peer) and python.exists():
        return str(python)
    print(f"making the environment of {peer}", file=sys.stderr)
    shutil.rmtree(home, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    _run(peer, [sys.executable, "-m", "venv", str(home)])
    _run(peer, [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--require-hashes",
                "-r", str(lock_of(peer))])  # fmt: skip
    (home / STAMP).write_text(stamp(peer))
    return str(python)


def _run(peer: str, command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise PeerMissing(f"{peer}: its packages were not installed within {INSTALL_SECONDS} s") from error
    if done.returncode:
        errors = [line for line in (done.stderr or done.stdout).strip().splitlines() if line.startswith("ERROR")]
        last = errors[-1] if errors else (done.stderr or done.stdout).strip()[-200:]
        raise PeerMissing(f"{peer}: its environment can't be made: {last}")


def versions(python: str, packages: tuple[str, ...]) -> dict[str, str]:
    """Return package → version as an environment has them."""
    code = f"import json, importlib.metadata as m; print(json.dumps({{p: m.version(p) for p in {packages!r}}}))"
    found: dict[str, str] = json.loads(subprocess.run([python, "-c", code], capture_output=True, check=True).stdout)
    return found
