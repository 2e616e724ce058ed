"""`lumia registry`: a registry of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lumia.cli import output

if TYPE_CHECKING:
    from lumia.registry.catalogue import Catalogue

EPILOG = """\b
Example:
  lumia registry serve ~/plugins
  LUMIA_REGISTRY_URL=http://127.0.0.1:8787 pkg -Ss dice"""


def mount(app: typer.Typer, group: typer.Typer) -> None:
    """Add the commands to the tree; group: an empty one that is made like all others."""
    group.info.epilog = EPILOG
    group.callback()(_about)
    group.command("serve")(serve)
    app.add_typer(group, name="registry")


def _about() -> None:
    """Run a registry of plugins of your own."""


def serve(
    folder: Annotated[Path, typer.Argument(help="Folder with a git repository per plugin.")],
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)] = 8787,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    git_url: Annotated[
        str | None, typer.Option(help="Where others clone: {name} and {folder} are filled in. Default: file://…")
    ] = None,
) -> None:
    """Serve the plugins of a folder of git repositories, as the public registry would.

    Each repository's version tags are its versions; new tags are seen within seconds. With LUMIA_REGISTRY_TOKEN set,
    `pkg dev publish` may add repositories.

    \b
    Example:
      lumia registry serve ~/plugins
      lumia registry serve /srv/git --host 0.0.0.0 --git-url 'https://git.example.org/{folder}'
    """
    from lumia.registry.server import serve as run

    def ready(url: str, catalogue: Catalogue) -> None:
        count = catalogue.count()
        for problem in catalogue.problems.values():
            output.warn(f"left out: {problem}")
        output.text(f"{count} plugin{'' if count == 1 else 's'} at {url}")
        output.note(f"use it with LUMIA_REGISTRY_URL={url}, or [pkg] registry in config/lumia.toml; Ctrl-C ends it")

    run(folder, host=host, port=port, git_url=git_url, ready=ready)
