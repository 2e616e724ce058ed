"""What a bot has before an operation is planned, and what a plan is held against."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from lumia.config import ConfigStore
from lumia.errors import PlanError
from lumia.manifest import hyphenated
from lumia.pkg import lockfile
from lumia.pkg import world as worlds
from lumia.pkg.layout import Layout
from lumia.pkg.lockfile import Lock
from lumia.pkg.model import Locked, Plan
from lumia.pkg.world import Present


@dataclass(frozen=True)
class Ground:
    """What a bot has before an operation."""

    root: Path
    lock: Lock
    world: dict[str, Present]
    disabled: frozenset[str]

    @classmethod
    def read(cls, root: Path) -> Ground:
        """Read the bot at `root`; raises `PkgError` and `ConfigError`."""
        lock = lockfile.read(root)
        disabled = frozenset(map(hyphenated, ConfigStore(root).core.plugins.disabled))
        return cls(root, lock, worlds.read(root, lock, disabled), disabled)

    def is_gone(self, name: str) -> bool:
        """Tell whether the folder of an installed plugin was taken away by hand."""
        return name in self.lock.plugins and not Layout(self.root).folder(name).exists()

    def installed(self, name: str) -> Locked:
        """Return the entry of an installed plugin; raises `PlanError` saying what `name` is instead."""
        name = hyphenated(name)
        if name in self.lock.plugins:
            return self.lock.plugins[name]
        present = self.world.get(name)
        if present is not None and present.own:
            raise PlanError(f"{name} comes with Lumia and changes with it; `pkg disable {name}` turns it off")
        if present is not None:
            raise PlanError(f"{name} was not installed by `pkg`: it is yours to change, in plugins/{name}")
        raise PlanError(f"{name} is not installed; {did_you_mean(name, self.lock.plugins)}")


def did_you_mean(name: str, known: Collection[str], listing: str = "pkg -Q") -> str:
    """Return the close of a message about a name that is not known. listing: the command that shows `known`."""
    close = difflib.get_close_matches(name, sorted(known), n=1)
    return f"did you mean {close[0]!r}?" if close else f"`{listing}` lists what is"


def applied(plan: Plan, root: Path, *, strict: bool) -> dict[str, Present]:
    """Return the plugins as they will be when `plan` is carried out on what is there now.

    Another `pkg` may have been at work since it was made: strict raises `PlanError` for what doesn't fit any more.
    """
    world = Ground.read(root).world
    after = dict(world)
    for action in plan.actions:
        if action.kind == "remove":
            after.pop(action.name, None)
        elif action.staged is not None and action.after is not None:
            after[action.name] = Present.of_staged(action.staged, enabled=action.after.enabled)
        elif action.name in after and action.kind != "mark":
            after[action.name] = worlds.switched(after[action.name], action.kind == "enable")
    if strict:
        must_fit(world, after)
    return after


def must_fit(before: dict[str, Present], after: dict[str, Present]) -> None:
    """Raise `PlanError` for what doesn't fit in `after` and did before."""
    known = {problem.key for problem in worlds.problems(before)}
    new = [problem.text for problem in worlds.problems(after) if problem.key not in known]
    if new:
        raise PlanError("; ".join(new))


def python_of(world: dict[str, Present]) -> dict[str, tuple[str, ...]]:
    """Return what the plugins in the bot's own processes need of Python packages: plugin → PEP 508 texts."""
    found: Iterable[Present] = (world[name] for name in sorted(world))
    return {
        one.name: one.manifest.python_dependencies
        for one in found
        if one.enabled and one.manifest and one.manifest.python_dependencies and one.manifest.isolation is None
    }
