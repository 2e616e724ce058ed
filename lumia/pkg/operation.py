"""An operation: a plan is carried out as a whole, or nothing of it (spec §7.4; DESIGN §11; docs/pkg-operations.md)."""

from __future__ import annotations

import os
import secrets
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lumia.errors import LumiaError, OperationError, PkgError, PlanError
from lumia.manifest import hyphenated
from lumia.pkg import edits, files, journal, layers, lockfile, mutex, recovery
from lumia.pkg.journal import Change, Commit, Journal
from lumia.pkg.layout import Layout
from lumia.pkg.lockfile import Lock
from lumia.pkg.model import Action, Locked, Plan
from lumia.pkg.progress import Check, Deploy, OnStep, Outcome, Packages, Step, silent
from lumia.pkg.repository import Repository
from lumia.pkg.text import plain
from lumia.pkg.transaction import INSTALLS, REPLACES, Transaction, clean, planned
from lumia.pkg.undoing import undo

__all__ = ["Check", "Deploy", "Done", "OnStep", "Outcome", "Packages", "Step", "run"]


@dataclass(frozen=True)
class Done:
    """An operation that is complete. commit: in plugins/, 40 hex digits. lock: what is installed now."""

    id: str
    commit: str
    lock: Lock
    warnings: tuple[str, ...] = ()


def run(
    plan: Plan,
    *,
    layout: Layout,
    on_step: OnStep = silent,
    check: Check | None = None,
    packages: Packages | None = None,
    deploy: Deploy | None = None,
    wait: bool = True,
    force: bool = False,
) -> Done:
    """Carry out `plan`; whatever fails, everything is put back and the error raised.

    wait: for another `pkg` that is at work; else `OperationError` names it. force: replace plugins whose files were
    edited by hand; the edits are kept as a patch in data/pkg/undo. packages: None leaves the Python packages as they
    are.

    Raises `PkgError`: `PlanError` (what is installed is no longer what was planned with), `HookError`,
    `OperationError`, and what `check` and `packages` raise.
    """
    layout.require_bot_root()
    _refuse_senseless(plan)

    def waiting(text: str) -> None:
        on_step(Step("wait", "", text))

    with mutex.hold(layout, timeout=None if wait else 0, on_wait=waiting) as keep:
        recovery.settle(layout, keep=keep, deploy=deploy, on_step=on_step)
        before = lockfile.read(layout.root)
        _refuse_outdated(plan, before)
        try:
            begun = _begun(plan, layout, before, keep)
            edited = _edited(begun, layout, force)
            if check is not None:
                check(planned(before, begun.changes, layout))
            if packages is not None:
                layer = packages(planned(before, begun.changes, layout))
                switched = journal.Packages(old=layers.pointer(layout.root), new=layers.pointing(layer))
                begun = begun.with_(packages=switched)
        except OSError as error:
            raise OperationError(f"nothing was changed: {recovery.reason(error)}{_hint(error)}") from error
        return _carried_out(plan, Transaction(layout, begun, on_step, keep=keep), before, deploy, edited)


def _carried_out(plan: Plan, work: Transaction, before: Lock, deploy: Deploy | None, edited: _Edited) -> Done:
    try:
        work.begin()
        for name, patch in edited.patches.items():
            files.write(work.kept / f"{name}.patch", patch)
            work.warn(f"what was edited in {name} by hand is kept in {work.kept / f'{name}.patch'}", name)
        work.stage({action.name: action.staged for action in plan.actions if action.staged is not None})
        work.before_hooks()
        work.carry(edited.ignored)
        work.swap()
        work.settings()
        work.disabled()
        work.after_hooks()
        after = work.lock(before)
        commit = work.commit(after)
        work.packages()
        recovery.finish(work, deploy)
    except (Exception, KeyboardInterrupt) as error:
        if work.over:
            raise
        _undone(work, deploy, error)
        raise AssertionError("unreachable") from error
    return Done(work.journal.id, commit, after, work.journal.warnings)


def _undone(work: Transaction, deploy: Deploy | None, error: BaseException) -> None:
    """Undo `work`, then raise `error` as what it is for the user."""
    work.tell("undo", "", recovery.reason(error))
    try:
        if work.layout.journal.exists():
            undo(work, deploy)
        else:
            clean(work.layout)  # not even begun
    except (OSError, LumiaError) as trouble:
        about = f"the operation {work.journal.id} failed ({recovery.reason(error)}) and"
        raise recovery.unsettled(work.layout, about, trouble) from error
    if not isinstance(error, OSError | LumiaError):
        work.tell("undo", "", "everything is as it was before")
        raise error
    kind = type(error) if isinstance(error, PkgError) else OperationError
    kept = "".join(f"; {warning}" for warning in work.journal.warnings)
    said = f"{recovery.reason(error)}{_hint(error)}. Everything is as it was before{kept}; the log is {work.log.path}"
    raise kind(said) from error


def _hint(error: BaseException) -> str:
    import errno

    number = error.errno if isinstance(error, OSError) else None
    if number in (errno.ENOSPC, errno.EDQUOT):
        return "; make room (`pkg -Sc` empties the cache) and try again"
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "; give this user the right to write there"
    return ""


# --- What is refused before anything is touched -----------------------------------------------------------------------


def _refuse_senseless(plan: Plan) -> None:
    if not plan.actions:
        raise PlanError("there is nothing to do")
    for action in plan.actions:
        if action.kind in INSTALLS and (action.staged is None or action.after is None):
            raise PlanError(f"{action.name}: a plan that installs it must have it staged")


def _refuse_outdated(plan: Plan, lock: Lock) -> None:
    for action in plan.actions:
        now = lock.plugins.get(action.name)
        if _content(now) != _content(action.before):
            there = f"is installed as {now.version}" if now else "is not installed"
            raise PlanError(f"{action.name} {there} by now, since another `pkg` was at work meanwhile; run yours again")


def _content(entry: Locked | None) -> tuple[str, str] | None:
    return None if entry is None else (entry.commit, entry.digest)


def _begun(plan: Plan, layout: Layout, before: Lock, keep: int) -> Journal:
    """Return the journal of a new operation, after looking whether the folders can be written."""
    layout.plugins.mkdir(exist_ok=True)
    id = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
    for action in plan.actions:
        if action.kind == "install":
            _refuse_occupied(layout, action.name)
    files.make_folder(layout.undo)
    area = layout.undo / id if files.can_rename(layout.undo, layout.plugins) else layout.plugins / ".pkg" / id
    repository = Repository(layout.plugins, keep=keep)
    there = repository.there
    return Journal(
        id=id,
        started=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S"),
        command=plain(" ".join([os.path.basename(sys.argv[0] or "python"), *sys.argv[1:]]), 120),
        area=str(area.relative_to(layout.root)),
        changes=tuple(_change(action, layout) for action in plan.actions),
        purge=tuple(sorted(plan.purge)),
        commit=Commit(branch=repository.branch(), old=repository.head())
        if there
        else Commit(branch="refs/heads/main", old=None, made=True),
        had_lock=layout.lock.exists(),
    )


def _change(action: Action, layout: Layout) -> Change:
    there = os.path.lexists(layout.folder(action.name))
    return Change(kind=action.kind, name=action.name, before=action.before, after=action.after, there=there)


def _refuse_occupied(layout: Layout, name: str) -> None:
    for entry in layout.plugins.iterdir():
        if hyphenated(entry.name) == name:
            raise PlanError(
                f"plugins/{entry.name} is there already and `pkg` did not install it; move it away (or go on with it: "
                f"it is loaded as it is), then install {name} again"
            )


@dataclass(frozen=True)
class _Edited:
    """Patches of what was edited by hand, and the names of files that plugins let git ignore; both by plugin."""

    patches: dict[str, bytes] = field(default_factory=dict)
    ignored: dict[str, list[str]] = field(default_factory=dict)


def _edited(begun: Journal, layout: Layout, force: bool) -> _Edited:
    """Return what was edited by hand; raises `PlanError` without `force`."""
    edited = _Edited()
    for change in begun.changes:
        if not change.there or change.before is None or change.kind not in {*REPLACES, "remove"}:
            continue
        folder = layout.folder(change.name)
        try:
            found, ignored = ([], []) if folder.is_symlink() else edits.compared(folder, change.before.commit)
            what = f"it is a link to {os.readlink(folder)}" if folder.is_symlink() else _listed(found)
        except OperationError as error:
            found, ignored, what = [], [], str(error)
        if what and not force:
            raise PlanError(
                f"{change.name} was edited by hand in {folder} ({what}); take your changes out, or say --force: they "
                "are then kept as a patch"
            )
        if found:
            edited.patches[change.name] = edits.patch(folder, change.before.commit, layout.undo / ".index")
            (layout.undo / ".index").unlink(missing_ok=True)
        edited.ignored[change.name] = ignored
    return edited


def _listed(found: list[edits.Edit]) -> str:
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    return ", ".join(plain(edit.file, 100) for edit in found[:5]) + more
