"""Files that hold passwords: readable by this user alone, and never seen half written."""

from __future__ import annotations

import os
from pathlib import Path


def write_private(file: Path, text: str) -> None:
    """Replace `file` by `text` in one step, with mode 0600."""
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as out:
        out.write(text)
    os.replace(draft, file)
