"""Random sequences of operations against a model: what is installed, enabled, set and edited (hypothesis).

Operations run in this process, on real files and real git. Some fail or die at a random point; dying is an exception
that nothing in an operation catches, after which a recovery has to do.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lumia.config import ConfigStore
from lumia.errors import OperationError, PlanError
from lumia.pkg import failpoints, history, lockfile, operation, recovery
from lumia.pkg.lockfile import Lock
from lumia.pkg.model import Action, Plan
from lumia.pkg.transaction import clean
from tests.support.packages import Bot, Shop
from tests.support.plugins import git

NAMES = ("dice", "memory-graph", "cards")
VERSIONS = ("1.0.0", "1.1.0", "2.0.0")
SETTING = {"1.0.0": "luck", "1.1.0": "luck", "2.0.0": "speed"}
MEMORY = Path("/dev/shm")
names = st.sampled_from(NAMES)
versions = st.sampled_from(VERSIONS)
troubles = st.one_of(st.none(), st.tuples(st.sampled_from(["dies", "fails"]), st.integers(0, 45)))


class Died(BaseException):
    """The process was killed, as far as the operation can tell."""


class Operations(RuleBasedStateMachine):
    """One bot root."""

    shop: Shop

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
        self.bot = Bot(Path(self._folder.name) / "bot", self.shop)
        self.lock = Lock()
        self.past: list[Lock] = []
        self.values: dict[str, int] = {}
        self.edited: set[str] = set()

    def teardown(self) -> None:
        self._folder.cleanup()

    @initialize()
    def by_hand(self) -> None:
        """Somebody keeps a plugin of their own in plugins/."""
        (self.bot.layout.plugins / "own").mkdir()
        (self.bot.layout.plugins / "own" / "plugin.py").write_text("", "utf-8")

    # --- What happens -------------------------------------------------------------------------------------------------

    @rule(name=names, version=versions, trouble=troubles, force=st.booleans())
    def put(self, name: str, version: str, trouble: tuple[str, int] | None, force: bool) -> None:
        """Install, upgrade or downgrade a plugin."""
        now = self.lock.plugins.get(name)
        older = now is not None and now.version > version
        action = self.bot.action("install" if now is None else "downgrade" if older else "upgrade", name, version)
        assert action.after is not None
        if now is not None:
            action = replace(action, after=replace(action.after, enabled=now.enabled))
        if name in self.edited and not force:
            self._refused(action)
            return
        if self._run(Plan((action,)), trouble, force):
            self.edited.discard(name)

    @rule(name=names, purge=st.booleans(), trouble=troubles, force=st.booleans())
    def remove(self, name: str, purge: bool, trouble: tuple[str, int] | None, force: bool) -> None:
        """Remove a plugin that is there."""
        if name not in self.lock.plugins:
            return
        action = self.bot.action("remove", name)
        if name in self.edited and not force:
            self._refused(action)
            return
        if self._run(Plan((action,), frozenset({name} if purge else ())), trouble, force):
            self.edited.discard(name)
            if purge:
                self.values.pop(f"{name}.sides", None)

    @rule(name=names, trouble=troubles)
    def switch(self, name: str, trouble: tuple[str, int] | None) -> None:
        """Disable a plugin, or enable it again."""
        now = self.lock.plugins.get(name)
        if now is not None:
            kind: Any = "disable" if now.enabled else "enable"
            self._run(Plan((Action(kind, name, now, replace(now, enabled=not now.enabled)),)), trouble)

    @rule(first=versions, second=versions, trouble=troubles)
    @precondition(lambda self: not self.edited)
    def both(self, first: str, second: str, trouble: tuple[str, int] | None) -> None:
        """Install two that aren't there, in one operation."""
        if not {"dice", "cards"} & self.lock.plugins.keys():
            actions = (self.bot.action("install", "dice", first), self.bot.action("install", "cards", second))
            self._run(Plan(actions), trouble)

    @rule(trouble=troubles)
    @precondition(lambda self: self.past and not self.edited)
    def rollback(self, trouble: tuple[str, int] | None) -> None:
        """Bring back what was there before the last operation."""
        plan = history.rollback(self.bot.layout.root)
        for action in plan.actions:
            assert action.after == self.past[-1].plugins.get(action.name)
        self._run(plan, trouble)

    @rule(name=names, value=st.integers(2, 99))
    def set(self, name: str, value: int) -> None:
        """Somebody changes a setting."""
        path = self.bot.layout.settings(name)
        if path.exists():
            old = self.values[f"{name}.sides"]
            path.write_text(path.read_text("utf-8").replace(f"sides = {old}\n", f"sides = {value}\n"), "utf-8")
            self.values[f"{name}.sides"] = value

    @rule(name=names)
    def edit(self, name: str) -> None:
        """Somebody edits a plugin's file."""
        if name in self.lock.plugins:
            (self.bot.layout.folder(name) / "plugin.py").write_text("MINE = 1\n", "utf-8")
            self.edited.add(name)

    # --- What must be so ----------------------------------------------------------------------------------------------

    @invariant()
    def all_fits(self) -> None:
        """Check everything against the model."""
        layout = self.bot.layout
        assert lockfile.read(layout.root) == self.lock
        there = {path.name for path in layout.plugins.iterdir() if path.name[0] != "."}
        folders = {layout.folder(name).name for name in self.lock.plugins}
        assert there - {"plugins.lock"} == folders | {"own"}
        for name, entry in self.lock.plugins.items():
            code = (layout.folder(name) / "plugin.py").read_text("utf-8")
            assert code == ("MINE = 1\n" if name in self.edited else f"VERSION = {entry.version!r}\n")
        off = {name for name, entry in self.lock.plugins.items() if not entry.enabled}
        assert set(ConfigStore(layout.root, environ={}).core.plugins.disabled) == off
        for key, value in self.values.items():
            assert f"\nsides = {value}\n" in layout.settings(key.partition(".")[0]).read_text("utf-8")
        settings = {path.stem for path in layout.config.glob("*.toml")} - {"lumia"}
        assert settings == {key.partition(".")[0] for key in self.values}
        if self.past:
            assert lockfile.parse(git(layout.plugins, "show", "HEAD:plugins.lock")) == self.lock
            assert git(layout.plugins, "rev-list", "--count", "HEAD") == str(len(self.past))
        assert [path for path in self.bot.leftovers() if "/undo/" not in path] == []
        assert not layout.journal.exists()

    def _refused(self, action: Action) -> None:
        with pytest.raises(PlanError, match="edited by hand"):
            self.bot.run(action)

    def _run(self, plan: Plan, trouble: tuple[str, int] | None, force: bool = False) -> bool:
        """Run an operation with trouble at some passing of a failpoint; return whether it took place."""
        if not plan.actions:
            return False
        after = self.lock
        for action in plan.actions:
            after = after.changed([action.after] if action.after else (), () if action.after else [action.name])
        patch = pytest.MonkeyPatch()
        patch.setattr(failpoints, "hit", _trouble(trouble))
        try:
            operation.run(plan, layout=self.bot.layout, force=force)
            took_place = True
        except Died:
            patch.undo()
            recovered = recovery.recover(self.bot.layout.root)
            took_place = recovered.outcome == "finished" if recovered else lockfile.read(self.bot.layout.root) == after
            clean(self.bot.layout)
        except OperationError:
            took_place = False
        finally:
            patch.undo()
        if took_place:
            self.past.append(self.lock)
            self.lock = after
            for action in plan.actions:
                if action.staged is not None:
                    self.values.setdefault(f"{action.name}.sides", 6)
        return took_place


def _trouble(trouble: tuple[str, int] | None) -> Callable[[str, str], None]:
    kind, left = trouble or ("", -1)

    def hit(step: str, plugin: str = "") -> None:
        nonlocal left
        left -= 1
        if left == -1 and kind == "dies":
            raise Died
        if left == -1 and kind == "fails":
            raise OSError(5, "failpoint", step)

    return hit


def machine(shop: Shop) -> type[Operations]:
    """Return the machine, with its plugins published in `shop`."""
    for name in NAMES:
        for version in VERSIONS:
            schema = f'[sides]\ntype = "int"\ndefault = 6\n[{SETTING[version]}]\ntype = "float"\n'
            shop.publish(name, version, {"config-schema.toml": schema})
    return type("OperationsOfShop", (Operations,), {"shop": shop})
