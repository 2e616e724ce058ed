"""`pkg sync` without a lock: this bot root gets what the running bot works with, and nothing is handed to the bot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lumia.cli.pkg.handing_over import Deployer

if TYPE_CHECKING:
    from lumia.pkg.deploying import Outcome
    from lumia.pkg.joining import Target
    from lumia.pkg.lockfile import Lock


class Joiner(Deployer):
    """Takes the place of who hands a lock over: the bot has it already."""

    def __init__(self, root: Path, say: Callable[[str], None], turn: int, target: Target) -> None:
        super().__init__(root, say, turn)
        self._target = target

    def __call__(self, lock: Lock) -> Outcome:
        """Note that this root is in step; a lock that is put back since something failed is told to nobody."""
        from lumia.pkg.deploying import Outcome
        from lumia.pkg.joining import join

        if lock != self._target.lock:
            return Outcome("stopped", note="this bot root is as it was")
        self.outcome = join(self._root, self._target)
        return self.outcome
