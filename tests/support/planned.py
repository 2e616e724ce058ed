"""A bot root whose installed plugins are only written down, for tests of planning: no operation is carried out."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lumia.pkg import lockfile, planning, requests, tree
from lumia.pkg.git import Git
from lumia.pkg.layout import Layout
from lumia.pkg.lockfile import Lock
from lumia.pkg.model import Locked, Origin, Plan
from lumia.pkg.registry import Registry
from lumia.pkg.sources import Sources
from tests.support.plugin_repos import Repository
from tests.support.registry import FakeRegistry


@dataclass
class Planned:
    """A bot root. warnings: what planning told beside its plan."""

    root: Path
    server: FakeRegistry | None = None
    warnings: list[str] = field(default_factory=list)

    def sources(self) -> Sources:
        """Return new sources, which ask everything again."""
        registry = Registry(self.server.url, self.root / "cache", warn=self.warnings.append) if self.server else None
        return Sources(self.root, Git(Layout(self.root).cache), registry, self.warnings.append)

    def install(self, *texts: str, force: bool = False) -> Plan:
        """Plan `pkg -S`."""
        return planning.plan_install([requests.parse(text) for text in texts], self.sources(), force=force)

    def upgrade(self, *names: str) -> Plan:
        """Plan `pkg -U`."""
        return planning.plan_upgrade(list(names), self.sources())

    def remove(self, *names: str, purge: bool = False, force: bool = False) -> Plan:
        """Plan `pkg -R`."""
        return planning.plan_remove(list(names), self.root, purge=purge, force=force)

    def has(
        self, repository: Repository, tag: str | None, *, origin: Origin = "registry", requested: bool = True
    ) -> Locked:
        """Write down that a version is installed, and put its files there."""
        commit = repository.git("rev-parse", f"{tag or 'HEAD'}^{{commit}}").strip()
        folder = Layout(self.root).folder(repository.name)
        shutil.rmtree(folder, ignore_errors=True)
        packed = repository.folder.with_suffix(".tar")
        repository.git("archive", "--format=tar", "-o", str(packed), commit)
        shutil.unpack_archive(packed, folder, "tar", filter="data")
        url = str(repository.folder) if origin == "folder" else repository.url
        version = tag.lstrip("v") if tag else f"0.0.0+{commit[:12]}"
        digest = tree.digest_commit(repository.folder, commit)
        locked = Locked(repository.name, version, tag, commit, url, origin, digest, requested=requested)
        self._write(lockfile.read(self.root).changed([locked]))
        return locked

    def disable(self, *names: str) -> None:
        """Disable plugins in the settings and in the lock."""
        listed = ", ".join(f'"{name}"' for name in names)
        (self.root / "config" / "lumia.toml").write_text(f"[plugins]\ndisabled = [{listed}]\n")
        lock = lockfile.read(self.root)
        self._write(lock.changed(replace(lock.plugins[name], enabled=False) for name in names if name in lock.plugins))

    def _write(self, lock: Lock) -> None:
        Layout(self.root).plugins.mkdir(exist_ok=True)
        lockfile.write(self.root, lock)


def planned(root: Path, server: FakeRegistry | None = None) -> Planned:
    """Make a bot root with nothing in it."""
    (root / "config").mkdir(parents=True)
    (root / "config" / "lumia.toml").touch()
    return Planned(root, server)


def steps(plan: Plan) -> list[str]:
    """Return the actions in words: `upgrade geo 0.3.0 → 0.4.0`."""

    def version(locked: Locked | None) -> Sequence[str]:
        return [locked.version] if locked else []

    return [
        f"{one.kind} {one.name} {' → '.join([*version(one.before), *version(one.after if one.staged else None)])}"
        for one in plan.actions
    ]
