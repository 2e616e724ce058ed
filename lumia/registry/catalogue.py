"""The plugins of a folder of git repositories, read again when a tag of them changes."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lumia.errors import LumiaError, RegistryError
from lumia.pkg.complaint import complaint
from lumia.pkg.registry_model import Revoked
from lumia.registry import repository
from lumia.registry.index import Index

REVOKED, YANKED = "revoked.json", "yanked.json"
_SUMMARY = ("display_name", "description", "author")
_log = logging.getLogger("lumia.registry")


class Catalogue:
    """What a private registry knows.

    folder: each folder in it that is a git repository, bare or not, is a plugin with its version tags. Beside them
    may lie `revoked.json` (as `GET /revoked` answers it) and `yanked.json` (`{"name": {"tag": "reason"}}`). git_url:
    where clients clone, with `{name}` and `{folder}`; None for `file://` addresses of this machine. settle: seconds
    for which the folder is not looked at again.
    """

    def __init__(
        self,
        folder: Path,
        git_url: str | None = None,
        *,
        settle: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder.resolve()
        if not self.folder.is_dir():
            raise RegistryError(f"{folder} is no folder; name one that holds a git repository per plugin")
        self._git_url = git_url
        self._settle = settle
        self._clock = clock
        self._lock = threading.Lock()
        self._looked = float("-inf")
        self._stamps: dict[Path, tuple[object, ...]] = {}
        self._read: dict[Path, dict[str, Any]] = {}
        self._digests: dict[str, str] = {}
        self._yanked: dict[str, dict[str, str]] = {}
        self._index = Index(())
        self._plugins: dict[str, dict[str, Any]] = {}
        self.problems: dict[str, str] = {}
        """Repository → why it is no plugin."""

    def search(self, text: str, page: int) -> tuple[list[dict[str, Any]], int]:
        """Return one page of summaries, best first, and the number of all."""
        with self._lock:
            self._refresh()
            return self._index.search(text, page)

    def plugin(self, name: str) -> dict[str, Any] | None:
        """Return a plugin as `pkg.json` has it."""
        with self._lock:
            self._refresh()
            return self._plugins.get(name)

    def revoked(self) -> dict[str, Any]:
        """Return the keys and versions called back. Raises `RegistryError` when the file can't be read."""
        file = self.folder / REVOKED
        if not file.exists():
            return {"keys": [], "versions": []}
        try:
            return Revoked.model_validate_json(file.read_bytes()).model_dump(mode="json")
        except ValidationError as error:
            raise RegistryError(f"{file}: {complaint(error, 'the file')}") from None
        except OSError as error:
            raise RegistryError(f"{file} can't be read: {error.strerror}") from None

    def count(self) -> int:
        """Return how many plugins there are."""
        with self._lock:
            self._refresh()
            return len(self._plugins)

    def look(self) -> None:
        """Look at the folder at the next question, however short ago it was looked at."""
        with self._lock:
            self._looked = float("-inf")

    def _refresh(self) -> None:
        if self._clock() - self._looked < self._settle:
            return
        self._looked = self._clock()
        yanked = self._yanked_now()
        changed = yanked != self._yanked
        if changed:
            self._stamps.clear()
        self._yanked = yanked
        there = [one for one in sorted(self.folder.iterdir()) if repository.is_repository(one)]
        for gone in self._stamps.keys() - set(there):
            changed = True
            del self._stamps[gone]
            self._read.pop(gone, None)
            self.problems.pop(gone.name, None)
        for one in there:
            stamp = repository.stamp(one)
            if self._stamps.get(one) != stamp:
                changed = True
                self._stamps[one] = stamp
                self._take(one)
        if changed:
            self._rebuild()

    def _take(self, one: Path) -> None:
        template = self._git_url or one.as_uri()
        name = one.name.removesuffix(".git").replace("_", "-")
        try:
            self._read[one] = repository.read(one, template, self._yanked.get(name, {}), self._digests)
            self.problems.pop(one.name, None)
        except LumiaError as error:
            self._read.pop(one, None)
            self._problem(one, str(error))

    def _rebuild(self) -> None:
        plugins: dict[str, dict[str, Any]] = {}
        for one, plugin in sorted(self._read.items()):
            name = str(plugin["name"])
            if name in plugins:
                self._problem(one, f"{one}: another repository here is the plugin {name!r}, too")
            else:
                plugins[name] = plugin
        self._index.close()
        self._index = Index(map(_summary, plugins.values()))
        self._plugins = plugins

    def _problem(self, one: Path, text: str) -> None:
        if self.problems.get(one.name) != text:
            _log.warning("left out: %s", text)
        self.problems[one.name] = text

    def _yanked_now(self) -> dict[str, dict[str, str]]:
        file = self.folder / YANKED
        if not file.exists():
            return {}
        try:
            data = json.loads(file.read_bytes())
            return {str(name): {str(tag): str(why)[:500] for tag, why in tags.items()} for name, tags in data.items()}
        except (OSError, ValueError, AttributeError):
            _log.warning('%s: not like {"name": {"tag": "reason"}}; what was yanked before stays so', file)
            return self._yanked


def _summary(plugin: dict[str, Any]) -> dict[str, Any]:
    said = {key: str(plugin["manifest"].get(key, "")) for key in _SUMMARY}
    return {**said, **{key: plugin[key] for key in ("name", "git_url", "latest_tag", "stars")}}
