"""Where a bot root keeps what `pkg` needs (spec §7.3)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lumia import paths
from lumia.errors import PkgError
from lumia.manifest import underscored

LOCK_FILE = "plugins.lock"


@dataclass(frozen=True)
class Layout:
    """The folders and files of the bot at `root`; nothing is made by asking for a path.

    data/ and plugins/ may be mounts of their own: what has to move between them is copied then.
    """

    root: Path

    @property
    def plugins(self) -> Path:
        """Return the folder of installed plugins, a git repository whose history is that of the installations."""
        return self.root / "plugins"

    @property
    def lock(self) -> Path:
        """Return the file that says what is installed: name, version, commit and digest of each plugin."""
        return self.plugins / LOCK_FILE

    @property
    def config(self) -> Path:
        """Return the folder of settings."""
        return self.root / "config"

    @property
    def data(self) -> Path:
        """Return `pkg`'s own folder."""
        return self.root / "data" / "pkg"

    @property
    def mutex(self) -> Path:
        """Return the file whose `flock` a running operation holds."""
        return self.data / "lock"

    @property
    def journal(self) -> Path:
        """Return the file that describes the operation going on, or one that was cut off."""
        return self.data / "operation.json"

    @property
    def staging(self) -> Path:
        """Return the folder below which versions are fetched and checked before anything is changed."""
        return self.data / "staging"

    @property
    def undo(self) -> Path:
        """Return the folder below which each operation keeps what it replaces until it is done."""
        return self.data / "undo"

    @property
    def cache(self) -> Path:
        """Return the folder of fetched repositories; deleting it costs only time."""
        return self.data / "cache"

    @property
    def log(self) -> Path:
        """Return the folder with one log file per operation, with the output of its hooks."""
        return self.data / "log"

    def folder(self, name: str) -> Path:
        """Return where the plugin `name` is installed: `plugins/memory_graph` for `memory-graph`."""
        return self.plugins / underscored(name)

    def settings(self, name: str) -> Path:
        """Return the file of a plugin's settings: `config/<name>.toml`, the underscored one if only that is there."""
        path, other = self.config / f"{name}.toml", self.config / f"{underscored(name)}.toml"
        return other if other.is_file() and not path.exists() else path

    def require_bot_root(self) -> None:
        """Raise `PkgError` when `root` is a source checkout, whose plugins/ belongs to its developers (DESIGN §11)."""
        if self.root.resolve() == paths.base().resolve():
            raise PkgError(
                f"{self.root} is Lumia's own source checkout and `pkg` changes nothing in its plugins/; make a bot "
                "root with `lumia init DIR` and work there, or name one with LUMIA_ROOT=DIR"
            )
