"""Planning `pkg -U`: the latest version of what is installed, never an older one (spec §13.3; DESIGN §11)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lumia.errors import PkgError, PlanError
from lumia.pkg import requests
from lumia.pkg.ground import Ground
from lumia.pkg.model import Locked, Plan, Request
from lumia.pkg.settled import plan_of
from lumia.pkg.solving import Choice, Solver, request_of
from lumia.pkg.sources import Sources
from lumia.pkg.text import plain
from lumia.pkg.versions import Offer, Source, version_of


def plan_upgrade(names: Sequence[str], sources: Sources, *, force: bool = False) -> Plan:
    """Return the plan that brings the named plugins to their latest versions, all when none is named.

    When all are meant, one whose place can't be reached is left as it is, with a warning.
    """
    ground = Ground.read(sources.root)
    solver, left = Solver(ground.world, sources), list[str]()
    chosen = [ground.installed(name) for name in names] or list(ground.lock.plugins.values())
    for locked in chosen:
        try:
            choice = _newer(locked, solver)
        except PkgError as error:
            if names:
                raise
            solver.notes.append(f"{locked.name} is left as it is: {error}")
            left.append(locked.name)
            continue
        if choice is not None:
            solver.take(choice)
    solver.settle()
    for locked in ground.lock.plugins.values():
        reason = sources.revoked().versions.get((locked.name, locked.tag or ""))
        if reason is not None and locked.name not in solver.chosen:
            solver.notes.append(f"{locked.name} {locked.version} was revoked: {plain(reason)}")
    return replace(plan_of(ground, solver, force=force), left=tuple(left))


def _newer(locked: Locked, solver: Solver) -> Choice | None:
    source = solver.sources.of(locked)
    request = request_of(source, locked.name)
    current = version_of(locked.version)
    if source.offers:
        latest = source.latest
        if latest is None or (current is not None and latest.version <= current):
            _tell_moved(locked, source, solver)
            return None
        return _staged_as(locked, request, source, latest, solver)
    found = _staged_as(locked, request, source, None, solver)
    now = version_of(found.staged.locked.version)
    older = source.origin == "git" and current is not None and now is not None and now < current
    return None if older or found.staged.locked.digest == locked.digest else found


def _staged_as(locked: Locked, request: Request, source: Source, offer: Offer | None, solver: Solver) -> Choice:
    staged = solver.sources.stage(request, source, offer)
    if staged.locked.name != locked.name:
        raise PlanError(f"{requests.public_url(source.url)} holds {staged.locked.name!r} now, not {locked.name!r}")
    return Choice(staged, request, source, asked=True)


def _tell_moved(locked: Locked, source: Source, solver: Solver) -> None:
    same = next((offer for offer in source.offers if offer.tag == locked.tag), None)
    if same is not None and same.commit not in (None, locked.commit):
        solver.notes.append(
            f"the tag {locked.tag} of {locked.name} was moved since it was installed; it stays as it is"
        )
