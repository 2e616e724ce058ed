"""`pkg verify`: whether what is in plugins/ is what was installed, file by file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lumia import paths
from lumia.discovery import discover
from lumia.errors import LumiaError, PlanError
from lumia.manifest import hyphenated
from lumia.pkg import edits, lockfile, tree
from lumia.pkg.layout import LOCK_FILE, Layout
from lumia.pkg.lockfile import Lock
from lumia.pkg.model import Locked
from lumia.pkg.repository import Repository
from lumia.pkg.revocation import Revoked, load
from lumia.pkg.signing import parse_signature, tag_signatures
from lumia.pkg.text import plain
from lumia.pkg.trust import TrustStore

Kind = Literal["edited", "added", "missing", "absent", "moved", "digest", "signature", "repository", "unmanaged"]


@dataclass(frozen=True)
class Finding:
    """Something that isn't as it was installed. plugin: "" for plugins/ as a whole.

    kind: `edited`, `added`, `missing` (a file), `absent` (the whole plugin), `moved` (another commit is checked out),
    `digest`, `signature`, `repository` (plugins/ itself), `unmanaged` (a plugin that `pkg` did not install: no fault).
    """

    plugin: str
    kind: Kind
    text: str
    file: str = ""


def verify(root: Path, names: Sequence[str] = ()) -> list[Finding]:
    """Compare what is there with what was installed, file by file; names: only these plugins. Raises `PlanError`."""
    layout, lock = Layout(root), lockfile.read(root)
    asked = [hyphenated(name) for name in names]
    for name in asked:
        if name not in lock.plugins:
            raise PlanError(f"{plain(name, 80)} was not installed by `pkg`; `pkg -Q` lists what was")
    revoked = load(root)
    found = [] if asked else list(_repository(layout, lock))
    for name in asked or sorted(lock.plugins):
        found += _plugin(layout, lock.plugins[name], revoked)
    if not asked:
        found += [Finding(name, "unmanaged", f"{name} was not installed by `pkg`") for name in unmanaged(root)]
    return found


def unmanaged(root: Path) -> list[str]:
    """Return the plugins in plugins/ that `pkg` did not install: it leaves them alone."""
    known = lockfile.read(root).plugins
    found = {plugin.name for plugin in discover(paths.base(), root) if plugin.place == "plugins"}
    return sorted(found - known.keys())


def _repository(layout: Layout, lock: Lock) -> Iterator[Finding]:
    repository = Repository(layout.plugins)
    if not repository.there:
        if lock.plugins:
            yield Finding("", "repository", f"{layout.plugins} is no git repository any more: its history is gone")
        return
    head = repository.head()
    committed = repository.git("ls-tree", head, "--", LOCK_FILE) if head else b""
    if not committed:
        if lock.plugins:
            yield Finding("", "repository", f"{layout.lock} was never committed by `pkg`")
    elif repository.git("cat-file", "blob", f"{head}:{LOCK_FILE}") != layout.lock.read_bytes():
        yield Finding("", "repository", f"{layout.lock} is not what the last operation wrote", LOCK_FILE)


def _plugin(layout: Layout, locked: Locked, revoked: Revoked) -> Iterator[Finding]:
    name, folder = locked.name, layout.folder(locked.name)
    if not folder.is_dir():
        yield Finding(name, "absent", f"{folder} is gone; `pkg -S {name} --force` brings it back")
        return
    if folder.is_symlink():
        yield Finding(name, "moved", f"{folder} is a link to {plain(str(folder.readlink()))}")
        return
    try:
        for edit in edits.found(folder, locked.commit):
            yield Finding(name, edit.kind, f"{plain(edit.file)} was {_WORDS[edit.kind]}", edit.file)
        head = Repository(folder).head()
        if head != locked.commit:
            there = f"commit {(head or 'none')[:12]} is checked out"
            yield Finding(name, "moved", f"{there}, {locked.commit[:12]} ({locked.tag or 'no tag'}) was installed")
        if tree.digest_commit(folder, locked.commit) != locked.digest:
            yield Finding(name, "digest", f"commit {locked.commit[:12]} in {folder} is not what was installed")
    except (OSError, LumiaError) as error:
        yield Finding(name, "digest", f"its files can't be compared: {plain(str(error), 500)}")
    yield from _signature(layout, locked, revoked)


_WORDS = {"edited": "edited", "added": "added", "missing": "removed"}


def _signature(layout: Layout, locked: Locked, revoked: Revoked) -> Iterator[Finding]:
    name, tag = locked.name, locked.tag or ""
    if (name, tag) in revoked.versions:
        why = revoked.versions[name, tag]
        yield Finding(name, "signature", f"{name} {tag} was revoked ({plain(why)}); `pkg -U {name}` or remove it")
    if locked.key is None:
        return
    if locked.key in revoked.keys:
        yield Finding(
            name, "signature", f"the key {locked.key} that signed it was revoked ({revoked.keys[locked.key]})"
        )
    if locked.key not in TrustStore(layout.root).of(name).keys:
        yield Finding(name, "signature", f"the key {locked.key} that signed it is not trusted any more")
    for text in tag_signatures(layout.folder(name), tag) if tag else ():
        try:
            signature = parse_signature(text)
        except LumiaError:
            continue  # of another kind, or damaged: what counts is that of the key in the lock
        if signature.fingerprint == locked.key and not signature.fits(name, tag, locked.digest):
            yield Finding(name, "signature", f"the signature in its tag {tag} doesn't fit {name} {tag}")
