"""Where a bot's archive is: the database's URL, and the folder of the files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lumia import system

ENVIRONMENT = system.DATABASE_URL
NOTED = system.NOTED_DATABASE
FOLDER = Path("data") / "journal"


@dataclass(frozen=True)
class Place:
    """url: of the database, "" when there is none: the files are the archive then."""

    folder: Path
    url: str = field(default="", repr=False)


def place_of(root: Path) -> Place:
    """Return where the archive of the bot in `root` is: `LUMIA_DATABASE_URL`, else what `lumia up` noted."""
    return Place(root / FOLDER, system.database_url(root))
