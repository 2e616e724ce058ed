"""A plan made of the versions that were chosen, held against everything else the bot has."""

from __future__ import annotations

from dataclasses import replace

from lumia.pkg import world as worlds
from lumia.pkg.ground import Ground, must_fit, python_of
from lumia.pkg.model import Action, Kind, Locked, Plan
from lumia.pkg.solving import Choice, Solver
from lumia.pkg.versions import version_of
from lumia.pkg.world import Present


def plan_of(ground: Ground, solver: Solver, *, force: bool, named: frozenset[str] = frozenset()) -> Plan:
    """Return the plan of a settled solver; raises `PlanError` for what would not load.

    force: also versions that are installed just so already. named: plugins that somebody wants for themselves: what
    came as a dependency counts as asked for from then on.
    """
    after = dict(solver.after)
    for name in solver.chosen:
        if name not in ground.world and name in ground.disabled:
            after[name] = worlds.switched(after[name], False)
            solver.notes.append(f"{name} is disabled in config/lumia.toml; `pkg enable {name}` turns it on")
    must_fit(ground.world, after)
    actions = []
    for name in worlds.ordered(after):
        choice = solver.chosen.get(name)
        if choice is None:
            continue
        action = _action(choice, ground.lock.plugins.get(name), after, named)
        if not _changes(action) and not ground.is_gone(name) and not (force and choice.asked):
            solver.notes.append(f"{name} {choice.staged.locked.version} is installed already")
            continue
        actions.append(action)
    changed = {action.name for action in actions}
    actions += [_mark(now) for name, now in ground.lock.plugins.items()
                if name in named - changed and not now.requested]  # fmt: skip
    warnings = [*solver.notes, *(text for one in actions if one.staged for text in one.staged.warnings)]
    return Plan(tuple(actions), frozenset(), python_of(after), tuple(dict.fromkeys(warnings)))


def _mark(now: Locked) -> Action:
    return Action("mark", now.name, now, replace(now, requested=True), reason="came as a dependency, asked for now")


def _action(choice: Choice, before: Locked | None, after: dict[str, Present], named: frozenset[str]) -> Action:
    requested = choice.asked if before is None else before.requested or choice.name in named
    locked = replace(choice.staged.locked, requested=requested, enabled=after[choice.name].enabled)
    staged = replace(choice.staged, locked=locked)
    users = ", ".join(worlds.ranges(after, choice.name))
    reason = "" if choice.asked else f"{users} needs it"
    return Action(_kind(before, locked), choice.name, before, locked, staged, reason)


def _kind(before: Locked | None, after: Locked) -> Kind:
    if before is None:
        return "install"
    old, new = version_of(before.version), version_of(after.version)
    tagged = before.tag is not None and after.tag is not None
    return "downgrade" if tagged and old is not None and new is not None and new < old else "upgrade"


def _changes(action: Action) -> bool:
    return (
        action.before is None
        or action.after is None
        or replace(action.before, key=None, requested=True) != replace(action.after, key=None, requested=True)
    )
