"""`plugins/plugins.lock`: what is installed, exactly, in a form that people can read and machines can sync from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from lumia.errors import PkgError
from lumia.manifest import PluginName
from lumia.pkg.complaint import complaint
from lumia.pkg.layout import LOCK_FILE, Layout
from lumia.pkg.model import Locked, Origin

VERSION = 1
_LARGEST = 16 * 1024 * 1024
_WAY_OUT = f"restore it with `git -C plugins checkout -- {LOCK_FILE}`, or from a backup"
_TEXT = r"^[^\x00-\x20\x7f-\x9f-][^\x00-\x1f\x7f-\x9f]*$"
"""One line that can't be taken for an option."""
_Line = Annotated[str, StringConstraints(min_length=1, max_length=2048, pattern=_TEXT)]


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    version: _Line
    tag: _Line | None
    commit: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
    url: _Line
    origin: Origin
    digest: Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
    key: _Line | None = None
    requested: bool = True
    enabled: bool = True
    signature: _Line | None = None


class _File(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    version: Literal[1]
    plugins: dict[PluginName, _Entry]


@dataclass(frozen=True)
class Lock:
    """The installed plugins by name."""

    plugins: Mapping[str, Locked] = field(default_factory=dict)

    def changed(self, after: Iterable[Locked] = (), removed: Iterable[str] = ()) -> Lock:
        """Return the lock with `after` in it and `removed` out of it."""
        gone = set(removed)
        kept = {name: entry for name, entry in self.plugins.items() if name not in gone}
        return Lock(kept | {entry.name: entry for entry in after})

    def text(self) -> str:
        """Return the JSON of the file: sorted by name, one field a line."""
        plugins = {}
        for name in sorted(self.plugins):
            plugins[name] = {key: value for key, value in self.plugins[name].as_dict().items() if key != "name"}
        return json.dumps({"version": VERSION, "plugins": plugins}, indent=2, ensure_ascii=False) + "\n"


def parse(text: str, source: str = LOCK_FILE, way_out: str = _WAY_OUT) -> Lock:
    """Return the lock that `text` holds. source: its file, for messages; way_out: what to do about a bad one.

    Raises `PkgError` for anything else.
    """
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PkgError(f"{source} is no lock file: {error}; {way_out}") from error
    if isinstance(data, dict) and isinstance(data.get("version"), int) and data["version"] > VERSION:
        raise PkgError(f"{source} was written by a newer Lumia (format {data['version']}); upgrade Lumia to read it")
    return _checked(data, source, way_out)


def _checked(data: Any, source: str, way_out: str = _WAY_OUT) -> Lock:
    try:
        file = _File.model_validate(data)
    except ValidationError as error:
        raise PkgError(f"{source} is no lock file: {complaint(error, 'the file')}; {way_out}") from error
    return Lock({name: Locked(name=name, **entry.model_dump()) for name, entry in file.plugins.items()})


def of_fields(plugins: Mapping[str, Mapping[str, Any]], source: str, way_out: str = _WAY_OUT) -> Lock:
    """Return the lock of plugin → fields of `Locked`, checked as `parse` does. Raises `PkgError`."""
    for name, fields in plugins.items():
        if fields.get("name") != name:
            raise PkgError(f"{source} names {fields.get('name')!r} as {name!r}; {way_out}")
    rows = {name: {key: one for key, one in fields.items() if key != "name"} for name, fields in plugins.items()}
    return _checked({"version": VERSION, "plugins": rows}, source, way_out)


def read(root: Path) -> Lock:
    """Return what is installed in the bot at `root`; nothing when there is no lock file. Raises `PkgError`."""
    path = Layout(root).lock
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise PkgError(f"{path} is larger than 16 MiB, so it is no lock file; {_WAY_OUT}")
        return parse(data.decode(), str(path))
    except FileNotFoundError:
        return Lock()
    except OSError as error:
        raise PkgError(f"{path} can't be read: {error.strerror}; give this user the right to read it") from error
    except UnicodeDecodeError as error:
        raise PkgError(f"{path} is no lock file: it is not UTF-8; {_WAY_OUT}") from error


def write(root: Path, lock: Lock) -> None:
    """Replace the lock file; afterwards it is on the disk, or it is as it was. Raises `OSError`."""
    from lumia.atomic import replace

    replace(Layout(root).lock, lock.text().encode())
