"""Asks one process again and again whether it answers, in a thread of its own, so a hung one delays nobody."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_STARTING, _STEADY = 0.1, 10.0
"""Seconds between two questions, before and after the first answer."""


class Watch:
    """The last answers of one process. answered: it has answered at least once; silent: seconds since it last did."""

    def __init__(self, probe: Callable[[], bool], name: str) -> None:
        self._probe = probe
        self._over = threading.Event()
        self._last = 0.0
        self._thread = threading.Thread(target=self._ask, name=f"watch-{name}", daemon=True)
        self._thread.start()

    @property
    def answered(self) -> bool:
        return self._last > 0.0

    @property
    def silent(self) -> float:
        return time.monotonic() - self._last if self.answered else 0.0

    def close(self) -> None:
        """Ask no more; a question that is out is not waited for."""
        self._over.set()

    def _ask(self) -> None:
        while not self._over.is_set():
            if self._probe():
                self._last = time.monotonic()
            self._over.wait(_STEADY if self.answered and self.silent < _STEADY else _STARTING)
