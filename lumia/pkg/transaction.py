"""The steps of an operation, one function each; each can be done again after a crash (docs/pkg-operations.md)."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from lumia import atomic
from lumia.atomic import sync_folder
from lumia.config_edit import at
from lumia.config_env import CORE, variable
from lumia.config_file import parse, read_if_there
from lumia.errors import ConfigError, LumiaError, OperationError
from lumia.manifest import load_manifest, underscored
from lumia.paths import CONFIG_FILE
from lumia.pkg import configfile, edits, failpoints, files, hooks, journal, layers, lockfile
from lumia.pkg.journal import Change, Journal, Rewritten
from lumia.pkg.layout import LOCK_FILE, Layout
from lumia.pkg.lockfile import Lock
from lumia.pkg.model import Locked, Staged
from lumia.pkg.oplog import OperationLog
from lumia.pkg.progress import Deploy, OnStep, Step
from lumia.pkg.repository import TRAILER, Repository

INSTALLS = frozenset({"install", "upgrade", "downgrade"})
REPLACES = frozenset({"upgrade", "downgrade"})
_FORGOTTEN = 24 * 60 * 60
"""Seconds after which what is staged was left by a killed `pkg`."""
_BALLAST = 256 * 1024
"""Bytes kept back so that undoing has room on a disk that is full."""


class Transaction:
    """One operation at work. keep: descriptor of the lock, which children inherit. over: it is done, and stays so."""

    def __init__(self, layout: Layout, begun: Journal, on_step: OnStep, *, keep: int) -> None:
        self.layout, self.journal, self._keep = layout, begun, keep
        self.over = False
        self.log = OperationLog(layout, begun.id)
        self._on_step = on_step
        self.area = layout.root / begun.area
        self.kept = layout.undo / begun.id
        self.repository = Repository(layout.plugins, keep=keep)

    # --- Telling ------------------------------------------------------------------------------------------------------

    def tell(self, name: str, plugin: str = "", text: str = "") -> None:
        """Tell the watcher and the log."""
        self.log.line(name, plugin, text)
        self._on_step(Step(name, plugin, text))

    def warn(self, text: str, plugin: str = "") -> None:
        """Tell something the user should know afterwards, too."""
        self.journal = self.journal.with_(warnings=(*self.journal.warnings, text))
        self.tell("warning", plugin, text)

    @contextlib.contextmanager
    def step(self, name: str, plugin: str = "", text: str = "") -> Iterator[None]:
        """Do a step: journal first, then what is in the block."""
        self.tell(name, plugin, text or journal.STEPS.get(name, "putting everything back").format(plugin or "it"))
        self.journal = journal.enter(self.layout, self.journal, name, plugin)
        yield
        failpoints.hit(f"{name}.done", plugin)

    # --- Where a plugin's files are -----------------------------------------------------------------------------------

    def new(self, name: str) -> Path:
        """Return where a version waits to be swapped in."""
        return self.area / "new" / underscored(name)

    def old(self, name: str) -> Path:
        """Return where a version is that was swapped out."""
        return self.area / "old" / underscored(name)

    # --- The steps ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Write the journal, and make room for undoing."""
        clean(self.layout)  # what one left that was killed while it cleaned up
        for folder in (self.kept, self.area / "new", self.area / "old"):
            files.make_folder(folder)
        files.write(self.kept / "ballast", os.urandom(_BALLAST))
        with contextlib.suppress(FileNotFoundError):
            files.write(self.kept / LOCK_FILE, self.layout.lock.read_bytes())
        with self.step("begin"):
            if self.journal.commit.made:
                self._make_repository()

    def _make_repository(self) -> None:
        """Make plugins/ a repository in one move, so that there is never half of one."""
        made = Repository(self.area / "repository", keep=self._keep)
        files.make_folder(made.folder)
        made.init()
        files.move(made.folder / ".git", self.layout.plugins / ".git")

    def stage(self, staged: Mapping[str, Staged]) -> None:
        """Bring the new versions to where they can be swapped in by a rename."""
        for name, version in staged.items():
            with self.step("stage", name):
                files.bring(version.folder, self.new(name))
            with contextlib.suppress(OSError):
                version.folder.parent.rmdir()
        self.journal = self.journal.with_(staged=True)

    def before_hooks(self) -> None:
        """Run pre_install of what comes, where it is staged, and pre_upgrade and pre_uninstall of what is there."""
        for change in self.journal.changes:
            folder = self.layout.folder(change.name)
            if change.kind == "install":
                self._hook("pre_install", change, self.new(change.name))
            elif change.kind in REPLACES and change.there:
                self._hook("pre_upgrade", change, folder)
            elif change.kind == "remove" and change.there:
                self._hook("pre_uninstall", change, folder)

    def carry(self, ignored: Mapping[str, list[str]]) -> None:
        """Give new versions what the old ones let git ignore: files they made themselves while they ran."""
        for change in self.journal.changes:
            names = ignored.get(change.name, ())
            if names and change.kind in REPLACES:
                with self.step("carry", change.name):
                    edits.carry(self.layout.folder(change.name), self.new(change.name), names)

    def swap(self) -> None:
        """Exchange the folders."""
        for change in self.journal.changes:
            folder = self.layout.folder(change.name)
            if change.there and change.kind in {*REPLACES, "remove"}:
                with self.step("swap-out", change.name):
                    files.move(folder, self.old(change.name))
            if change.kind in INSTALLS:
                with self.step("swap-in", change.name):
                    files.move(self.new(change.name), folder)

    def settings(self) -> None:
        """Make and complete settings files; delete those of purged plugins."""
        for change in self.journal.changes:
            path = self.layout.settings(change.name)
            if change.kind in INSTALLS:
                self._complete(change, path)
            elif change.kind == "remove" and change.name in self.journal.purge and path.exists():
                self._rewrite(path, "config", change.name, lambda text: None)

    def _complete(self, change: Change, path: Path) -> None:
        assert change.after is not None
        folder, version = self.layout.folder(change.name), change.after.version
        manifest = load_manifest(folder)
        schema = configfile.schema_of(folder, manifest)
        old = None
        if change.before is not None and change.there:
            with contextlib.suppress(Exception):  # an old version that is damaged must not keep a new one out
                old = configfile.schema_of(self.old(change.name))

        def completed(text: str) -> str:
            return configfile.completed(change.name, version, path, text, schema, old, folder)

        private = schema is not None and schema.private
        try:
            self._rewrite(path, "config", change.name, completed, mode=0o600 if private else 0o644)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            # A read-only configuration is a way to run bots: what is missing has its default.
            self.warn(f"{path} can't be written ({error.strerror}); defaults hold for what it lacks", change.name)

    def disabled(self) -> None:
        """Bring `[plugins] disabled` in config/lumia.toml in line."""
        names: dict[str, bool] = {}
        for change in self.journal.changes:
            if change.kind == "remove":
                names[change.name] = False
            elif change.kind in ("enable", "disable"):  # also Lumia's own, which no lock holds
                names[change.name] = change.kind == "disable"
            elif change.kind == "install" and change.after is not None:
                names[change.name] = not change.after.enabled
        path = self.layout.root / CONFIG_FILE

        def edited(text: str) -> str:
            return configfile.with_names(text, names, path)

        if names:
            self._rewrite(path, "disabled", "", edited, names=names)

    def _rewrite(
        self, path: Path, step: str, plugin: str, edit: Callable[[str], str | None], *, mode: int = 0o644,
        names: dict[str, bool] | None = None,
    ) -> None:  # fmt: skip
        """Replace a settings file by what `edit` makes of its text, None to delete it; an unchanged one is let be."""
        target = Path(os.path.realpath(path))
        present = read_if_there(target)
        if edit(present.text) == present.text:
            return
        with atomic.locked(target.parent):
            document = read_if_there(target)
            text = edit(document.text)
            if text == document.text:
                return
            number = len(self.journal.rewritten)
            existed = document.stamp is not None
            there = document.stamp.mode & 0o7777 if document.stamp else mode
            if existed:
                files.write(self._image(number, "before"), target.read_bytes())
            if text is not None:
                files.write(self._image(number, "after"), document.encode(text))
            entry = Rewritten(
                path=str(target), number=number, existed=existed, made=text is not None, mode=there, names=names or {}
            )
            self.journal = self.journal.with_(rewritten=(*self.journal.rewritten, entry))
            with self.step(step, plugin):
                if text is None:
                    target.unlink()
                    sync_folder(target.parent)
                else:
                    atomic.replace(target, document.encode(text), mode=mode)

    def _image(self, number: int, which: str) -> Path:
        return self.kept / f"settings-{number}.{which}"

    def after_hooks(self) -> None:
        """Run post_install and post_upgrade of what came."""
        for change in self.journal.changes:
            folder = self.layout.folder(change.name)
            if change.kind == "install":
                self._hook("post_install", change, folder)
            elif change.kind in REPLACES:
                self._hook("post_upgrade", change, folder)

    def _hook(self, name: hooks.HookName, change: Change, folder: Path) -> None:
        version = change.after or change.before
        assert version is not None
        before = _tag(change.before) if change.kind in REPLACES and change.before else None
        hook = hooks.find(name, change.name, folder, self.layout.root, _tag(version), before)
        if hook is None:
            return
        step = {"pre": "pre-hook", "post": "post-hook"}[name.partition("_")[0]]
        with self.step(
            "uninstall-hook" if name == "post_uninstall" else step, change.name, f"running {name} of {change.name}"
        ):
            hooks.run(
                hook, seconds=hook_seconds(self.layout.root), keep=self._keep, redact=self.log.redact,
                on_line=lambda line: self.tell("output", change.name, line),
            )  # fmt: skip

    def lock(self, before: Lock) -> Lock:
        """Write and return the new lock; what is enabled is taken from config/lumia.toml, the one truth."""
        after = planned(before, self.journal.changes, self.layout)
        with self.step("lock"):
            lockfile.write(self.layout.root, after)
        return after

    def commit(self, lock: Lock) -> str:
        """Commit the lock and the plugins' commits in plugins/ and return the commit's id."""
        found = self.journal.commit
        removed = [change.name for change in self.journal.changes if change.kind == "remove"]
        new = self.repository.record(lock, removed, self.message(), self.kept / "index", found.old)
        self.journal = self.journal.with_(commit=found.model_copy(update={"new": new}))
        with self.step("commit"):
            self.repository.move(found.branch, new, found.old, f"pkg: {self.journal.id}")
        with self.step("index"):
            try:
                self.repository.enter(lock, removed)
            except OperationError as error:
                self.warn(f"`git status` in plugins/ shows differences that are none: {error}")
        return new

    def packages(self) -> None:
        """Have processes start with the Python packages that go with the new versions; they are there already."""
        found = self.journal.packages
        if found is not None and found.new != found.old:
            with self.step("packages"):
                layers.point(self.layout.root, found.new)

    def deploy(self, lock: Lock, deploy: Deploy | None) -> None:
        """Hand the lock to the running bot; raises `OperationError` with its reasons when that doesn't take it."""
        self.journal = self.journal.with_(phase="deploy", handed=True)
        with self.step("deploy"):
            try:
                outcome = deploy(lock) if deploy else None
            except LumiaError as error:
                raise OperationError(f"it could not be handed to the running bot: {error}") from error
        if outcome is not None and not outcome.ok:
            self.journal = self.journal.with_(handed=False)  # every process has dropped it already
            raise OperationError(f"the running bot did not take {self._versions()}: {outcome.text}")

    def _versions(self) -> str:
        """Name what the operation would load, at most three; a process that died or hung can't tell which it was."""
        loads = [one for one in self.journal.changes if one.kind not in ("remove", "disable", "mark")]
        new = [f"{one.name} {one.after.version}" for one in loads if one.after is not None]
        more = f" and {len(new) - 3} more" if len(new) > 3 else ""
        return ", ".join(new[:3]) + more if new else "it"

    def uninstall_hooks(self) -> None:
        """Run post_uninstall of what is unloaded now; its files are still there, outside plugins/."""
        for change in self.journal.changes:
            if change.kind == "remove" and change.there and change.name not in self.journal.hooks:
                self._hook("post_uninstall", change, self.old(change.name))
                self.journal = self.journal.with_(hooks=(*self.journal.hooks, change.name))

    def trust(self) -> None:
        """Remember the keys that signed what is installed."""
        from lumia.pkg import trust

        for change in self.journal.changes:
            if change.kind in INSTALLS and change.after is not None and change.after.key is not None:
                with self.step("trust", change.name):
                    trust.remember(self.layout.root, change.after)

    def finish(self) -> None:
        """End the operation: without the journal it is done. Then what it kept for undoing is deleted, if it can be."""
        try:
            with self.step("finish"):
                self.layout.journal.unlink(missing_ok=True)
                self.over = True
                sync_folder(self.layout.data)
            failpoints.hit("clean")
            clean(self.layout)
            failpoints.hit("clean.done")
        except OSError:
            if not self.over:
                raise

    # --- Words --------------------------------------------------------------------------------------------------------

    def message(self) -> str:
        """Return the commit's message: a title, a line per plugin, and the operation's id."""
        lines = [described(change) for change in self.journal.changes]
        title = lines[0] if len(lines) == 1 else f"{lines[0]} and {len(lines) - 1} more"
        body = "".join(f"{line}\n" for line in lines) + "\n" if len(lines) > 1 else ""
        return f"{title}\n\n{body}{TRAILER}: {self.journal.id}\n"


def described(change: Change) -> str:
    """Return a change in a line: `Upgrade dice 1.0.0 → 1.1.0`."""
    before, after = change.before, change.after
    if change.kind in REPLACES and before and after:
        return f"{change.kind.capitalize()} {change.name} {before.version} → {after.version}"
    version = after or before
    return f"{change.kind.capitalize()} {change.name}" + (f" {version.version}" if version else "")


def planned(before: Lock, changes: tuple[Change, ...], layout: Layout) -> Lock:
    """Return the lock after `changes`, with what config/lumia.toml says of who is enabled."""
    path = layout.root / CONFIG_FILE
    try:
        off = configfile.disabled(read_if_there(path).text, path)
    except ConfigError as error:
        raise OperationError(str(error)) from error
    after = before
    for change in changes:
        after = after.changed([change.after] if change.after else (), () if change.after else [change.name])
    return Lock({name: replace(entry, enabled=name not in off) for name, entry in after.plugins.items()})


def hook_seconds(root: Path) -> float:
    """Return `[pkg] hook_seconds` of config/lumia.toml; a value that makes no sense counts as the default."""
    path = root / CONFIG_FILE
    found: object = hooks.SECONDS
    given = os.environ.get(variable(CORE, ("pkg", "hook_seconds")), "")
    if given.isdecimal():
        return int(given) or hooks.SECONDS
    with contextlib.suppress(OSError, ConfigError):
        found = at(parse(read_if_there(path).text, path), ("pkg", "hook_seconds"), hooks.SECONDS)
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else hooks.SECONDS


def clean(layout: Layout) -> None:
    """Delete what ended operations left for undoing, and old staged versions; patches of edits by hand stay."""
    with contextlib.suppress(OSError):
        for folder in layout.staging.iterdir() if layout.staging.is_dir() else ():
            if time.time() - folder.stat().st_mtime > _FORGOTTEN:
                files.remove(folder)
    with contextlib.suppress(OSError):
        files.remove(layout.plugins / ".pkg")
    with contextlib.suppress(OSError):
        for folder in layout.undo.iterdir() if layout.undo.is_dir() else ():
            for entry in folder.iterdir():
                if entry.suffix != ".patch":
                    files.remove(entry)
            with contextlib.suppress(OSError):
                folder.rmdir()


def _tag(locked: Locked) -> str:
    return locked.tag or locked.version
