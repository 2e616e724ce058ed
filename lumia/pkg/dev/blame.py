"""Where in the author's files a failure comes from."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lumia.pkg.text import PAGE, plain, plain_lines

_FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+)(?:, in (?P<function>.+))?$')
_CHAINED = ("\nDuring handling of the above", "\nThe above exception was the direct")


@dataclass(frozen=True)
class Failure:
    """What is wrong. place: `plugin.py:7`, "" when unknown. trace: Python's words from the plugin's first frame on."""

    place: str
    text: str
    trace: str = ""


class Blame:
    """Tells places as the author knows them. plugins: the path a plugin is loaded from → its own folder."""

    def __init__(self, plugins: Mapping[Path, Path]) -> None:
        self._plugins = dict(plugins)

    def here(self, text: str) -> str:
        """Return `text` with the files of the plugins as they are typed from the working folder, fit to be shown."""
        for loaded, folder in self._plugins.items():
            text = text.replace(str(loaded), _typed(folder))
        return plain_lines(text).replace(f"{os.curdir}/", "")

    def known(self, file: str) -> str:
        """Return a file that the loader named relative to the bot root, or absolute."""
        for loaded, folder in self._plugins.items():
            inside = f"{loaded.parent.name}/{loaded.name}"
            if file == inside or file.startswith(f"{inside}/"):
                return self.here(file.replace(inside, _typed(folder), 1))
        return self.here(file)

    def of_load(self, failure: Mapping[str, Any]) -> Failure:
        """Return why a plugin can't be loaded, from a `PluginFailure` as its process told it."""
        file, line = str(failure["file"]), failure["line"]
        place = self.known(file) + (f":{line}" if isinstance(line, int) else "")
        return Failure(place, self.here(str(failure["message"])), self._trimmed(str(failure["traceback"])))

    def of_step(self, step: Mapping[str, Any]) -> Failure:
        """Return why a step failed, from its journal entry as its process told it."""
        trace = str(step["trace"])
        frames = [match for match in map(_FRAME.match, trace.splitlines()) if match and self._is_own(match["file"])]
        place = f"{self.here(frames[-1]['file'])}:{frames[-1]['line']}" if frames else ""
        return Failure(place, plain(self.here(str(step["reason"])), 500).removesuffix(":"), self._trimmed(trace))

    def _is_own(self, file: str) -> bool:
        return any(Path(file).is_relative_to(loaded) for loaded in self._plugins)

    def _trimmed(self, trace: str) -> str:
        """Leave out what Lumia's own frames say before the plugin's first one."""
        lines = trace.splitlines()
        if any(mark in trace for mark in _CHAINED):
            return self.here(trace[-PAGE:])
        own = (n for n, line in enumerate(lines) if (at := _FRAME.match(line)) and self._is_own(at["file"]))
        first = next(own, None)
        return self.here("\n".join(lines if first is None else [lines[0], *lines[first:]]))


def _typed(folder: Path) -> str:
    near = os.path.relpath(folder)
    return str(folder) if near.startswith(os.pardir) else near
