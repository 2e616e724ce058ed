"""The folder of personas, live: what is asked for is read, and read again when its file has changed.

A look at the folder or at a file happens at most once a second, and only at the file that is asked for, so ten thousand
personas cost no more than one. Files are taken from the folder itself: names never become paths, and links that
lead out of the folder are refused.
"""

from __future__ import annotations

import logging
import os
import stat
import time
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import lumia

from .persona import MARKDOWN, MOST_BYTES, TOML, Parsed, Persona, PersonaError, from_file, is_name, parse

log = logging.getLogger("lumia.personas")

FOLDER = Path("config") / "personas"
SHIPPED = Path(__file__).parent / "personas" / "default.toml"
DEFAULT = "default"
CHECK_EVERY = 1.0
"""Seconds between two looks at one file."""
MOST_TRIED = 100
_RACY = 2_000_000_000  # ns: where file times are coarse, two changes this close can leave the same stamp
_Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class _Known:
    """A file as it was when it was last looked at. parsed: of the newest version that could be read."""

    stamp: _Stamp | None = None
    settled: bool = False
    looked: float = float("-inf")
    parsed: Parsed | None = None
    error: PersonaError | None = None


class Library:
    """The personas of one bot. May be used from any thread; what two threads find out at once, both find out."""

    def __init__(self, root: Path) -> None:
        self.folder = root / FOLDER
        self._files: dict[str, str] = {}
        self._stamp: _Stamp | None = None
        self._settled = False
        self._looked = float("-inf")
        self._known: dict[str, _Known] = {}
        self._told: set[str] = set()

    def names(self) -> tuple[str, ...]:
        """Return what personas there are, by file name, sorted; among them the shipped default."""
        found = {Path(file).stem for file in self._index().values()}
        if key_of(DEFAULT) not in self._files:
            found.add(DEFAULT)
        return tuple(sorted(found, key=key_of))

    def usable(self) -> tuple[str, ...]:
        """Return the names without those whose file can't be read; of more than `MOST_TRIED` files none is tried."""
        names = self.names()
        return names if len(names) > MOST_TRIED else tuple(name for name in names if self._is_usable(name))

    def _is_usable(self, name: str) -> bool:
        try:
            self.get(name)
        except PersonaError:
            return False
        return True

    def get(self, name: str) -> Persona:
        """Return the persona called `name`, in any case, as its file has it now or had it when it was last right.

        Raises `PersonaError` when there is none, or none that could ever be read in this process.
        """
        key = key_of(name)
        file = self._index().get(key)
        if file is None:
            if key == DEFAULT:
                return shipped()
            raise PersonaError(f"there is no persona {_shown(name)!r} in {FOLDER}")
        known = self._look(file)
        if known.parsed is not None:
            return known.parsed.persona
        if known.error is not None:
            raise known.error
        raise PersonaError(f"there is no persona {_shown(name)!r} in {FOLDER}")

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the files of the folder, each with its place; reads all of them."""
        taken: dict[str, str] = {}
        for file in self._listed():
            place = place_of(file)
            name = Path(file).stem
            if not is_name(name):
                yield f"{place}: nobody can choose a persona by this name; use letters, digits, spaces and . + ( ) - _"
                continue
            if (first := taken.setdefault(key_of(name), file)) != file:
                yield f"{place}: not used, since {place_of(first)} has the same name"
                continue
            try:
                parsed = self._read(file)
            except PersonaError as error:
                yield str(error)
            except FileNotFoundError:
                continue
            else:
                yield from (f"{place}:{one}" if one[0].isdigit() else f"{place}: {one}" for one in parsed.warnings)

    def _index(self) -> dict[str, str]:
        """Return file names by the key of the persona's name."""
        now = lumia.system.monotonic()
        if now - self._looked < CHECK_EVERY:
            return self._files
        self._looked = now
        try:
            found = os.stat(self.folder)
        except OSError:
            self._files, self._stamp = {}, None
            return self._files
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        if stamp != self._stamp or not self._settled:
            files: dict[str, str] = {}
            for file in self._listed():
                if is_name(Path(file).stem):
                    files.setdefault(key_of(Path(file).stem), file)
            self._files, self._stamp = files, stamp
            self._settled = time.time_ns() - found.st_mtime_ns > _RACY
            kept = set(files.values())
            self._known = {file: known for file, known in self._known.items() if file in kept}
        return self._files

    def _listed(self) -> list[str]:
        """Return the names of persona files, those of TOML first."""
        try:
            with os.scandir(self.folder) as entries:
                names = [entry.name for entry in entries]
        except OSError:
            return []
        found = [name for name in names if _ending(name) and name[0] not in "._" and key_of(name) != "readme.md"]
        return sorted(found, key=lambda name: (_ending(name) not in TOML, name))

    def _look(self, file: str) -> _Known:
        known, now = self._known.get(file, _Known()), lumia.system.monotonic()
        if now - known.looked < CHECK_EVERY:
            return known
        try:
            found = os.stat(self.folder / file)
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if stamp == known.stamp and known.settled:
                known = replace(known, looked=now)
            else:
                settled = time.time_ns() - found.st_mtime_ns > _RACY
                known = self._taken(replace(known, stamp=stamp, settled=settled, looked=now), file)
        except FileNotFoundError:
            known = _Known(looked=now)
        except OSError as error:
            known = self._failed(replace(known, looked=now, stamp=None), _unreadable(error).at(place_of(file)))
        self._known[file] = known
        return known

    def _taken(self, known: _Known, file: str) -> _Known:
        try:
            parsed = self._read(file)
        except PersonaError as error:
            return self._failed(known, error)
        for warning in parsed.warnings:
            self._tell(f"{place_of(file)}: {warning}")
        return replace(known, parsed=parsed, error=None)

    def _failed(self, known: _Known, error: PersonaError) -> _Known:
        holds = "the last version that could be read holds" if known.parsed else "it can't be used until it is mended"
        self._tell(f"{error}; {holds}")
        return replace(known, error=error)

    def _read(self, file: str) -> Parsed:
        """Return the persona of a file; raises `PersonaError` telling file and line, `FileNotFoundError`."""
        place = place_of(file)
        try:
            parsed = parse(self._bytes(file), Path(file).stem, _ending(file))
        except PersonaError as error:
            raise error.at(place) from None
        return replace(parsed, persona=from_file(parsed.persona, place))

    def _bytes(self, file: str) -> bytes:
        path = self.folder / file
        try:
            if not path.resolve().is_relative_to(self.folder.resolve()):
                raise PersonaError("the link leads out of the folder; copy the file into it")
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise PersonaError("it is no regular file")
            with path.open("rb") as stream:
                return stream.read(MOST_BYTES + 1)
        except FileNotFoundError:
            raise
        except (OSError, RuntimeError) as error:  # RuntimeError: a link to itself, in Python 3.11 and 3.12
            raise _unreadable(error) from error

    def _tell(self, text: str) -> None:
        if text not in self._told:
            if len(self._told) > 1000:
                self._told.clear()
            self._told.add(text)
            log.warning("%s", text)


@cache
def shipped() -> Persona:
    """Return the persona of a bot that has none of its own."""
    return from_file(parse(SHIPPED.read_bytes(), DEFAULT, ".toml").persona, "shipped with persona-loader")


def key_of(name: str) -> str:
    """Return what two spellings of one name have in common."""
    return unicodedata.normalize("NFC", name).casefold()


def place_of(file: str) -> str:
    """Return where a file is, as messages tell it."""
    return f"{FOLDER.as_posix()}/{_shown(file)}"


def _shown(name: str) -> str:
    printable = "".join(char if char.isprintable() else "\ufffd" for char in lumia.payloads.clean_text(name))
    return printable if len(printable) <= 80 else f"{printable[:79]}…"


def _ending(file: str) -> str:
    ending = Path(file).suffix.lower()
    return ending if ending in (*TOML, *MARKDOWN) else ""


def _unreadable(error: Exception) -> PersonaError:
    return PersonaError(f"can't be read: {getattr(error, 'strerror', None) or error}")
