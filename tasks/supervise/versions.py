"""Plugins whose files are others than those the running workers have loaded: what was changed counts after a restart.

Workers publish what they loaded with their routes (`lumia:routes`, plugin → generation). A generation ends with a
digest of the plugin's files, so it can be compared without importing anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from lumia.discovery import digest, discover
from lumia.errors import BackendUnavailableError, LumiaError
from tasks.supervise.resp import connect

ROUTES = "lumia:routes"
RESTART = "restart it: `lumia down && lumia up`"


def running(url: str) -> dict[str, str]:
    """Return the generation of each plugin that the workers have published; empty when the server doesn't answer."""
    if not url:
        return {}
    with suppress(BackendUnavailableError, ValueError), connect(url) as redis:
        text = redis.ask("HGET", ROUTES, "table")
        table = json.loads(text) if isinstance(text, bytes) else None
        found = table.get("plugins") if isinstance(table, dict) else None
        return {str(name): str(made) for name, made in found.items()} if isinstance(found, dict) else {}
    return {}


def outdated(base: Path, root: Path, loaded: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each plugin of which the workers have another version than the files here."""
    if not loaded:
        return
    with suppress(LumiaError, OSError):
        here = {found.name: found.folder for found in discover(base, root, ()) if not found.error}
        for name, made in sorted(loaded.items()):
            if name not in here:
                yield f"{name}: the running bot still has {made}, and its files are gone"
            elif digest(here[name]) not in re.split(r"[+.]", made):  # what follows it is of the plugins it depends on
                yield f"{name}: the running bot has {made}, and its files were changed since"
