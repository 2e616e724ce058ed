"""The log of an operation: data/pkg/log/<id>.log, with the output of hooks and without secrets."""

from __future__ import annotations

import contextlib
import os
import tomllib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from lumia.pkg import files
from lumia.pkg.layout import Layout
from lumia.secrets import SECRET_FILE, is_secret_key, redact

_KEPT = 200


class OperationLog:
    """Writes one operation's log as well as the disk lets it: no operation fails for want of a log."""

    def __init__(self, layout: Layout, id: str) -> None:
        self.path = layout.log / f"{id}.log"
        self._secrets = frozenset(_secrets(layout.root))
        with contextlib.suppress(OSError):
            files.make_folder(layout.log)
            for old in sorted(layout.log.iterdir())[:-_KEPT]:
                old.unlink()

    def redact(self, text: str) -> str:
        """Return a text without the bot's secrets."""
        return str(redact(text, self._secrets))

    def line(self, step: str, plugin: str = "", text: str = "") -> None:
        """Write a line."""
        now = datetime.now().astimezone().isoformat(timespec="milliseconds")
        line = " ".join(filter(None, (now, step, plugin, self.redact(text)))) + "\n"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        with contextlib.suppress(OSError), open(os.open(self.path, flags, 0o600), "a", encoding="utf-8") as file:
            file.write(line)


def _secrets(root: Path) -> Iterator[str]:
    yield from (value for name, value in os.environ.items() if is_secret_key(name))
    with contextlib.suppress(OSError, UnicodeDecodeError):
        yield (root / SECRET_FILE).read_text("ascii").strip()
    for file in (root / "config").glob("*.toml"):
        with contextlib.suppress(OSError, ValueError, RecursionError):
            yield from _named(tomllib.loads(file.read_text("utf-8")))


def _named(data: dict[str, Any]) -> Iterator[str]:
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _named(value)
        elif is_secret_key(key):
            yield from (item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str))
