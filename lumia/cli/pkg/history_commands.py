"""`pkg log`, `rollback`, `freeze`, `sync` and `verify`: what was installed, and getting back to it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lumia.cli import output
from lumia.cli.pkg.changing import How, change
from lumia.cli.pkg.opened import opened
from lumia.cli.pkg.options import Json, changes
from lumia.errors import PkgError

if TYPE_CHECKING:
    from lumia.pkg.lockfile import Lock

EDITED = "Although files of plugins were edited."
"""Help of --force where it overrides nothing else."""
NEW_LOCK = "make one with `pkg freeze > plugins.lock` where the plugins are installed"
"""What to do about a file for `pkg sync` that is no lock."""


def log(
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many operations at most.")] = 20,
    as_json: Json = False,
) -> None:
    """List the operations, the newest first.

    \b
    Example:
      pkg log
      pkg log --limit 100 --json
    """
    from lumia.pkg import history

    entries = history.log(opened().root, limit)
    if as_json:
        output.data([
            {"operation": one.id, "commit": one.commit, "time": one.time.isoformat(), "title": one.title,
             "changes": list(one.changes)} for one in entries
        ])  # fmt: skip
        return
    for one in entries:
        when = one.time.astimezone().strftime("%Y-%m-%d %H:%M")
        output.text(f"{when}  {one.id or one.commit[:12]}  {one.title}")
        for line in one.changes if len(one.changes) > 1 else ():
            output.text(f"    {line}")


@changes(force=EDITED)
def rollback(
    how: How, to: Annotated[str | None, typer.Argument(metavar="OPERATION", show_default=False)] = None
) -> None:
    """Bring back what was installed before the last operation, or after OPERATION (`pkg log` lists them).

    \b
    Example:
      pkg rollback
      pkg log
      pkg rollback OPERATION --dry-run
    """
    from lumia.pkg import history

    change(lambda sources: history.rollback(sources.root, to, revoked=sources.revoked), how)


def freeze(as_json: Json = False) -> None:
    """Print a lock of everything installed: exact commits and digests, for `pkg sync` elsewhere.

    It is JSON, with --json as well as without.

    \b
    Example:
      pkg freeze > plugins.lock
    """
    from lumia.pkg import history

    print(history.freeze(opened().root), end="", flush=True)


@changes(force=EDITED, replaces=True)
def sync(
    how: How,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[LOCK]",
            show_default=False,
            help="A file of `pkg freeze`, - for stdin; without it, what the running bot works with.",
        ),
    ] = None,
) -> None:
    """Install exactly what LOCK names: nothing else stays, and nothing is resolved anew.

    Without LOCK this bot root is brought in step with the running bot, whose other machines work with other plugins
    since it was away or copied; nothing changes there.

    \b
    Example:
      pkg sync
      pkg sync plugins.lock
      ssh other 'cd bot && pkg freeze' | pkg sync - --yes
    """
    from lumia.pkg import history, joining
    from lumia.pkg.lockfile import Lock

    lock = None if file is None else _lock_in(file)
    root = opened(changes=True, wait=not how.no_wait).root
    target = joining.target(root) if lock is None or joining.is_target(root, lock) else None
    wanted = target.lock if target is not None else lock or Lock()
    change(lambda sources: history.sync_plan(sources.root, wanted, revoked=sources.revoked), how, target)


def _lock_in(file: str) -> Lock:
    from lumia.pkg import lockfile

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    except OSError as error:
        raise PkgError(f"{file} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PkgError(f"{file} is no lock file: it is not UTF-8; {NEW_LOCK}") from error
    return lockfile.parse(text, "standard input" if file == "-" else file, NEW_LOCK)


def verify(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Compare the files of plugins with what was installed; the exit code is 1 when something differs.

    \b
    Example:
      pkg verify
      pkg verify weather --json
    """
    from lumia.pkg import history

    findings = history.verify(opened().root, names or [])
    faults = [one for one in findings if one.kind != "unmanaged"]
    if as_json:
        output.data([_finding(one) for one in findings])
    else:
        for one in findings:
            place = f"{one.plugin}: " if one.plugin and not one.text.startswith(one.plugin) else ""
            output.text(f"{one.kind:<10} {place}{one.text}")
        if not faults:
            output.note("everything is as it was installed")
    if faults:
        raise typer.Exit(1)


def _finding(found: Any) -> dict[str, str]:
    return {"plugin": found.plugin, "kind": found.kind, "file": found.file, "text": found.text}
