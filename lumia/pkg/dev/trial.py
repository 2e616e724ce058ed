"""The bot root a plugin is tried in: a temporary folder with links to the plugins' own folders."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lumia.errors import ManifestError, PkgError
from lumia.manifest import MANIFEST_FILE, hyphenated, load_manifest, underscored
from lumia.paths import base
from lumia.pkg.dev.project import Project

SETTINGS = "dev.toml"
"""The author's own settings for trying the plugin, beside its manifest."""
_OWN = ("handlers", "adapters")


class Trial:
    """A bot root for `project` and the plugins `beside` it: folders, or names of those that Lumia brings.

    plugins: the path a plugin is loaded from → its real folder, the project's own first. settings: a file with the
    plugin's settings instead of its `dev.toml`. Raises `PkgError` for a plugin that isn't there.
    """

    def __init__(self, project: Project, beside: Sequence[str] = (), settings: Path | None = None) -> None:
        self._project = project
        self._settings = settings or project.folder / SETTINGS
        self._given = False
        folders = [project.folder, *map(_folder_of, beside)]
        if settings is not None and not settings.is_file():
            raise PkgError(f"there are no settings at {settings}; name a TOML file")
        self.root = Path(tempfile.mkdtemp(prefix="lumia-dev-"))
        (self.root / "plugins").mkdir()
        self.plugins = dict(map(self._linked, folders))

    def _linked(self, folder: Path) -> tuple[Path, Path]:
        real = folder.resolve()
        if real.parent in (base() / place for place in _OWN):
            return real, folder
        link = self.root / "plugins" / underscored(_name_of(folder))
        if link.is_symlink():
            raise PkgError(f"{folder} and another folder hold the same plugin; load one of them")
        link.symlink_to(real, target_is_directory=True)
        return link, folder

    def write_settings(self) -> None:
        """Give the bot the settings as the author has them now."""
        file = self.root / "config" / f"{_name_of(self._project.folder)}.toml"
        file.parent.mkdir(exist_ok=True)
        if self._settings.is_file():
            shutil.copyfile(self._settings, file)
            self._given = True
        elif self._given:  # its author has removed them since
            file.unlink(missing_ok=True)
            self._given = False

    def close(self) -> None:
        """Remove the bot root; the plugins' own folders stay."""
        shutil.rmtree(self.root, ignore_errors=True)


def _folder_of(beside: str) -> Path:
    for place in _OWN:
        own = base() / place / underscored(beside)
        if (own / MANIFEST_FILE).is_file():
            return own
    folder = Path(beside).expanduser().absolute()
    if not folder.is_dir():
        raise PkgError(f"{beside!r} is neither a plugin of Lumia itself nor a plugin's folder; name its folder")
    return folder


def _name_of(folder: Path) -> str:
    try:
        return load_manifest(folder).name
    except ManifestError:
        return hyphenated(folder.name)
