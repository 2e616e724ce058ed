"""After a crash: an operation that was cut off is finished or undone, whoever notices it first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lumia.errors import HookError, LumiaError, OperationError
from lumia.pkg import journal, lockfile, mutex
from lumia.pkg.layout import Layout
from lumia.pkg.progress import Deploy, OnStep, Step, silent
from lumia.pkg.transaction import Transaction
from lumia.pkg.undoing import undo

_EXCHANGING = frozenset({"swap-out", "swap-in", "undo-folder"})


@dataclass(frozen=True)
class Recovered:
    """What became of the operation `id` that was cut off; text: in plain words."""

    id: str
    outcome: Literal["finished", "undone"]
    text: str


def recover(
    root: Path, *, deploy: Deploy | None = None, on_step: OnStep = silent, wait: float = 10.0
) -> Recovered | None:
    """Finish or undo what a killed `pkg` left behind; None when there was nothing to do. Cheap then: one look.

    An operation that was handed to the running bot is finished (with `deploy`, if given: handed over once more, and
    undone when that fails), an earlier one is undone. A live `pkg` is left alone; only while it exchanges folders, and
    one of them may be missing for a moment, it is waited for, up to `wait` seconds.

    Raises `OperationError` when it can't be put right now: the message says why and what to do; the next call tries
    again.
    """
    layout = Layout(root)
    if not layout.journal.exists():
        return None
    try:
        with mutex.hold(layout, timeout=0) as keep:
            return settle(layout, keep=keep, deploy=deploy, on_step=on_step)
    except mutex.HeldError:
        found = journal.read(layout)
        if found is None or found.step not in _EXCHANGING:
            return None
    try:
        with mutex.hold(layout, timeout=wait, on_wait=lambda text: on_step(Step("wait", "", text))) as keep:
            return settle(layout, keep=keep, deploy=deploy, on_step=on_step)
    except mutex.HeldError:
        return None


def settle(layout: Layout, *, keep: int, deploy: Deploy | None, on_step: OnStep) -> Recovered | None:
    """Do what `recover` says, for who holds the lock (descriptor `keep`) already."""
    found = journal.read(layout)
    if found is None:
        return None
    work = Transaction(layout, found, on_step, keep=keep)
    about = f"`{found.command}` of {found.started}"
    try:
        if found.phase == "deploy":
            try:
                finish(work, deploy, again=True)
                return Recovered(found.id, "finished", f"{about} was cut off after its plugins were in place: finished")
            except OperationError as error:
                undo(work, deploy)
                return Recovered(found.id, "undone", f"{about} was cut off and can't be finished: {error}; undone")
        undo(work, deploy)
        return Recovered(found.id, "undone", f"{about} was cut off in the middle: everything is as it was before")
    except (OSError, OperationError) as error:
        raise unsettled(layout, about, error) from error


def finish(work: Transaction, deploy: Deploy | None, *, again: bool = False) -> None:
    """Do what is left once the plugins are in place: hand over, run post_uninstall, remember keys, clean up.

    again: it was cut off before; a hook that fails now can't call anything off. Raises `OperationError`, `HookError`.
    """
    if not again or work.journal.step == "deploy":
        work.deploy(lockfile.read(work.layout.root), deploy)
    try:
        work.uninstall_hooks()
    except HookError as error:
        if not again:
            raise
        work.warn(f"{error}; the plugin is removed all the same")
    try:
        work.trust()
    except (OSError, LumiaError) as error:
        work.warn(f"the key it was signed with could not be remembered: {error}")
    work.finish()


def unsettled(layout: Layout, about: str, error: Exception) -> OperationError:
    """Return what is said when putting everything back failed, too."""
    why = reason(error)
    return OperationError(
        f"{about} is only partly undone: {why}. What it replaced is safe in {layout.undo}; see to that cause and run "
        "any `pkg` command, which goes on with it"
    )


def reason(error: BaseException) -> str:
    """Return an error in plain words, with the file it is about."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return str(error) or type(error).__name__
