"""Python packages of plugins: resolved before anything changes, installed beside the bot's own.

Order of calls: `resolve` while planning (changes nothing, raises `PlanError`), `build` before plugins change; the
operation itself makes the layer current, and goes back (`lumia.pkg.operation`). Other machines call `ensure`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from lumia.errors import PlanError, SourceError
from lumia.pkg import failpoints, files, layers, pip
from lumia.pkg.layers import FOLDER, Layer, Package
from lumia.pkg.layout import Layout

Say = Callable[[str], None]
Wanted = Mapping[str, Sequence[str]]

_LIST = (
    "import importlib.metadata as m, json; "
    "print(json.dumps([[d.metadata['Name'], d.version, d.requires or []] for d in m.distributions()]))"
)


def _silent(line: str) -> None:
    return None


@dataclass(frozen=True)
class Installed:
    """A package an interpreter has. requires: PEP 508 texts."""

    name: str
    version: str
    requires: tuple[str, ...] = ()


def resolve(
    requirements: Wanted, *, root: Path, python: str | None = None, say: Say = _silent, prefer: str = ""
) -> Layer | None:
    """Return the layer that these requirements need beside the bot's own packages; None when they need none.

    requirements: plugin → PEP 508 texts, of ALL plugins that are in the bot's processes afterwards (not of isolated
    ones: `resolve_isolated`). python: the bot's interpreter, this one by default. Nothing is installed; a layer that
    is there already, and satisfies them, is returned without asking any index: the one named `prefer` rather than the
    current one. Raises `PlanError` naming both sides of
    a conflict, `SourceError` when a package can't be had.
    """
    wanted = _applying(requirements)
    if not wanted:
        return None
    bots = installed(python)
    _refuse_clashes(wanted, bots)
    if _satisfied(wanted, bots):
        return None
    now = layers.current(root)
    for there in (layers.read(root, prefer), now):
        if there is not None and _satisfied(wanted, {**_in_folder(there.folder), **bots}):
            return replace(there, requirements=wanted)
    fixed = [f"{one.name}=={one.version}" for one in bots.values() if one.name != "lumia"]
    kept = [f"{one.name}=={one.version}" for one in _in_folder(now.folder).values()] if now is not None else []
    roots = {pip.PREFIX + plugin: texts for plugin, texts in wanted.items()}
    say("looking for the Python packages of " + ", ".join(wanted))
    packages = _packages(roots, fixed, kept, python, say)
    return layers.layer_of(root, packages, wanted, sys.implementation.cache_tag or "python") if packages else None


def _packages(roots: Wanted, fixed: list[str], kept: list[str], python: str | None, say: Say) -> tuple[Package, ...]:
    """Resolve with the versions plugins have now, and only if that can't be, with others."""
    if kept:
        try:
            return pip.report(roots, python=python, constraints=[*fixed, *kept], say=say)
        except (PlanError, SourceError):
            say("the packages plugins have now don't fit; looking for others")
    return pip.report(roots, python=python, constraints=fixed, say=say)


def build(layer: Layer | None, *, python: str | None = None, say: Say = _silent) -> Layer | None:
    """Install a resolved layer into its folder, complete or not at all; returns it. One that is built is left alone.

    Raises `SourceError` when a package can't be fetched or isn't the one that was resolved.
    """
    if layer is None or layer.built:
        return layer
    with layers.locked(layer.folder.parents[2]):
        if not layer.built:
            _build(layer, python, say)
    return layer


def _build(layer: Layer, python: str | None, say: Say) -> None:
    for old in layer.folder.parent.glob(".building-*"):  # of somebody who was killed: the lock is ours
        shutil.rmtree(old, ignore_errors=True)
    making = layer.folder.with_name(f".building-{layer.name}-{os.getpid()}")
    failpoints.hit("build")
    try:
        pip.install(layer.packages, making, python=python, say=say)
        layers.write_about(layer, making)
        files.sync_tree(making)
        failpoints.hit("build.made")
        if layer.folder.exists():  # incomplete, e.g. after its removal was interrupted
            shutil.rmtree(layer.folder)
        files.move(making, layer.folder)
    except OSError as error:
        raise SourceError(f"{layer.folder} can't be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(making, ignore_errors=True)
    failpoints.hit("build.done")


def ensure(
    requirements: Wanted, *, root: Path, python: str | None = None, say: Say = _silent, prefer: str = ""
) -> Layer | None:
    """Resolve and build: what a machine does that is to follow another one. Doesn't make it current."""
    return build(resolve(requirements, root=root, python=python, say=say, prefer=prefer), python=python, say=say)


def resolve_isolated(
    name: str, requirements: Sequence[str], *, root: Path, python: str | None = None, say: Say = _silent
) -> tuple[Package, ...]:
    """Return what an isolated plugin needs in an environment of its own, in front of the bot's packages.

    Its packages have to agree with the ranges that Lumia itself requires, not with what the bot or other plugins have.
    Raises as `resolve` does.
    """
    wanted = _applying({name: requirements})
    if not wanted:
        return ()
    bots = installed(python)
    if _satisfied(wanted, bots):
        return ()
    own = bots.get("lumia")
    roots = {pip.PREFIX + name: wanted[name]}
    if own is None:  # not installed as a package: nobody can tell what it requires
        return pip.report(roots, python=python, constraints=[f"{one.name}=={one.version}" for one in bots.values()],
                          say=say)  # fmt: skip
    needs = [str(asked) for asked in _needs(own) if _applies(asked)]
    return pip.report({**roots, pip.LUMIA: needs}, python=python, say=say)


def tidy(root: Path) -> list[str]:
    """Remove layers and environments of isolated plugins that nothing installed needs; return their names.

    Waits for a `pkg` at work, and keeps what undoing one needs that was cut off.
    """
    from lumia import isolation_env, paths
    from lumia.discovery import discover
    from lumia.pkg import journal, mutex

    layout = Layout(root)
    with mutex.hold(layout):
        going_on = journal.read(layout)
        packages = going_on.packages if going_on is not None else None
        keep = {layers.named_in(text) for text in (packages.old, packages.new)} if packages is not None else set()
        found = discover(paths.base(), root)
        manifests = [one.manifest for one in found if one.manifest is not None]
        return layers.sweep(root, keep) + isolation_env.sweep(root, manifests)


def installed(python: str | None = None) -> dict[str, Installed]:
    """Return the packages of an interpreter by name, without those of any layer."""
    if python is None or python == sys.executable:
        path = [entry for entry in sys.path if Path(entry).parent.parts[-2:] != FOLDER.parts]
        return _by_name(_listed(path))
    try:
        done = subprocess.run([python, "-c", _LIST], capture_output=True, text=True, check=True, timeout=60, cwd="/")
        return _by_name(Installed(row[0], row[1], tuple(row[2])) for row in json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise SourceError(f"{python} can't tell which packages it has: {error}") from error


def _in_folder(folder: Path) -> dict[str, Installed]:
    return _by_name(_listed([str(folder)]))


def _listed(path: list[str]) -> Iterator[Installed]:
    for one in distributions(path=path):
        if one.metadata["Name"]:
            yield Installed(one.metadata["Name"], one.version, tuple(one.requires or ()))


def _by_name(found: Iterable[Installed]) -> dict[str, Installed]:
    named: dict[str, Installed] = {}
    for one in found:
        name = canonicalize_name(one.name)
        named.setdefault(name, replace(one, name=name))
    return named


def _applying(requirements: Wanted) -> dict[str, tuple[str, ...]]:
    """Return the requirements that count on this machine, of plugins that have any."""
    found = {
        plugin: tuple(text for text in texts if _applies(Requirement(text)))
        for plugin, texts in sorted(requirements.items())
    }
    return {plugin: texts for plugin, texts in found.items() if texts}


def _applies(requirement: Requirement, extra: str = "") -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _needs(one: Installed) -> Iterator[Requirement]:
    for text in one.requires:
        with suppress(InvalidRequirement):  # of a package from before PEP 508
            yield Requirement(text)


def _refuse_clashes(wanted: Wanted, bots: Mapping[str, Installed]) -> None:
    for plugin, texts in wanted.items():
        for text in texts:
            asked = Requirement(text)
            here = bots.get(canonicalize_name(asked.name))
            if here is not None and not asked.specifier.contains(here.version, prereleases=True):
                raise PlanError(
                    f"plugin {plugin} needs {text}, and the bot has {here.name} {here.version}"
                    f"{_needed_by(here.name, bots)}; ask its author for a range that fits, or for "
                    '"isolation": "process" in its manifest: such a plugin has packages of its own (docs/isolation.md)'
                )


def _needed_by(name: str, bots: Mapping[str, Installed]) -> str:
    """Say which of the bot's packages holds `name` where it is, Lumia itself first."""
    for one in sorted(bots.values(), key=lambda one: (one.name != "lumia", one.name)):
        for asked in _needs(one):
            if canonicalize_name(asked.name) == name and _applies(asked) and str(asked.specifier):
                return f" ({one.name} {one.version} needs {asked.name}{asked.specifier})"
    return ""


def brought_by(layer: Layer, name: str) -> list[str]:
    """Return the plugins that need a package of a built layer, each with what it asks for: `feeds (feedreader>=6)`."""
    have, found = _in_folder(layer.folder), []
    for plugin, texts in layer.requirements.items():
        asked = [text for text in texts if any(canonicalize_name(one.name) == name for one, _ in _needed([text], have))]
        if asked:
            found.append(f"{plugin} ({', '.join(asked)})")
    return found


def _satisfied(wanted: Wanted, have: Mapping[str, Installed]) -> bool:
    """Tell whether everything that is asked for is there, and everything that needs in turn."""
    needed = _needed([text for texts in wanted.values() for text in texts], have)
    return all(here is not None and asked.specifier.contains(here.version, prereleases=True) for asked, here in needed)


def _needed(
    texts: Iterable[str], have: Mapping[str, Installed]
) -> Iterator[tuple[Requirement, Installed | None]]:  # fmt: skip
    """Return what is asked for, and what that needs in turn, each with what is there."""
    left = [Requirement(text) for text in texts]
    seen: set[tuple[str, str]] = set()
    while left:
        asked = left.pop()
        name = canonicalize_name(asked.name)
        here = have.get(name)
        yield asked, here
        for extra in ("", *sorted(asked.extras)):
            if here is not None and (name, extra) not in seen:
                seen.add((name, extra))
                left += [need for need in _needs(here) if _applies(need, extra)]
