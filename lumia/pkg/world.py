"""Which plugins a bot has, or will have, and what doesn't fit together among them (spec §7.2).

The same rules as the loader's (`lumia.resolve`), asked before anything changes and for a state that isn't there yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.version import Version

from lumia import __version__, paths
from lumia.discovery import FIRST_PARTY, Found, discover, folder_version
from lumia.manifest import Manifest, hyphenated
from lumia.pkg.lockfile import Lock
from lumia.pkg.model import Locked, Staged
from lumia.pkg.versions import fits
from lumia.resolve import arrange


@dataclass(frozen=True)
class Present:
    """A plugin of the bot. manifest: None when its folder is gone or broken. locked: None when `pkg` didn't install it.

    own: it comes with Lumia. enabled: it is to be loaded.
    """

    name: str
    version: str
    manifest: Manifest | None
    locked: Locked | None = None
    own: bool = False
    enabled: bool = True

    @classmethod
    def of_staged(cls, staged: Staged, *, enabled: bool) -> Present:
        """Return a staged version as it will be once it is installed."""
        return cls(staged.locked.name, staged.locked.version, staged.manifest, staged.locked, enabled=enabled)

    @property
    def needs(self) -> Mapping[str, str]:
        """Return the plugins it depends on with their ranges; nothing while it is disabled."""
        return self.manifest.dependencies if self.manifest is not None and self.enabled else {}

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True)
class Problem:
    """Something that doesn't fit. key: the same for the same problem in two worlds; plugins: whom it is about."""

    key: tuple[str, ...]
    text: str


World = Mapping[str, Present]


def read(root: Path, lock: Lock, disabled: frozenset[str], base: Path | None = None) -> dict[str, Present]:
    """Return the plugins of the bot at `root`. disabled: `[plugins] disabled`. base: where Lumia's own plugins are."""
    off = frozenset(map(hyphenated, disabled))
    found: dict[str, Present] = {}
    for plugin in discover(base or paths.base(), root, off):
        if plugin.name not in found and (plugin.manifest is not None or plugin.name in lock.plugins):
            found[plugin.name] = _present(plugin, lock)
    for name, locked in lock.plugins.items():
        found.setdefault(name, Present(name, locked.version, None, locked, enabled=name not in off))
    return found


def _present(plugin: Found, lock: Lock) -> Present:
    own = plugin.place in FIRST_PARTY
    locked = None if own else lock.plugins.get(plugin.name)
    version = __version__ if own else locked.version if locked else folder_version(plugin.folder).version
    return Present(plugin.name, version, plugin.manifest, locked, own, not plugin.disabled)


def switched(one: Present, enabled: bool) -> Present:
    """Return `one` enabled or disabled."""
    locked = replace(one.locked, enabled=enabled) if one.locked else None
    return replace(one, enabled=enabled, locked=locked)


def ranges(world: World, name: str) -> dict[str, str]:
    """Return who depends on `name`, with the range each asks for: `weather 1.2.0` → `>=0.3`."""
    return {str(one): one.needs[name] for one in sorted(world.values(), key=str) if name in one.needs}


def dependents(world: World, names: frozenset[str]) -> dict[str, list[str]]:
    """Return name → the other plugins that depend on it directly."""
    users = {name: sorted(one.name for one in world.values() if name in one.needs) for name in sorted(names)}
    return {name: left for name, found in users.items() if (left := [user for user in found if user not in names])}


def ordered(world: World) -> list[str]:
    """Return the names with dependencies first."""
    order, cycles = arrange({name: list(one.needs) for name, one in world.items()})
    return [*order, *(name for cycle in cycles for name in cycle if name not in order)]


def problems(world: World, core: str = __version__) -> list[Problem]:
    """Return what would keep plugins from loading; each problem names both sides."""
    enabled = [world[name] for name in sorted(world) if world[name].enabled]
    found = [problem for one in enabled for problem in _of_one(one, world, core)]
    holders: dict[str, Present] = {}
    for one in enabled:
        for domain in one.manifest.unique if one.manifest else ():
            first = holders.setdefault(domain, one)
            if first is not one:
                found.append(_clash(domain, first, one))
    cycles = arrange({one.name: list(one.needs) for one in enabled})[1]
    for cycle in cycles:
        path = " → ".join([*cycle, cycle[0]])
        found.append(Problem(("cycle", *sorted(cycle)), f"{path} depend on each other in a circle, so none can load"))
    return found


def _of_one(one: Present, world: World, core: str) -> Iterator[Problem]:
    wanted = one.manifest.min_core_version if one.manifest else None
    if wanted is not None and Version(core) < Version(wanted):
        text = f"{one} needs Lumia {wanted} or newer, this is {core}; upgrade Lumia, or install an older {one.name}"
        yield Problem(("core", one.name), text)
    for name, wanted in sorted(one.needs.items()):
        other = world.get(name)
        if other is None:
            yield Problem(("absent", one.name, name), f"{one} needs {name} {wanted}, which would not be installed")
        elif not other.enabled:
            text = f"{one} needs {name}, which is disabled; enable it with `pkg enable {name}`"
            yield Problem(("disabled", one.name, name), text)
        elif not fits(other.version, [wanted]):
            yield Problem(
                ("range", one.name, name), f"{one} needs {name} {wanted}, but {name} would be {other.version}"
            )


def _clash(domain: str, first: Present, second: Present) -> Problem:
    stays = first if first.own or second.locked else second
    text = (
        f"{first} and {second} both claim {domain!r} for themselves (`unique`), so only one of them can be active; "
        f"turn the other one off first: `pkg disable {stays.name}`"
    )
    return Problem(("unique", domain, *sorted((first.name, second.name))), text)
