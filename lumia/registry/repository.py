"""One git repository of a private registry, read into what `GET /pkg/<name>` answers. Nothing of it is ever run."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version
from pydantic import ValidationError

from lumia.errors import LumiaError, RegistryError
from lumia.pkg.complaint import complaint
from lumia.pkg.git_process import GitFailed, run
from lumia.pkg.signing import signatures_in
from lumia.pkg.text import plain, plain_lines
from lumia.pkg.tree import digest_commit

_SECONDS = 30.0
_README = re.compile(r"readme(\.md|\.markdown|\.txt)?", re.IGNORECASE)
_MOST_VERSIONS = 500
_README_CHARS, _CHANGELOG_CHARS = 200_000, 20_000
_TAG = re.compile(r"[vV]?[0-9][A-Za-z0-9.+_-]{0,62}")
_END = "\x1e"
_FORMAT = "%(refname:short)%00%(objectname)%00%(*objectname)%00%(creatordate:unix)%00%(objecttype)%00%(contents)%1e"


@dataclass(frozen=True)
class _Tag:
    name: str
    version: Version
    commit: str
    date: str
    message: str


def is_repository(folder: Path) -> bool:
    """Tell whether `folder` is a git repository, bare or with files."""
    return (folder / ".git").exists() or ((folder / "HEAD").is_file() and (folder / "objects").is_dir())


def stamp(folder: Path) -> tuple[object, ...]:
    """Return what changes whenever a tag of the repository does."""
    inner = folder / ".git" if (folder / ".git").is_dir() else folder
    places = [inner / "packed-refs", inner / "refs" / "tags"]
    tags = sorted(places[1].rglob("*")) if places[1].is_dir() else []
    return tuple((str(place), place.stat().st_mtime_ns) for place in [*places, *tags] if place.exists())


def read(folder: Path, git_url: str, yanked: dict[str, str], digests: dict[str, str]) -> dict[str, Any]:
    """Return the plugin in a repository as `pkg.json` has it; digests: commit → digest, known and to be added to.

    git_url: where clients clone it; `{name}` and `{folder}` in it are filled in. Raises `RegistryError` saying why the
    repository is no plugin.
    """
    try:
        tags = _tags(folder)
        if not tags:
            raise RegistryError(f"{folder}: no tag is a version; tag one: git tag v0.1.0")
        good = [tag for tag in tags if tag.name not in yanked] or tags
        latest = next((tag for tag in good if not tag.version.is_prerelease), good[0])
        manifest = _manifest(folder, latest)
        versions = [_version(folder, tag, yanked, digests) for tag in tags[:_MOST_VERSIONS]]
        readme = _readme(folder, latest.commit)
    except GitFailed as error:
        raise RegistryError(f"{folder}: git can't read it: {error.text}") from None
    name = manifest["name"]
    return {
        "name": name,
        "git_url": git_url.replace("{name}", name).replace("{folder}", folder.name),
        "latest_tag": latest.name,
        "manifest": manifest,
        "readme_md": readme,
        "stars": 0,
        "versions": versions,
    }


def _git(folder: Path, *args: str) -> bytes:
    return run(["-C", str(folder), *args], timeout=_SECONDS)


def _tags(folder: Path) -> list[_Tag]:
    """Return the tags that are versions, highest first."""
    listed = _git(folder, "for-each-ref", f"--format={_FORMAT}", "refs/tags").decode("utf-8", "replace")
    found = []
    for record in listed.split(_END):
        parts = record.lstrip("\n").split("\0", 5)
        if len(parts) < 6 or not _TAG.fullmatch(parts[0]):
            continue
        name, own, target, seconds, kind, message = parts
        try:
            version = Version(name)
        except InvalidVersion:
            continue
        found.append(_Tag(name, version, target or own, _date(seconds), message if kind == "tag" else ""))
    return sorted(found, key=lambda tag: tag.version, reverse=True)


def _date(seconds: str) -> str:
    try:
        moment = datetime.fromtimestamp(int(seconds or 0), UTC)
    except (ValueError, OverflowError, OSError):  # git keeps any number
        moment = datetime.fromtimestamp(0, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _version(folder: Path, tag: _Tag, yanked: dict[str, str], digests: dict[str, str]) -> dict[str, Any]:
    if tag.commit not in digests:
        digests[tag.commit] = digest_commit(folder, tag.commit)
    signatures = signatures_in(tag.message)
    changes = [line for line in tag.message.splitlines() if not line.startswith("Lumia-Signature:")]
    return {
        "tag": tag.name,
        "date": tag.date,
        "changelog": plain_lines(_news("\n".join(changes).strip(), tag.name), _CHANGELOG_CHARS),
        "commit": tag.commit,
        "digest": digests[tag.commit],
        "signature": signatures[0] if signatures else None,
        "yanked": yanked.get(tag.name),
    }


def _news(text: str, tag: str) -> str:
    """Return a tag's text without the line `NAME TAG` that `pkg dev publish` begins it with."""
    head, _, rest = text.partition("\n")
    name, _, version = head.partition(" ")
    return rest.strip() if name and version == tag else text


def _manifest(folder: Path, tag: _Tag) -> dict[str, Any]:
    from lumia.manifest import Manifest

    where = f"{folder}, {tag.name}: manifest.json"
    try:
        data = json.loads(_git(folder, "cat-file", "blob", f"{tag.commit}:manifest.json").decode("utf-8-sig"))
        Manifest.model_validate(data)
    except GitFailed:
        raise RegistryError(f"{where} is missing") from None
    except ValidationError as error:
        raise RegistryError(f"{where}: {complaint(error, 'all of it')}") from None
    except (ValueError, RecursionError, LumiaError) as error:
        raise RegistryError(f"{where}: {plain(str(error), 300)}") from None
    return dict(data)


def _readme(folder: Path, commit: str) -> str:
    names = _git(folder, "ls-tree", "--name-only", "-z", commit).decode("utf-8", "replace").split("\0")
    name = next((one for one in sorted(names, key=len, reverse=True) if _README.fullmatch(one)), None)
    if name is None:
        return ""
    text = _git(folder, "cat-file", "blob", f"{commit}:{name}").decode("utf-8", "replace")
    return plain_lines(text, _README_CHARS)
