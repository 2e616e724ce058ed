"""`pkg dev init`: a new plugin that runs, passes its tests and validates as it stands (spec §13.2)."""

from __future__ import annotations

import json
import re
import shutil
import time
import unicodedata
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lumia import __version__, system
from lumia.errors import PkgError
from lumia.manifest import MANIFEST_FILE, PluginName, hyphenated
from lumia.pkg.dev.project import git
from lumia.pkg.dev.scaffold_files import FILES, LICENCE

FIRST_COMMIT = "New plugin"


def checked_name(name: str) -> str:
    """Return the manifest's spelling of `name`; raises `PkgError` with a name that would do."""
    wanted = hyphenated(name)
    try:
        return TypeAdapter(PluginName).validate_python(wanted)
    except ValidationError as error:
        why = error.errors()[0]["msg"].removeprefix("Value error, ")
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
        usable = re.sub(r"[^a-z0-9]+", "-", plain).lstrip("-0123456789")[:64].strip("-")
        hint = f"; try {usable!r}" if usable and usable != wanted and _fits(usable) else ""
        raise PkgError(f"{why}{hint}") from None


def _fits(name: str) -> bool:
    try:
        TypeAdapter(PluginName).validate_python(name)
    except ValidationError:
        return False
    return True


def create(folder: Path, name: str, *, description: str = "", author: str = "") -> list[Path]:
    """Write a new plugin into `folder`, new or empty, make it a git repository, and return its files.

    The first commit is made where git knows who commits. Raises `PkgError` for a used folder or a name that is none,
    and what the file system raises.
    """
    name = checked_name(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise PkgError(f"{folder} is there already and isn't an empty folder; choose another name, or remove it")
    title = name.replace("-", " ").capitalize()
    told = description or f"greets whoever writes !{name}."
    values = {"name": name, "title": title, "description": told[:1].upper() + told[1:]}
    texts = {MANIFEST_FILE: _manifest(name, title, values["description"], author or _author())}
    texts |= {file: template.format(**values) for file, template in FILES.items()}
    texts["LICENSE"] = LICENCE.format(
        year=time.localtime(system.now()).tm_year, owner=author or _author() or f"the authors of {title}"
    )
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        path = folder / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    _commit(folder)
    return [folder / file for file in texts]


def _manifest(name: str, title: str, description: str, author: str) -> str:
    data: dict[str, Any] = {
        "name": name,
        "display_name": title,
        "description": description,
        "author": author,
        "license": "MIT",
        "main": "plugin.py",
        "min_core_version": __version__,
        "dependencies": {},
        "python_dependencies": [],
        "provides": [],
        "unique": [],
        "config_schema": "config-schema.toml",
        "closed_source": False,
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _author() -> str:
    try:
        return git(Path.cwd(), "config", "user.name").strip()
    except PkgError:
        return ""


def _commit(folder: Path) -> None:
    """Make `folder` a repository with one commit, as far as this machine's git can."""
    if shutil.which("git") is None:
        return
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    try:
        git(folder, "commit", "--quiet", "--no-verify", "--message", FIRST_COMMIT)
    except PkgError:  # nobody told git who commits here: the author's own first commit will
        return
