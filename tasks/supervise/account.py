"""Which account a server runs under: Postgres refuses to be root, everything else runs as who called `lumia up`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lumia.errors import SupervisorError

SHIM = Path(__file__).with_name("shim.py")
_CANDIDATES = ("postgres", "nobody")


@dataclass(frozen=True)
class Account:
    """An account to run as; None means the caller's own."""

    uid: int | None = None
    gid: int | None = None

    def options(self) -> list[str]:
        """Return the shim's options for this account."""
        return [] if self.uid is None else ["--user", f"{self.uid}:{self.gid}"]

    def give(self, *paths: Path) -> None:
        """Make this account the owner of `paths`."""
        if self.uid is not None and self.gid is not None:
            for path in paths:
                os.chown(path, self.uid, self.gid)


def shimmed(command: Sequence[str], *options: str) -> list[str]:
    """Return the command line that becomes `command` through the shim, with `options`."""
    return [sys.executable, "-I", "-S", str(SHIM), *options, "--", *command]


def run_as(
    account: Account,
    command: Sequence[str],
    *,
    text: str = "",
    env: Mapping[str, str] | None = None,
    timeout: float = 120.0,
) -> subprocess.CompletedProcess[str]:
    """Run a short-lived program under `account`, in a group of its own so that Ctrl-C doesn't hit it."""
    return subprocess.run(
        shimmed(command, *account.options(), "--cwd", "/"),
        input=text,
        capture_output=True,
        text=True,
        env=dict(env or {}),
        timeout=timeout,
        start_new_session=True,
        check=False,
    )


def account_for(folder: Path, program: Path) -> Account:
    """Return who may run `program` on the data in `folder`, which need not exist yet.

    An ordinary user runs it as itself. Root runs it as the folder's owner, for a new folder as `postgres` or `nobody`.
    Raises `SupervisorError` when the folder belongs to somebody else, or no account can run the program.
    """
    owner = folder.stat().st_uid if folder.exists() else None
    if os.geteuid() != 0:
        if owner not in (None, os.geteuid()):
            raise SupervisorError(
                f"{folder} belongs to {_name(owner or 0)}, not to {_name(os.geteuid())}; run `lumia up` as "
                f"{_name(owner or 0)}, or as root give it to you: chown -R {_name(os.geteuid())} {folder}"
            )
        return Account()
    account = _of(owner) if owner else _first_candidate()
    _check(account, program)
    return account


def _check(account: Account, program: Path) -> None:
    tried = run_as(account, [str(program), "--version"])
    if tried.returncode != 0:
        reason = (tried.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise SupervisorError(
            f"Postgres doesn't run as root and {_name(account.uid or 0)} can't run {program} ({reason}); "
            "start Lumia as an ordinary user, give LUMIA_DATABASE_URL, or do without: `lumia up --no-postgres`"
        )


def _first_candidate() -> Account:
    import pwd

    for name in _CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise SupervisorError(
        "Postgres doesn't run as root and there is neither an account `postgres` nor `nobody`; "
        "start Lumia as an ordinary user, give LUMIA_DATABASE_URL, or do without: `lumia up --no-postgres`"
    )


def _of(uid: int) -> Account:
    import pwd

    try:
        return Account(uid, pwd.getpwuid(uid).pw_gid)
    except KeyError:
        return Account(uid, uid)


def _name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
