"""Plugins as git repositories, and bot roots that they are installed into, for tests of `pkg`."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from lumia.manifest import load_manifest, underscored
from lumia.pkg import layers, lockfile, operation, tree
from lumia.pkg.layout import Layout
from lumia.pkg.lockfile import Lock
from lumia.pkg.model import Action, Kind, Locked, Plan, Staged
from tests.support.plugins import git


class Shop:
    """Makes plugins' repositories below `folder`, each version once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made: dict[tuple[str, str], Locked] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def repository(self, name: str) -> Path:
        """Return the repository of a plugin."""
        return self.folder / name

    def publish(self, name: str, version: str, files: Mapping[str, str] | None = None, **manifest: object) -> Locked:
        """Commit and tag a version; what isn't in `files` is gone from it. The same version isn't made twice."""
        if (name, version) in self._made:
            return self._made[name, version]
        folder = self.repository(name)
        if not folder.exists():
            folder.mkdir()
            git(folder, "init", "--quiet")
        for entry in folder.iterdir():
            if entry.name != ".git":
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        content = {"manifest.json": json.dumps({"name": name, **manifest}), "plugin.py": f"VERSION = {version!r}\n"}
        for file, text in {**content, **(files or {})}.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        git(folder, "add", "--all", "--force")
        git(folder, "commit", "--quiet", "-m", version)
        git(folder, "tag", f"v{version}")
        commit = git(folder, "rev-parse", "HEAD")
        made = Locked(name, version, f"v{version}", commit, folder.as_uri(), "git", tree.digest(folder))
        self._made[name, version] = made
        return made

    def stage(self, locked: Locked, layout: Layout) -> Staged:
        """Check a published version out below data/pkg/staging."""
        folder = layout.staging / hashlib.sha256(str(locked).encode()).hexdigest()[:8] / underscored(locked.name)
        shutil.rmtree(folder.parent, ignore_errors=True)
        folder.parent.mkdir(parents=True)
        git(self.folder, "clone", "--quiet", "--template=", "--no-local", "--branch", str(locked.tag), "-c",
            "advice.detachedHead=false", str(self.repository(locked.name)), str(folder))  # fmt: skip
        return Staged(locked, folder, load_manifest(folder))


class Bot:
    """A bot root in which plugins are installed from a shop."""

    def __init__(self, root: Path, shop: Shop) -> None:
        self.layout, self.shop = Layout(root), shop
        (root / "config").mkdir(parents=True)
        (root / "config" / "lumia.toml").write_text("", "utf-8")
        (root / "plugins").mkdir()

    @property
    def lock(self) -> Lock:
        """Return what is installed."""
        return lockfile.read(self.layout.root)

    def action(self, kind: Kind, name: str, version: str | None = None) -> Action:
        """Return an action on what is installed now; `version` is published already."""
        before = self.lock.plugins.get(name)
        if version is None:
            return Action(kind, name, before)
        after = self.shop.publish(name, version)
        return Action(kind, name, before, after, self.shop.stage(after, self.layout))

    def install(self, name: str, version: str) -> operation.Done:
        """Install a published version, or make it the installed one."""
        return self.run(self.action("upgrade" if name in self.lock.plugins else "install", name, version))

    def remove(self, name: str, *, purge: bool = False) -> operation.Done:
        """Remove a plugin."""
        return self.run(self.action("remove", name), purge=purge)

    def run(self, *actions: Action, purge: bool = False, **options: object) -> operation.Done:
        """Run an operation."""
        names = frozenset(action.name for action in actions) if purge else frozenset[str]()
        return operation.run(Plan(actions, names), layout=self.layout, **options)  # type: ignore[arg-type]

    def state(self) -> dict[str, str]:
        """Return everything an operation may change: files, settings, lock, packages, both kinds of repositories."""
        root = self.layout.root
        found = {str(path.relative_to(root)): path.read_text("utf-8") for path in _files(root)}
        if (root / "plugins" / ".git").exists():
            found["branch"] = _commit(root / "plugins" / ".git")
            found["status"] = git(root / "plugins", "-c", "status.submoduleSummary=false", "status", "--short")
        for folder in sorted((root / "plugins").glob("*/.git")):
            found[f"{folder.parent.name} HEAD"] = _commit(folder)
        if (packages := layers.pointer(root)) is not None:
            found["packages"] = packages
        return found

    def leftovers(self) -> list[str]:
        """Return what operations left behind in data/pkg although they are over."""
        data = self.layout.data
        kept = {"lock", "log", "cache", "trust.json", "staging", "undo"}
        found = [entry.name for entry in data.iterdir() if entry.name not in kept] if data.exists() else []
        found += [str(path) for path in self.layout.undo.rglob("*")] if self.layout.undo.exists() else []
        return found + [str(path) for path in self.layout.plugins.glob(".pkg*")]


def _commit(repository: Path) -> str:
    """Return the commit that is checked out, "" before the first one."""
    head = (repository / "HEAD").read_text("ascii").strip().removeprefix("ref: ")
    ref = repository / head
    return ref.read_text("ascii").strip() if ref.is_file() else head if len(head) == 40 else ""


def _files(root: Path) -> list[Path]:
    found = [*(root / "plugins").rglob("*"), *(root / "config").glob("*.toml")]
    return [path for path in sorted(found) if path.is_file() and ".git" not in path.relative_to(root).parts]
