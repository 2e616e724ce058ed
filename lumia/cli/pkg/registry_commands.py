"""`pkg search`, `info` and `clean`: what there is to install, and what was fetched (spec §13.2)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lumia.cli import output
from lumia.cli.pkg.opened import Opened, opened
from lumia.cli.pkg.options import Json
from lumia.errors import PkgError, RegistryError, RootNotFoundError
from lumia.manifest import hyphenated
from lumia.pkg.registry_model import PAGE
from lumia.pkg.text import plain, plain_lines

if TYPE_CHECKING:
    from lumia.pkg.model import Locked
    from lumia.pkg.registry import Registry
    from lumia.pkg.registry_model import Info

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
LISTED = 10
"""Versions that `pkg -Si` shows."""


def search(
    words: Annotated[list[str] | None, typer.Argument(metavar="KEYWORD", show_default=False)] = None,
    page: Annotated[int, typer.Option("--page", min=1, help="50 plugins are on a page.")] = 1,
    as_json: Json = False,
) -> None:
    """Search the registry, best first; without a KEYWORD it lists all there is: `pkg -Ss`.

    \b
    Example:
      pkg -Ss weather
      pkg -Ss --page 2
      pkg -Ss weather --json | jq -r '.[].name'
    """
    registry, here = _registry()
    hits, total = registry.search(" ".join(words or []), page)
    if as_json:
        output.data([hit.model_dump() for hit in hits])
        return
    for hit in hits:
        mark = f"  [installed: {here[hit.name].version}]" if hit.name in here else ""
        by = f"  by {plain(hit.author, 60)}" if hit.author else ""
        output.text(f"{hit.name}  {hit.latest_tag}  ★{hit.stars}{by}{mark}")
        described = plain(hit.description or hit.display_name, 200)
        if described:
            output.text(f"    {described}")
    if not hits:
        more = f" on page {page}" if page > 1 else f"; `pkg -Ss` lists all that {registry.url} has" if words else ""
        output.note(f"nothing was found{more}")
    elif total > page * PAGE:
        output.note(f"{total} were found; the next ones: --page {page + 1}")


def _registry() -> tuple[Registry, Mapping[str, Locked]]:
    """Return the registry and what is installed here; outside of a bot root LUMIA_REGISTRY_URL names the registry."""
    import os
    import tempfile
    from pathlib import Path

    from lumia.pkg import lockfile
    from lumia.pkg.registry import NO_REGISTRY, VARIABLE, Registry

    try:
        bot = opened()
    except RootNotFoundError:
        url = os.environ.get(VARIABLE, "").strip()
        if not url:
            raise
        return Registry(url, Path(tempfile.gettempdir()) / f"lumia-pkg-{os.getuid()}-none", warn=output.warn), {}
    registry = bot.registry()
    if registry is None:
        raise RegistryError(NO_REGISTRY)
    return registry, lockfile.read(bot.root).plugins


def info(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)],
    readme: Annotated[bool, typer.Option("--readme", help="Print the README, too.")] = False,
    as_json: Json = False,
) -> None:
    """Show a plugin: its manifest and versions in the registry, and what is installed: `pkg -Si`.

    \b
    Example:
      pkg -Si weather
      pkg -Si weather --readme | less
    """
    name = hyphenated(name)
    if not NAME.fullmatch(name):
        hint = f"; `pkg -Si {bare}` shows all versions" if NAME.fullmatch(bare := name.partition("@")[0]) else ""
        raise PkgError(f"{plain(name, 60)!r} is no plugin's name{hint}")
    registry, here = _registry()
    found = registry.info(name)
    if as_json:
        output.data({**found.model_dump(), "installed": here[name].version if name in here else None})
        return
    lines = list(_lines(found, here.get(name)))
    width = max(len(label) for label, _ in lines)
    for label, value in lines:
        output.text(f"{label:<{width}}  {value}".rstrip())
    for line in _versions(found):
        output.text(line)
    if readme:
        output.text("")
        output.text(plain_lines(found.readme_md))


def _lines(found: Info, locked: Locked | None) -> Iterator[tuple[str, str]]:
    manifest = found.manifest
    yield "name", found.name
    yield from _given(manifest, ("display_name", "description", "author", "license"))
    yield "source", plain(found.git_url, 300)
    yield "latest", found.latest_tag
    yield "installed", f"{locked.version} ({locked.commit[:12]})" if locked else "no"
    yield "stars", str(found.stars)
    yield from _given(manifest, ("min_core_version", "dependencies", "python_dependencies", "provides", "unique"))
    yield from _given(manifest, ("permissions", "isolation"))
    latest = found.release(found.latest_tag)
    if latest is not None:
        yield "signed by", plain(latest.signature.split(":")[1], 80) if latest.signature else "nobody"


def _given(manifest: Mapping[str, Any], fields: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for field in fields:
        value = manifest.get(field)
        if not value:
            continue
        if isinstance(value, dict):
            value = ", ".join(f"{key} {one}" for key, one in value.items())
        elif isinstance(value, list | tuple):
            value = ", ".join(map(str, value))
        yield field.replace("_", " "), plain(str(value), 300)


def _versions(found: Info) -> Iterator[str]:
    yield "versions"
    for one in found.versions[:LISTED]:
        said = plain(one.changelog.strip().partition("\n")[0].lstrip("# -*"), 80)
        marks = "  withdrawn: " + plain(one.yanked, 80) if one.yanked is not None else ""
        yield f"  {one.tag:<12} {one.date[:10]}  {said}{marks}".rstrip()
    if len(found.versions) > LISTED:
        yield f"  … and {len(found.versions) - LISTED} older"


def clean(as_json: Json = False) -> None:
    """Empty the download cache and remove Python packages nobody uses: `pkg -Sc`.

    What is installed stays; a rollback may need the network afterwards.

    \b
    Example:
      pkg -Sc
    """
    from lumia.pkg import python_deps
    from lumia.pkg.git import Git
    from lumia.pkg.registry_cache import Cache

    bot: Opened = opened()
    try:
        python_deps.tidy(bot.root)
        freed = Git(bot.layout.cache).clear() + Cache(bot.layout.data / "registry").clear()
    except OSError as error:
        raise PkgError(f"the cache can't be emptied: {error.strerror}: {error.filename}") from error
    if as_json:
        output.data({"freed_bytes": freed})
    else:
        output.text(f"{freed / 1024 / 1024:.1f} MiB freed")
