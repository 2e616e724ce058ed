"""What somebody writes after `pkg -S`: a name, a git URL or a folder, with or without a tag (spec §13.2)."""

from __future__ import annotations

from lumia.pkg.model import Request


def parse(text: str) -> Request:
    """Return what `NAME[@TAG]`, `GIT-URL[@TAG]`, `./FOLDER`, `../FOLDER`, `/FOLDER` or `~/FOLDER` asks for.

    Raises `UnsafePackageError` for what could be read as an option, a command or another name, `SourceError` for what
    is none of the forms; both say the way out.
    """
    raise NotImplementedError


def check_url(url: str) -> str:
    """Return `url` when git may be asked for it. Raises `UnsafePackageError` or `SourceError` with the reason."""
    raise NotImplementedError


def check_registry_url(url: str, registry: str) -> str:
    """Return the repository URL a registry named, when a registry may name it.

    registry: the registry's own URL. Only https and ssh, without credentials; `http`, `git` and `file` only from a registry on this machine.
    """
    raise NotImplementedError


def public_url(url: str) -> str:
    """Return `url` without user names' passwords and tokens: as it is shown, locked and logged."""
    raise NotImplementedError


def look_alike(name: str, known: set[str] | frozenset[str]) -> str | None:
    """Return the one of `known` that `name` could be mistaken for (`heartf1ow` for `heartflow`), None when there is none."""
    raise NotImplementedError
