"""A finished change goes to the running bot (docs/hot-reload.md)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lumia.pkg.layout import Layout

if TYPE_CHECKING:
    from lumia.pkg.deploying import Outcome
    from lumia.pkg.lockfile import Lock


class Deployer:
    """Hands a lock over, with the Python packages that the root's processes start with by now.

    turn: the token of the turn to do so (`lumia.pkg.turn`). built: seconds that building those packages took here.
    Other machines may need as long, so they get twice that in addition.
    """

    def __init__(self, root: Path, say: Callable[[str], None], turn: int = 0) -> None:
        self._root = root
        self._say = say
        self._turn = turn
        self.built = 0.0
        self.outcome: Outcome | None = None

    def __call__(self, lock: Lock) -> Outcome:
        """Return what became of it."""
        from lumia.pkg import deploying

        wait, operation = deploying.WAIT_SECONDS + 2 * self.built, _operation(self._root)
        self.outcome = deploying.deploy(
            self._root, lock.plugins, operation=operation, turn=self._turn, wait=wait, on_step=self._say
        )
        return self.outcome


def _operation(root: Path) -> str:
    """Return the id of the operation that is going on."""
    try:
        data = json.loads(Layout(root).journal.read_bytes())
    except (OSError, ValueError):
        return ""
    return str(data.get("id", "")) if isinstance(data, dict) else ""
