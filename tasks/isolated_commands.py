"""`lumia isolated`: the worker of an isolated plugin by hand."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from lumia import paths
from lumia.errors import PluginLoadError
from lumia.marks import command


@command("isolated", help="Run the worker of one isolated plugin, in the foreground. Example: lumia isolated feeds")
def isolated_command(
    plugin: Annotated[str, typer.Argument(help="The plugin's name.", metavar="PLUGIN")],
    prepare: Annotated[bool, typer.Option("--prepare", help="Only make its environment, and say where it is.")] = False,
) -> None:
    """Run the worker of an isolated plugin; `lumia up` does so by itself, other machines and service managers by this.

    Example: LUMIA_REDIS_URL=redis://10.0.0.5:6379/0 lumia isolated feeds
    """
    from lumia.discovery import discover, unknown_names
    from lumia.isolation import limits_of
    from lumia.isolation_env import environment
    from lumia.manifest import hyphenated
    from tasks.backend import redis_url
    from tasks.supervise.isolated import isolated_words
    from tasks.supervise.services import Place

    base, root, name = paths.base(), paths.find_root(), hyphenated(plugin)
    everything = discover(base, root)
    found = next((one for one in everything if one.name == name), None)
    if found is None:
        raise PluginLoadError(unknown_names([name], everything)[0])
    if found.manifest is None:
        raise PluginLoadError(str(found.error))
    if found.manifest.isolation is None:
        raise PluginLoadError(
            f'{name} is not isolated, so all workers execute it; `"isolation": "process"` in its manifest changes that'
        )
    made = environment(root, found.manifest, lambda line: print(line, file=sys.stderr, flush=True))
    if prepare:
        print(made.folder)
        return
    place = Place(base, root, redis_url(root), os.environ.get("LUMIA_DATABASE_URL", ""))
    words = place.celery(*isolated_words(name, limits_of(found.manifest).concurrency))
    os.execve(words[0], words, place.env(**{paths.ISOLATED_WORKER: name}))
