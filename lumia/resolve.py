"""Which of the discovered plugins may load, and in which order (spec §7.2; DESIGN §3).

Decided from manifests and versions alone, before any code runs, so every process of a bot comes to the same answer.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from lumia.discovery import FIRST_PARTY, FolderVersion, Found, folder_version
from lumia.errors import DependencyError, PluginError, UniqueConflictError
from lumia.manifest import Manifest


@dataclass(frozen=True)
class Candidate:
    """A plugin that may load, with its version."""

    found: Found
    manifest: Manifest
    version: str

    @property
    def name(self) -> str:
        """Return the plugin's name."""
        return self.found.name


@dataclass
class Selection:
    """The plugins that may load, in load order; the rejected ones with their errors, the disabled ones, warnings."""

    accepted: list[Candidate] = field(default_factory=list)
    rejected: list[tuple[Found, PluginError]] = field(default_factory=list)
    disabled: list[Found] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def arrange(needs: Mapping[str, Collection[str]]) -> tuple[list[str], list[list[str]]]:
    """Return the names of `needs` with dependencies first and ties by name, and the cycles among them.

    needs: name → names it depends on; names that are no key are ignored. Names on a returned cycle aren't in the order.
    """
    left = {name: {other for other in others if other in needs} for name, others in needs.items()}
    order, cycles = _drain(left), []
    while left:
        cycles.append(_cycle(left))
        for name in cycles[-1]:
            _satisfy(name, left)
        order += _drain(left)
    return order, cycles


def _drain(left: dict[str, set[str]]) -> list[str]:
    """Take the names out of `left` that need nothing in it, again and again, the smallest name first."""
    ready = [name for name, others in left.items() if not others]
    heapq.heapify(ready)
    order = []
    while ready:
        order.append(heapq.heappop(ready))
        for name in _satisfy(order[-1], left):
            heapq.heappush(ready, name)
    return order


def _satisfy(name: str, left: dict[str, set[str]]) -> list[str]:
    """Take `name` out of `left` and return the names that needed nothing else."""
    del left[name]
    freed = [other for other, others in left.items() if others == {name}]
    for others in left.values():
        others.discard(name)
    return freed


def _cycle(left: Mapping[str, Collection[str]]) -> list[str]:
    """Return a cycle, its smallest name first; every name in `left` needs another one in it."""
    path = [min(left)]
    while (following := min(left[path[-1]])) not in path:
        path.append(following)
    cycle = path[path.index(following) :]
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]


def select(
    found: Iterable[Found], core_version: str, version_of: Callable[[Found], FolderVersion] | None = None
) -> Selection:
    """Decide which plugins may load and in which order: topological by dependencies, then by name.

    core_version: also the version of first-party plugins. A plugin is rejected for an unusable folder, a too old core,
    a circular, missing, disabled, rejected or wrongly versioned dependency, or a unique domain an earlier plugin holds.
    """
    return _Selector(list(found), core_version, version_of or _version_of(core_version)).run()


def _version_of(core_version: str) -> Callable[[Found], FolderVersion]:
    own = FolderVersion(core_version)
    return lambda found: own if found.place in FIRST_PARTY else folder_version(found.folder)


class _Selector:
    def __init__(self, found: list[Found], core_version: str, version_of: Callable[[Found], FolderVersion]) -> None:
        self._core = core_version
        self._version_of = version_of
        self._usable = {plugin.name: plugin for plugin in found if plugin.manifest and not plugin.disabled}
        self._selection = Selection(disabled=[plugin for plugin in found if plugin.disabled])
        self._accepted: dict[str, Candidate] = {}
        self._holders: dict[str, str] = {}
        self._absent = {plugin.name: "it is disabled in config/lumia.toml" for plugin in self._selection.disabled}
        for plugin in found:
            if plugin.error and not plugin.disabled:
                self._reject(plugin, plugin.error)

    def run(self) -> Selection:
        order, cycles = arrange({name: _manifest(plugin).dependencies for name, plugin in self._usable.items()})
        for cycle in cycles:
            self._reject_cycle(cycle)
        for name in order:
            self._consider(self._usable[name])
        self._selection.accepted = list(self._accepted.values())
        return self._selection

    def _reject(self, plugin: Found, error: PluginError) -> None:
        self._selection.rejected.append((plugin, error))
        if plugin.error is None or plugin.name not in self._usable:
            self._absent[plugin.name] = str(error)

    def _reject_cycle(self, cycle: list[str]) -> None:
        for name in cycle:
            turn = cycle.index(name)
            path = " → ".join([*cycle[turn:], *cycle[:turn], name])
            error = DependencyError(f"circular dependency {path}; remove one of these dependencies")
            self._reject(self._usable[name], error)

    def _consider(self, plugin: Found) -> None:
        manifest = _manifest(plugin)
        try:
            self._check_core(manifest)
            self._check_dependencies(manifest)
            self._check_unique(manifest)
        except PluginError as error:
            self._reject(plugin, error)
            return
        version = self._version_of(plugin)
        if version.warning:
            self._selection.warnings.append(version.warning)
        self._accepted[plugin.name] = Candidate(plugin, manifest, version.version)
        self._holders.update(dict.fromkeys(manifest.unique, plugin.name))

    def _check_core(self, manifest: Manifest) -> None:
        wanted = manifest.min_core_version
        if wanted is not None and Version(self._core) < Version(wanted):
            raise DependencyError(
                f"{manifest.name} needs Lumia {wanted} or newer, this is {self._core}; upgrade Lumia or install an "
                f"older version of {manifest.name}"
            )

    def _check_dependencies(self, manifest: Manifest) -> None:
        for name, wanted in sorted(manifest.dependencies.items()):
            if name not in self._accepted:
                raise DependencyError(unmet(manifest.name, name, self._absent.get(name)))
            version = self._accepted[name].version
            # A prerelease that is installed was chosen: it counts wherever its number lies in the range.
            if not SpecifierSet(wanted).contains(version, prereleases=True):
                raise DependencyError(
                    f"{manifest.name} needs {name} {wanted}, but {name} is {version}; put a fitting one "
                    f"into plugins/{name} (a version is the git tag at the plugin's commit)"
                )

    def _check_unique(self, manifest: Manifest) -> None:
        for domain in manifest.unique:
            holder = self._holders.get(domain)
            if holder is not None:
                raise UniqueConflictError(
                    f"{manifest.name} and {holder} both claim the unique domain {domain!r} and {holder} comes first; "
                    f'to load {manifest.name} instead, set [plugins] disabled = ["{holder}"] in config/lumia.toml'
                )


def unmet(plugin: str, dependency: str, reason: str | None) -> str:
    """Return the sentence that says why `plugin` can't have `dependency`; reason: None when there is no such plugin."""
    if reason is None:
        return f"{plugin} needs {dependency}, which is not installed; put it into plugins/{dependency}"
    return f"{plugin} needs {dependency}, which is not loaded: {reason}"


def _manifest(plugin: Found) -> Manifest:
    assert plugin.manifest is not None
    return plugin.manifest
