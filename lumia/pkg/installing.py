"""Planning `pkg -S`: what was asked for and everything it needs (spec §13.3)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lumia.errors import PlanError
from lumia.manifest import hyphenated
from lumia.pkg import requests
from lumia.pkg.ground import Ground
from lumia.pkg.model import Locked, Plan, Request
from lumia.pkg.settled import plan_of
from lumia.pkg.solving import Choice, Solver
from lumia.pkg.sources import Sources, lookup, same_place
from lumia.pkg.text import plain
from lumia.pkg.versions import Offer, Source, version_of

_COMMIT = re.compile("[0-9a-f]{40}")


def plan_install(asked: Sequence[Request], sources: Sources, *, force: bool = False) -> Plan:
    """Return the plan that installs what was asked for with everything it needs; upgrades what is older.

    force: also what is installed just so, from another place than before, or at a tag that was moved.
    """
    ground = Ground.read(sources.root)
    solver = Solver(ground.world, sources)
    named: set[str] = set()
    for request in asked:
        choice = _asked_for(request, ground, solver, force)
        named.add(choice.name)
        if isinstance(choice, Locked):
            continue
        twin = solver.chosen.get(choice.name)
        if twin is not None and twin.staged.locked.digest != choice.staged.locked.digest:
            raise PlanError(f"{choice.name} was asked for twice, by {twin.request.text} and {request.text}; name one")
        solver.take(choice)
    solver.settle()
    return plan_of(ground, solver, force=force, named=frozenset(named))


def _asked_for(request: Request, ground: Ground, solver: Solver, force: bool) -> Choice | Locked:
    """Return the version to take, or what is installed and stays as it is."""
    if request.name is not None:
        _must_be_free(request.name, ground)
    source = lookup(solver.sources, request)
    offer = _offer(request, source)
    locked = ground.lock.plugins.get(request.name or "")
    if (
        locked is not None
        and offer is not None
        and not request.tag
        and not force
        and same_place(source.url, locked.url)
        and not ground.is_gone(locked.name)
    ):
        current = version_of(locked.version)
        if current is not None and current >= offer.version:
            newer = "" if current == offer.version else f", newer than {offer.version}"
            solver.notes.append(f"{locked.name} {locked.version} is installed already{newer}")
            return locked
    staged = solver.sources.stage(request, source, offer)
    name = staged.locked.name
    _must_be_free(name, ground)
    _same_source(ground.lock.plugins.get(name), source, solver, force)
    _not_moved(ground.lock.plugins.get(name), staged.locked, force)
    if name not in ground.world:
        like = requests.look_alike(name, frozenset(ground.world))
        solver.notes += [f"{name} looks like {like}, which is another plugin: see that you mean it"] if like else []
    if offer is not None and offer.yanked is not None:
        solver.notes.append(f"{name} {offer.version} was withdrawn: {plain(offer.yanked)}")
    return Choice(staged, request, source, fixed=bool(request.tag), asked=True)


def _offer(request: Request, source: Source) -> Offer | None:
    """Return the version a request means, None for what a place has without a tag."""
    if source.origin == "folder":
        return None
    if request.tag:
        found = source.find(request.tag)
        if found is None and source.origin == "git" and _COMMIT.fullmatch(request.tag):
            return None
        if found is None:
            raise PlanError(f"{request.text}: there is no version {request.tag}; there are {source.listed}")
        return found
    if source.latest is None and source.offers:
        best = source.offers[0]
        raise PlanError(f"{request.text} has no released version, only {source.listed}; name one: "
                        f"`pkg -S {request.text}@{best.tag}`")  # fmt: skip
    return source.latest


def _must_be_free(name: str, ground: Ground) -> None:
    present = ground.world.get(hyphenated(name))
    if present is None or present.locked is not None:
        return
    if present.own:
        raise PlanError(f"{name} comes with Lumia; a plugin installed beside it needs another name")
    raise PlanError(f"plugins/{present.name} holds a plugin that `pkg` did not install; move it away first")


def _same_source(locked: Locked | None, source: Source, solver: Solver, force: bool) -> None:
    if locked is None or same_place(locked.url, source.url):
        return
    before, after = requests.public_url(locked.url), requests.public_url(source.url)
    if source.origin == "registry" and not force:
        raise PlanError(f"{locked.name} was installed from {before}, the registry has it at {after}; if that is right, "
                        f"`pkg -S {locked.name} --force` changes over")  # fmt: skip
    solver.notes.append(f"{locked.name} changes its source from {before} to {after}")


def _not_moved(locked: Locked | None, now: Locked, force: bool) -> None:
    if locked is None or now.origin == "folder" or force or locked.tag is None or locked.tag != now.tag:
        return
    if locked.digest != now.digest:
        raise PlanError(f"the tag {now.tag} of {now.name} was moved: it was {locked.commit[:12]} when it was installed "
                        f"and is {now.commit[:12]} now; if its author tells you why, --force takes it")  # fmt: skip
