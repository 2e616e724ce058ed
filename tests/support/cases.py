"""Bot roots in which one operation is about to be cut off, and whether they are as before or as after it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from lumia.pkg import failpoints, layers, operation
from lumia.pkg.layout import Layout
from lumia.pkg.model import Action, Kind, Plan
from lumia.pkg.transaction import clean
from tests.support.packages import Bot, Shop
from tests.support.shelf import packages_of
from tests.support.wheels import wheels

SETTINGS = '[sides]\ntype = "int"\ndefault = 6\n'
HOOKS = ("pre_install", "post_install", "pre_upgrade", "post_upgrade", "pre_uninstall", "post_uninstall")
VERSIONS = {
    "1.0.0": {"config-schema.toml": SETTINGS + '[luck]\ntype = "float"\n', ".gitignore": "*.db\n", "a/b.py": "B = 1\n"},
    "1.1.0": {"config-schema.toml": SETTINGS + '[loud]\ntype = "bool"\n', ".gitignore": "*.db\n", "c.py": "C = 1\n"},
}
LAST = ("finish.done", "clean", "undo-finish.done", "undo-clean")
"""Then everything is in place, and only what was kept for undoing may lie about."""
OPERATIONS: list[Kind] = ["install", "upgrade", "remove"]


class Cases:
    """Bot roots in which one operation is about to happen, as many as wanted."""

    def __init__(self, folder: Path, kind: Kind, *, hooks: bool = False, packages: bool = False) -> None:
        self.folder, self.kind, self.made = folder / f"{kind}{hooks}{packages}", kind, 0
        self.shelf = None
        if packages:
            self.shelf = wheels(self.folder / "wheels", *(("layered", version) for version in VERSIONS))
        shop = Shop(self.folder / "shop")
        scripts = {f"hooks/{name}.py": "print('ran')\n" for name in HOOKS} if hooks else {}
        for version, files in VERSIONS.items():
            shop.publish("dice", version, {**files, **scripts})
        self.first = Bot(self.folder / "first", shop)
        if kind != "install":
            self.run(self.first, self._plan(self.first.action("install", "dice", "1.0.0")))
            (self.first.layout.folder("dice") / "score.db").write_text("7")
            settings = self.first.layout.settings("dice")
            settings.write_text(settings.read_text().replace("luck = 0.0", "luck = 0.5  # mine"))
        stray = self.first.layout.plugins / "by_hand"
        stray.mkdir()
        (stray / "plugin.py").write_text("")
        self.action = self.first.action(kind, "dice", {"install": "1.0.0", "upgrade": "1.1.0"}.get(kind))
        self.old = self.first.state()
        done, plan = self.next()
        self.points = self._points(done, plan)
        self.new = shape(done.state())
        assert self.new != shape(self.old)

    def next(self) -> tuple[Bot, Plan]:
        """Return a new bot root and the plan of the operation in it."""
        self.made += 1
        root = self.folder / str(self.made)
        shutil.copytree(self.first.layout.root, root, symlinks=True)
        bot = Bot.__new__(Bot)
        bot.layout, bot.shop = Layout(root), self.first.shop
        return bot, self._plan(_moved(self.action, self.first.layout.root, root))

    def _plan(self, action: Action) -> Plan:
        """Each version of the plugin needs the library of its own version, where packages are asked for."""
        needed = {"dice": (f"layered=={action.after.version}",)} if self.shelf and action.after else {}
        return Plan((action,), frozenset({"dice"} if action.kind == self.kind else ()), needed)

    def run(self, bot: Bot, plan: Plan) -> None:
        """Carry out a plan in this process."""
        packages = packages_of(plan, bot.layout.root, self.shelf) if self.shelf else None
        operation.run(plan, layout=bot.layout, packages=packages)

    def _points(self, bot: Bot, plan: Plan) -> list[str]:
        """Carry out a plan and return the failpoints it passed."""
        passed: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(failpoints, "hit", lambda step, plugin="": passed.append(step))
            self.run(bot, plan)
        return list(dict.fromkeys(passed))


def _moved(action: Action, old: Path, new: Path) -> Action:
    if action.staged is None:
        return action
    return replace(action, staged=replace(action.staged, folder=new / action.staged.folder.relative_to(old)))


def shape(state: dict[str, str]) -> dict[str, str]:
    """Return a state without the commit's id, which holds the time."""
    return {**state, "branch": "some" if state.get("branch") else "none"}


def check(cases: Cases, bot: Bot, point: str) -> str:
    """Return whether a bot is as before or as after; fail when it is something between."""
    if point in LAST:
        clean(bot.layout)  # as the next operation does
    state = bot.state()
    assert bot.leftovers() == [], point
    assert layers.name_of_current(bot.layout.root) == layers.named_in(state.get("packages")), point
    if state == cases.old:
        return "old"
    assert shape(state) == cases.new, point
    return "new"
