"""What every command needs of the bot root: where things are, and that no cut-off operation is in the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lumia import paths
from lumia.cli import output
from lumia.errors import OperationError
from lumia.pkg import stages
from lumia.pkg.layout import Layout

if TYPE_CHECKING:
    from lumia.cli.pkg.watching import Watch
    from lumia.pkg.registry import Registry
    from lumia.pkg.sources import Sources

FOREVER = 1e9
"""Seconds to wait for another `pkg`, which may run a hook as long as it is allowed to."""


@dataclass(frozen=True)
class Opened:
    """A bot root. warned: sentences that were told already, so that each is told once."""

    root: Path
    warned: set[str] = field(default_factory=set)

    @property
    def layout(self) -> Layout:
        """Return its files."""
        return Layout(self.root)

    def warn(self, text: str) -> None:
        """Tell a warning, unless it was told before."""
        if text not in self.warned:
            self.warned.add(text)
            output.warn(text)

    def registry(self) -> Registry | None:
        """Return the configured registry, None without one."""
        from lumia.config import ConfigStore
        from lumia.pkg.registry import Registry, configured

        url = configured(ConfigStore(self.root))
        return Registry(url, registry_cache(self.layout), warn=self.warn) if url else None

    def sources(self, watch: Watch) -> Sources:
        """Return where versions come from. Progress is shown by `watch`."""
        from lumia.pkg.git import Git
        from lumia.pkg.sources import Sources

        git = Git(self.layout.cache, progress=watch.fetching)
        return Sources(self.root, git, self.registry(), self.warn, watch.doing)


def registry_cache(layout: Layout) -> Path:
    """Return the folder of the registry's kept answers."""
    return layout.data / "registry"


def opened(*, changes: bool = False, wait: bool = True) -> Opened:
    """Return this folder's bot root, after finishing or undoing what a killed `pkg` left, and removing what it staged.

    changes: the command changes plugins, which it may not in a source checkout, and what another `pkg` is just doing
    comes first (wait False: `OperationError` then). A query looks at what is there.
    """
    found = Opened(paths.find_root())
    if changes:
        found.layout.require_bot_root()
    if found.layout.journal.exists():
        try:
            _recover(found, FOREVER if changes and wait else 0.0, changes)
        except OperationError as error:
            if changes:
                raise
            found.warn(str(error))
    if found.layout.staging.is_dir():
        stages.sweep(found.layout.staging)
    return found


def _recover(found: Opened, wait: float, changes: bool) -> None:
    from lumia.cli.pkg.handing_over import Deployer
    from lumia.cli.pkg.watching import Watch
    from lumia.pkg import mutex, turn
    from lumia.pkg.recovery import recover

    watch = Watch()
    try:
        with turn.take(found.root, timeout=wait, say=watch.telling) as token, watch.shown():
            deployer = Deployer(found.root, watch.doing, token)
            done = recover(found.root, deploy=deployer, on_step=watch.step, wait=wait)
    except mutex.HeldError:
        if changes:
            raise
        return
    if done is not None:
        output.note(done.text, style="yellow")
