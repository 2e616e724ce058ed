"""Choosing versions: what was asked for, and whatever that needs, so that everything fits together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from packaging.version import Version

from lumia import __version__
from lumia.errors import PkgError, PlanError
from lumia.pkg import world as worlds
from lumia.pkg.model import Request, Staged
from lumia.pkg.sources import Sources
from lumia.pkg.versions import Offer, Source, fits
from lumia.pkg.world import Present

MOST_ROUNDS = 200


@dataclass(frozen=True)
class Choice:
    """A version that was taken. fixed: somebody asked for just this one. source: None for what can't be chosen anew."""

    staged: Staged
    request: Request
    source: Source
    fixed: bool = False
    asked: bool = False

    @property
    def name(self) -> str:
        """Return the plugin's name."""
        return self.staged.locked.name


@dataclass
class Solver:
    """Takes versions into `after` until nothing is missing. before: what there is now."""

    before: Mapping[str, Present]
    sources: Sources
    core: str = __version__
    chosen: dict[str, Choice] = field(default_factory=dict)
    after: dict[str, Present] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    _refused: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.after = dict(self.before)

    def take(self, choice: Choice) -> None:
        """Put a version into the state that will be."""
        self.chosen[choice.name] = choice
        old = self.before.get(choice.name)
        self.after[choice.name] = Present.of_staged(choice.staged, enabled=old.enabled if old else True)

    def settle(self) -> None:
        """Choose versions for what the taken ones need, and others for those that don't suit their users."""
        for _ in range(MOST_ROUNDS):
            name = self._next_gap()
            if name is None:
                self._drop_unneeded()
                return
            self._fill(name)
        raise PlanError(f"no versions were found that fit together, after {MOST_ROUNDS} tries")

    def _next_gap(self) -> str | None:
        touched = [self.after[name] for name in sorted(self.chosen) if name in self.after]
        for one in touched:
            for name in sorted(one.needs):
                if self._unmet(name, [one.needs[name]]):
                    return name
            if not fits(one.version, worlds.ranges(self.after, one.name).values()):
                return one.name
        return None

    def _unmet(self, name: str, wanted: Iterable[str]) -> bool:
        present = self.after.get(name)
        return present is None or (present.manifest is None) or not fits(present.version, wanted)

    def _fill(self, name: str) -> None:
        users = worlds.ranges(self.after, name)
        self._must_be_changeable(name, users)
        source, request = self._source(name, users)
        now = self.before.get(name)
        lowest = Version(now.version) if now and now.locked and now.locked.tag else None
        refused = self._refused.setdefault(name, {})
        for offer in source.candidates(users.values(), refused):
            if lowest is not None and offer.version < lowest:
                break
            if self._took(name, request, source, offer):
                return
        raise PlanError(self._nothing_fits(name, users, source, lowest))

    def _took(self, name: str, request: Request, source: Source, offer: Offer) -> bool:
        old = self.chosen.get(name)
        if old is not None and old.staged.locked.tag == offer.tag:
            return False
        staged = self.sources.stage(request, source, offer)
        if staged.locked.name != name:
            raise PlanError(f"{source.url} holds the plugin {staged.locked.name!r}, not {name!r}")
        needed = staged.manifest.min_core_version
        if needed is not None and Version(self.core) < Version(needed):
            self._refused[name][offer.tag] = f"{offer.version} needs Lumia {needed} or newer"
            return False
        if old is not None and old.asked:
            self.notes.append(f"{name} stays at {offer.version} instead of {old.staged.locked.version}: "
                              f"{_users(name, worlds.ranges(self.after, name))}")  # fmt: skip
        self.take(Choice(staged, request, source, asked=old.asked if old else False))
        return True

    def _must_be_changeable(self, name: str, users: Mapping[str, str]) -> None:
        choice, present = self.chosen.get(name), self.after.get(name)
        if choice is not None and (choice.fixed or choice.source.origin == "folder"):
            raise PlanError(f"{name} {choice.staged.locked.version} was asked for, but {_users(name, users)}; "
                            f"ask for another version, or change its user")  # fmt: skip
        if present is None or choice is not None or present.locked is not None:
            return
        if present.own:
            raise PlanError(f"{_users(name, users)}, but {present} comes with this Lumia; upgrade Lumia, or install "
                            f"another version of what needs it")  # fmt: skip
        raise PlanError(f"{_users(name, users)}, but plugins/{name} holds {present}, which `pkg` did not install; "
                        f"put a fitting version there, or move it away and let `pkg` install it")  # fmt: skip

    def _source(self, name: str, users: Mapping[str, str]) -> tuple[Source, Request]:
        choice, present = self.chosen.get(name), self.before.get(name)
        if choice is not None:
            return choice.source, choice.request
        if present is not None and present.locked is not None:
            source = self.sources.of(present.locked)
            return source, request_of(source, name)
        try:
            source = self.sources.named(name)
        except PkgError as error:
            raise PlanError(f"{_users(name, users)}, which is not installed; install it first, for example by its "
                            f"address (`pkg -S GIT-URL`): {error}") from error  # fmt: skip
        return source, request_of(source, name)

    def _nothing_fits(self, name: str, users: Mapping[str, str], source: Source, lowest: Version | None) -> str:
        reasons = [_users(name, users), f"there are {source.listed}"]
        reasons += self._refused.get(name, {}).values()
        if lowest is not None and any(fits(one.version, users.values()) for one in source.offers):
            reasons.append(f"{lowest} is installed, and only `pkg -S {name}@TAG` goes back to an older one")
        return f"no version of {name} fits: " + "; ".join(reasons)

    def _drop_unneeded(self) -> None:
        """Leave out what a version needed that another one has taken the place of."""
        while True:
            used = {name for one in self.after.values() for name in one.needs}
            idle = [name for name, one in self.chosen.items() if not one.asked and name not in used]
            if not idle:
                return
            for name in idle:
                del self.chosen[name]
                self.after.pop(name)
                if name in self.before:
                    self.after[name] = self.before[name]


def request_of(source: Source, name: str) -> Request:
    """Return the request by which a source is asked for `name`."""
    return Request(source.origin, name, name, None if source.origin == "registry" else source.url)


def _users(name: str, users: Mapping[str, str]) -> str:
    return ", ".join(f"{user} needs {name} {wanted}".rstrip() for user, wanted in users.items())
