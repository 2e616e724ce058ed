"""What `[journal]` in config/lumia.toml says to the archiver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

DAY = 86400.0


@dataclass(frozen=True)
class ArchiveSettings:
    """Sizes in bytes, times in seconds; the meaning of each is in `lumia/core-schema.toml`."""

    max_bytes: int = 64 << 20
    hot: float = 300.0
    compact_after: float = 60.0
    keep: float = 30 * DAY
    spill_bytes: int = 256 << 20

    @classmethod
    def of(cls, config: Any) -> ArchiveSettings:
        """Return the settings of a bot's configuration (a `ConfigStore`), the defaults without one."""
        if config is None:
            return cls()
        journal = config.core.journal
        return cls(journal.max_bytes, journal.hot, journal.compact_after, journal.keep_days * DAY, journal.spill_bytes)
