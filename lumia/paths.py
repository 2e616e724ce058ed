"""Where things are: the base (Lumia's own folders) and the bot root."""

from __future__ import annotations

import os
from pathlib import Path

from lumia.errors import RootNotFoundError

CONFIG_FILE = Path("config") / "lumia.toml"
ISOLATED = "LUMIA_ISOLATED"
"""Names, in the environment of a process, the isolated plugin that it executes."""
ISOLATED_WORKER = "LUMIA_ISOLATED_WORKER"
"""Names, in the environment of a worker, the isolated plugin whose processes it looks after."""
_PACKAGE = Path(__file__).resolve().parent


def base() -> Path:
    """Return the folder that holds `tasks/`, `handlers/` and `adapters/`.

    In a checkout that is the repository root; an installed wheel carries the folders as data in `lumia/_base`.
    """
    packed = _PACKAGE / "_base"
    return packed if packed.is_dir() else _PACKAGE.parent


def find_root(start: Path | str | None = None) -> Path:
    """Return the bot root: `start`, else `LUMIA_ROOT`, else the nearest folder upward with `config/lumia.toml`.

    Raises `RootNotFoundError` when there is none.
    """
    named = start or os.environ.get("LUMIA_ROOT")
    if named:
        return _checked(Path(named).expanduser().resolve(), "LUMIA_ROOT" if start is None else "root")
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / CONFIG_FILE).is_file():
            return folder
    raise RootNotFoundError(
        f"no bot root: neither {here} nor a folder above it holds {CONFIG_FILE}; "
        "make one with `lumia init DIR`, or set LUMIA_ROOT to an existing one"
    )


def _checked(folder: Path, named_by: str) -> Path:
    if (folder / CONFIG_FILE).is_file():
        return folder
    raise RootNotFoundError(
        f"{named_by} names {folder}, which holds no {CONFIG_FILE}; make a bot root there with `lumia init {folder}`"
    )
