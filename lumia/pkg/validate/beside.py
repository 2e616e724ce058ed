"""Where the plugins that a plugin depends on are: beside it, in the bot root, or among those Lumia ships."""

from __future__ import annotations

from pathlib import Path

from lumia.errors import PluginError
from lumia.manifest import load_manifest, underscored


def dependencies_of(folder: Path) -> list[Path]:
    """Return the folders of the plugins the manifest in `folder` names, as far as they are found; theirs as well."""
    from lumia.paths import base  # the folder that holds handlers/ and adapters/

    places = [folder.absolute().parent, base() / "handlers", base() / "adapters"]
    found: dict[str, Path] = {}
    waiting = _named(folder)
    while waiting:
        name = waiting.pop()
        spelled = (place / each for place in places for each in (name, underscored(name)))
        there = next((one for one in spelled if (one / "manifest.json").is_file()), None)
        if name not in found and there is not None and there.resolve() != folder.resolve():
            found[name] = there
            waiting += _named(there)
    return list(found.values())


def _named(folder: Path) -> list[str]:
    try:
        return sorted(load_manifest(folder).dependencies)
    except PluginError:
        return []
