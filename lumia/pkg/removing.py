"""Planning `pkg -R`, `pkg enable` and `pkg disable`: what others need stays, unless somebody insists."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lumia.errors import PlanError
from lumia.manifest import hyphenated
from lumia.pkg import world as worlds
from lumia.pkg.ground import Ground, did_you_mean, must_fit, python_of
from lumia.pkg.model import Action, Kind, Plan


def plan_remove(names: Sequence[str], root: Path, *, purge: bool = False, force: bool = False) -> Plan:
    """Return the plan that removes plugins, users before what they use.

    purge: their settings go, too. force: although others need them.
    """
    ground = Ground.read(root)
    gone = {locked.name: locked for locked in map(ground.installed, names)}
    after = {name: one for name, one in ground.world.items() if name not in gone}
    notes = _needed(ground, frozenset(gone), force, "remove")
    orphans = " ".join(_orphans(ground, after))
    if orphans:
        notes.append(f"nothing needs {orphans} any more, which came along with others; `pkg -R {orphans}` removes it")
    order = [name for name in reversed(worlds.ordered(ground.world)) if name in gone]
    actions = tuple(Action("remove", name, before=gone[name]) for name in order)
    return Plan(actions, frozenset(gone) if purge else frozenset(), python_of(after), tuple(notes))


def _orphans(ground: Ground, after: worlds.World) -> list[str]:
    """Return what came as a dependency and was needed until now."""
    came = [name for name, one in after.items() if one.locked and not one.locked.requested]
    return sorted(name for name in came if worlds.ranges(ground.world, name) and not worlds.ranges(after, name))


def plan_switch(names: Sequence[str], root: Path, *, enabled: bool, force: bool = False) -> Plan:
    """Return the plan that turns plugins on or off, also Lumia's own: they stay installed."""
    ground = Ground.read(root)
    after = dict(ground.world)
    notes: list[str] = []
    for name in map(hyphenated, names):
        if name not in after:
            raise PlanError(f"no plugin is named {name!r}; {did_you_mean(name, after, 'pkg -Q --all')}")
        if after[name].enabled == enabled:
            notes.append(f"{name} is {'enabled' if enabled else 'disabled'} already")
        after[name] = worlds.switched(after[name], enabled)
    changed = frozenset(name for name in after if after[name].enabled != ground.world[name].enabled)
    if enabled:
        must_fit(ground.world, after)
    else:
        notes += _needed(ground, changed, force, "disable")
    kind: Kind = "enable" if enabled else "disable"
    order = worlds.ordered(after) if enabled else list(reversed(worlds.ordered(ground.world)))
    actions = [Action(kind, name, ground.world[name].locked, after[name].locked) for name in order if name in changed]
    return Plan(tuple(actions), frozenset(), python_of(after), tuple(notes))


def _needed(ground: Ground, gone: frozenset[str], force: bool, verb: str) -> list[str]:
    """Return warnings about what still needs the plugins in `gone`; raises `PlanError` unless forced."""
    users = worlds.dependents(ground.world, gone)
    told = [f"{' and '.join(others)} needs {name}" for name, others in users.items()]
    if told and not force:
        others = sorted({other for found in users.values() for other in found})
        raise PlanError(f"{'; '.join(told)}: {verb} {' and '.join(others)}, too, or use --force, "
                        f"with which it no longer loads")  # fmt: skip
    return [f"{one} and will not load without it" for one in told]
