"""Asking a repository over the network: without secrets on a command line, and with errors that say the way out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import unquote, urlsplit

from lumia.errors import SourceError, UnsafePackageError
from lumia.pkg.git_process import GitFailed, Progress, run
from lumia.pkg.requests import check_url, public_url
from lumia.pkg.text import plain

_AT = re.compile(r"repository at '([^']+)'")
_LISTING = 8 * 1024 * 1024
_HELPER = (
    '!f() { test "$1" = get && printf \'username=%s\\npassword=%s\\n\' "$LUMIA_GIT_USER" "$LUMIA_GIT_PASSWORD"; }; f'
)


@dataclass(frozen=True)
class _Address:
    """A URL as git gets it: without secrets, which go through the environment, where other users can't see them."""

    url: str
    settings: tuple[tuple[str, str], ...] = ()
    env: tuple[tuple[str, str], ...] = ()


def ask(url: str, command: Sequence[str], *, timeout: float, patterns: Sequence[str] = ()) -> str:
    """Return what `git COMMAND -- URL PATTERNS` says of a repository. Raises `SourceError`."""
    try:
        out = over_network(command, url, patterns, timeout=timeout, max_out=_LISTING)
    except GitFailed as error:
        explain(url, error)
    return out.decode("utf-8", "replace")


def over_network(
    command: Sequence[str],
    url: str,
    rest: Sequence[str],
    *,
    timeout: float,
    max_file: int = 1 << 40,
    max_out: int = 1 << 20,
    progress: Progress | None = None,
) -> bytes:
    """Run `git COMMAND -- URL REST` after looking at the URL. Raises `GitFailed`, `UnsafePackageError`."""
    address = _address(check_url(url))
    return run(
        [*command, "--", address.url, *rest],
        timeout=timeout,
        settings=address.settings,
        env=dict(address.env),
        max_file=max_file,
        max_out=max_out,
        progress=progress,
    )


def _address(url: str) -> _Address:
    parts = urlsplit(url)
    if parts.scheme.lower() not in ("http", "https") or "@" not in parts.netloc:
        return _Address(public_url(url))
    public = public_url(url)
    key = f"credential.{parts.scheme.lower()}://{parts.netloc.rpartition('@')[2]}"
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    secrets = [("LUMIA_GIT_USER", user), ("LUMIA_GIT_PASSWORD", password)]
    if parts.password is None:  # a helper of the user's may know the password for it
        named = [("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", f"{key}.username"), ("GIT_CONFIG_VALUE_0", user)]
        return _Address(public, ((f"{key}.helper", _HELPER),), (*secrets, *named))
    return _Address(public, ((f"{key}.helper", ""), (f"{key}.helper", _HELPER)), tuple(secrets))


def shown(url: str) -> str:
    """Return a URL as messages name it."""
    return plain(public_url(url), 300)


def explain(url: str, error: GitFailed) -> NoReturn:
    """Raise what a failure of git means to the reader."""
    place = shown(url)
    match error.kind:
        case "offline":
            raise SourceError(f"{place} can't be reached; check the network and try again ({error.text})") from None
        case "late":
            raise SourceError(f"{place} is too slow: {error.text}; try again later") from None
        case "absent":
            raise SourceError(
                f"{place}: there is no such repository, or it isn't yours to read ({error.text})"
            ) from None
        case "denied":
            raise SourceError(
                f"{place} can't be read without a login ({error.text}); give git one, with a credential helper or an "
                "ssh key that needs no question"
            ) from None
        case "large":
            raise UnsafePackageError(f"{place} is refused: it is larger than a package may be ({error.text})") from None
        case "full":
            raise SourceError(
                f"{place} can't be fetched: the disk is full or closed ({error.text}); free some of it"
            ) from None
        case "foreign":
            found = _AT.search(error.text)
            raise SourceError(
                f"{place} belongs to another user, so git doesn't read it; if you trust it, run: "
                f"git config --global --add safe.directory {found[1] if found else 'PATH'}"
            ) from None
        case "missing":
            raise SourceError(f"{error.text}; install git 2.30 or newer") from None
        case "unsafe":
            raise UnsafePackageError(f"{place} is refused by git: {error.text}") from None
        case _:
            raise SourceError(f"{place}: git failed: {error.text}") from None
