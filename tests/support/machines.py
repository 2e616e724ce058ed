"""Machines of one bot: roots in which real operations are handed to the bot that runs on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lumia.pkg import basis, turn
from lumia.pkg.bringing import Root
from lumia.pkg.deploying import Outcome, hand_over
from lumia.pkg.layout import Layout
from lumia.pkg.lockfile import Lock
from lumia.pkg.model import Kind, Plan
from lumia.ports import Transport
from lumia.runtime import Runtime
from tests.support.packages import Bot, Shop
from tests.support.shelf import packages_of
from tests.support.workers import bot_root

SECRET = "5e" * 32
"""Of the bot: its machines have the same key."""


class Machine(Bot):
    """A bot root in which operations are handed to the bot that runs on it. url: of the broker."""

    def __init__(self, root: Path, shop: Shop) -> None:
        self.layout, self.shop = Layout(bot_root(root)), shop
        (root / "plugins").mkdir()
        (root / "data").mkdir()
        (root / "data" / "secret.key").write_text(SECRET)
        (root / "data" / "secret.key").chmod(0o600)
        self.bot: Runtime | None = None
        self.outcome = Outcome("stopped")
        self._token = 0
        self.shelf: Path | None = None
        """Wheels of the Python packages that plugins ask for; None leaves the packages as they are."""

    def install(self, name: str, version: str, code: str = "", **manifest: Any) -> Outcome:  # type: ignore[override]
        """Install, upgrade or downgrade, and hand it over; raises `OperationError` when that is undone."""
        with self.in_turn():
            self.shop.publish(name, version, {"plugin.py": f"VERSION = {version!r}\n{code}"}, **manifest)
            kind: Kind = "upgrade" if name in self.lock.plugins else "install"
            plan = Plan(python={name: tuple(manifest.get("python_dependencies", ()))})
            packages = packages_of(plan, self.layout.root, self.shelf) if self.shelf else None
            self.run(self.action(kind, name, version), deploy=self.deploy, packages=packages)
        return self.outcome

    def drop(self, name: str) -> Outcome:
        """Remove a plugin, and hand that over."""
        with self.in_turn():
            self.run(self.action("remove", name), deploy=self.deploy)
        return self.outcome

    @property
    def _place(self) -> tuple[Transport, Root]:
        assert self.bot is not None and self.bot.config is not None
        return self.bot.transport, Root(self.layout.root, self.bot.config)

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """Have the turn, and this machine in step with the bot, as `pkg` does before it plans."""
        transport, root = self._place
        with turn.take(self.layout.root) as self._token:
            basis.require(root, transport.deployments())
            yield

    def deploy(self, lock: Lock) -> Outcome:
        """Hand a lock over."""
        transport, root = self._place
        self.outcome = hand_over(transport, root, lock.plugins, turn=self._token, wait=60.0)
        return self.outcome
