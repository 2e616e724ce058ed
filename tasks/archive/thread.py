"""The archiver's thread in a worker process: beside the keeper, so that a slow disk or database holds up nobody."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from redis.exceptions import RedisError

from lumia.errors import LumiaError
from tasks.archive.archiver import Archiver, log
from tasks.archive.place import place_of
from tasks.archive.settings import ArchiveSettings
from tasks.archive.stream import Stream
from tasks.transport import RedisTransport

PAUSE_SECONDS = 2.0
"""After a failure."""


class ArchiveThread:
    """Every worker process has one; the lease lets one of them work."""

    def __init__(self, root: Path, transport: RedisTransport, config: Any = None) -> None:
        self._archiver = Archiver(Stream(transport), place_of(root), ArchiveSettings.of(config))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lumia-archive", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and let another process go on; waits for a batch, but not for a frozen database."""
        self._stop.set()
        self._thread.join(timeout=5)
        if not self._thread.is_alive():
            with suppress(LumiaError, RedisError):
                self._archiver.close()

    def _run(self) -> None:
        while not self._stop.wait(self._turn()):
            pass

    def _turn(self) -> float:
        try:
            return self._archiver.turn()
        except (LumiaError, RedisError) as error:
            log.warning("archive: %s", error)
        except Exception:
            log.exception("the archive failed; the next turn tries again")
        return PAUSE_SECONDS
