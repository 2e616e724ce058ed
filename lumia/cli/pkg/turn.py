"""The turn of one change: it is taken before anything is planned, or after somebody was asked, who may take long."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from lumia.cli.pkg.opened import Opened
    from lumia.cli.pkg.watching import Watch
    from lumia.pkg.joining import Target


class Turn:
    """Is given back at the end of the block.

    target: what the bot works with already, where the change brings this root in step with it; any other is refused on
    a root that isn't. wait: for another `pkg` on any machine. replaces: the change may replace a deployment record that
    no machine takes. token: to be handed over with it. refused: there is such a record.
    """

    def __init__(self, bot: Opened, watch: Watch, target: Target | None, *, wait: bool, replaces: bool) -> None:
        self._bot, self._watch, self._wait, self._replaces = bot, watch, wait, replaces
        self._held = ExitStack()
        self._taken = self.refused = False
        self.target = target
        self.token = 0

    def __enter__(self) -> Turn:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.__exit__(kind, error, trace)

    def look(self) -> None:
        """Raise `PkgError` when this root is not in step with the bot, or the bot no longer at the target."""
        from lumia.pkg import deploying, joining

        if self.target is not None:
            joining.confirm(self._bot.root, self.target)
        else:
            self.refused = deploying.require_in_step(self._bot.root, self._watch.telling, replace=self._replaces)

    def take(self) -> None:
        """Take the turn, unless that was done, then `look`; raises `HeldError` naming who has it without `wait`."""
        from lumia.pkg import turn

        if not self._taken:
            timeout = None if self._wait else 0
            self.token = self._held.enter_context(turn.take(self._bot.root, timeout=timeout, say=self._watch.telling))
            self._taken = True
            self.look()
