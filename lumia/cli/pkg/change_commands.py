"""`pkg install`, `remove`, `upgrade`, `enable` and `disable`: what changes plugins (spec §13.2)."""

from __future__ import annotations

from typing import Annotated

import typer

from lumia.cli.pkg.changing import How, change
from lumia.cli.pkg.options import Names, changes


@changes(
    force="Also what is installed just so, comes from another place than before, or at a tag that was moved; edits by "
    "hand are kept as a patch in data/pkg/undo.",
    strict=True,
)
def install(
    what: Annotated[list[str], typer.Argument(metavar="NAME[@TAG]|GIT-URL[@TAG]|FOLDER", show_default=False)],
    how: How,
) -> None:
    """Install plugins, and what they need: `pkg -S`.

    A NAME is looked up in the registry. A git URL or a folder needs no registry. Without a TAG it is the latest
    released version; an older one than what is installed only when its TAG is given. A folder begins with ./ ../ ~/
    or /. Either all of it is done or nothing.

    \b
    Example:
      pkg -S weather
      pkg -S weather@v1.2.0 geo
      pkg -S https://example.org/weather.git@v1.2.0
      pkg -S ./weather --yes
    """
    from lumia.pkg import planning, requests

    asked = [requests.parse(text) for text in what]
    change(lambda sources: planning.plan_install(asked, sources, force=how.force), how)


@changes(force="Although other plugins need them, or files in them were edited.")
def remove(
    names: Names,
    how: How,
    purge: Annotated[bool, typer.Option("--purge", help="Delete their settings in config/, too.")] = False,
) -> None:
    """Remove plugins; their settings stay: `pkg -R`.

    \b
    Example:
      pkg -R weather
      pkg -R weather geo --purge --yes
    """
    from lumia.pkg import planning

    change(lambda sources: planning.plan_remove(names, sources.root, purge=purge, force=how.force), how)


@changes(force="Although files in them were edited; the edits are kept in data/pkg/undo.", strict=True)
def upgrade(
    how: How,
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", show_default=False)] = None,
) -> None:
    """Upgrade the named plugins, or all, to their latest versions; never to an older one: `pkg -U`.

    \b
    Example:
      pkg -U --dry-run
      pkg -U
      pkg -U weather --yes
    """
    from lumia.pkg import planning

    change(lambda sources: planning.plan_upgrade(names or [], sources), how)


@changes(ask=False, strict=True)
def enable(names: Names, how: How) -> None:
    """Turn plugins on, also those that come with Lumia. It doesn't ask: `pkg disable` undoes it.

    \b
    Example:
      pkg enable weather
    """
    from lumia.pkg import planning

    change(lambda sources: planning.plan_switch(names, sources.root, enabled=True), how)


@changes(force="Although other plugins need them.", ask=False)
def disable(names: Names, how: How) -> None:
    """Turn plugins off, also those that come with Lumia; they stay installed, and free the domains they are unique in.

    It doesn't ask: `pkg enable` undoes it.

    \b
    Example:
      pkg disable weather
    """
    from lumia.pkg import planning

    change(lambda sources: planning.plan_switch(names, sources.root, enabled=False, force=how.force), how)
