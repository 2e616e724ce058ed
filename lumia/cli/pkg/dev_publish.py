"""`pkg dev sign` and `pkg dev publish`: a version, its signature, what the registry says to it (spec §13, §14.2)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lumia.cli import output
from lumia.errors import PkgError, RootNotFoundError
from lumia.pkg.text import plain

if TYPE_CHECKING:
    from lumia.pkg.dev.publish import PrivateKey
    from lumia.pkg.registry_model import Submitted

PASSPHRASE = "LUMIA_KEY_PASSPHRASE"
Tag = Annotated[str | None, typer.Option("--tag", help="The version; default: the tag at the commit, or the next one.")]
KeyName = Annotated[str | None, typer.Option("--key", metavar="NAME", help="The key; default: the only one.")]
Folder = Annotated[
    Path | None, typer.Argument(metavar="[DIR]", help="The plugin's folder; default: this one.", show_default=False)
]


def sign(folder: Folder = None, tag: Tag = None, key: KeyName = None) -> None:
    """Sign a version: your key's signature of the commit's files goes into the tag, made where it is missing.

    \b
    Example:
      pkg key new me
      pkg dev sign --tag v1.2.0
    """
    from lumia.pkg.dev.project import find_project
    from lumia.pkg.dev.publish import sign as sign_tag
    from lumia.pkg.dev.release import check_clean, make_tag, next_tag

    project = find_project(folder)
    check_clean(project)
    version = tag or next_tag(project)
    private = _private(key)
    make_tag(project, version)
    output.text(sign_tag(project, version, private, output.note))


def publish(
    folder: Folder = None,
    tag: Tag = None,
    key: KeyName = None,
    unsigned: Annotated[bool, typer.Option("--unsigned", help="Sign nothing, even with a key at hand.")] = False,
    registry: Annotated[str | None, typer.Option(help="Its URL; default: LUMIA_REGISTRY_URL.")] = None,
    no_tests: Annotated[bool, typer.Option("--no-tests", help="Leave the plugin's tests out.")] = False,
    no_push: Annotated[bool, typer.Option("--no-push", help="Push nothing: the tag is public already.")] = False,
    message: Annotated[
        str, typer.Option("--message", "-m", help="What is new; default: the subjects of the commits since.")
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the registry's answer as JSON.")] = False,
) -> None:
    """Validate, test, tag, sign and push the plugin, and hand it in: the registry opens a pull request.

    LUMIA_REGISTRY_TOKEN holds your token of the registry; without one the registry says where to get it.

    \b
    Example:
      pkg dev publish
      pkg dev publish --tag v1.2.0 --message "Dice have up to 100 sides" --yes
    """
    from lumia.pkg.dev.project import find_project
    from lumia.pkg.dev.publish import Wish, checked, choose, ready
    from lumia.pkg.dev.publish import publish as hand_in
    from lumia.pkg.registry import TOKEN, checked_url

    project = find_project(folder)
    url = checked_url(registry or _configured())
    token = os.environ.get(TOKEN, "").strip()
    ready(project)
    version = choose(project, tag, url, token)  # before anything is tagged or pushed
    findings = checked(project, tests=not no_tests, told=output.note)
    private = None if unsigned else _private_or_none(key)
    _confirm(f"Publish {project.name} {version}{'' if private else ', unsigned,'} to {url}?", yes)
    wish = Wish(version, url, token, private, tests=not no_tests, pushes=not no_push, news=message.strip())
    _one, answer = hand_in(project, wish, findings, output.note)
    _report(project.name, answer, as_json)


def _report(name: str, answer: Submitted, as_json: bool) -> None:
    if as_json:
        output.data(answer.model_dump())
    else:
        for check in answer.checks:
            output.note(
                f"  {'ok' if check.ok else 'NO'}  {check.name}: {plain(check.text)}", style="" if check.ok else "red"
            )
    if not all(check.ok for check in answer.checks):
        raise PkgError("the registry doesn't take it yet: see the checks above; mend them and publish again")
    if as_json:
        return
    if answer.pull_request is not None:
        output.text(plain(answer.pull_request, 1024))
        output.note("handed in: somebody reviews the pull request, then `pkg -S` finds the plugin")
    else:  # a registry of one's own has no pull requests
        output.note(f"taken: `pkg -S {name}` installs it")


def _configured() -> str:
    from lumia.config import ConfigStore
    from lumia.paths import find_root
    from lumia.pkg.registry import VARIABLE, configured

    if named := os.environ.get(VARIABLE, "").strip():
        return named
    try:
        return configured(ConfigStore(find_root()))
    except RootNotFoundError:
        raise PkgError(f"no registry is named; set {VARIABLE}, or give --registry URL") from None


def _private_or_none(key: str | None) -> PrivateKey | None:
    """Return the key to sign with; None, with a note, when the author has none."""
    from lumia.pkg.keys import KeyRing, default_folder

    if key is None and not KeyRing(default_folder()).list():
        output.warn("you have no key yet, so the version is not signed; `pkg key new me` makes one")
        return None
    return _private(key)


def _private(key: str | None) -> PrivateKey:
    from lumia.pkg.keys import KeyRing, default_folder

    ring = KeyRing(default_folder())
    chosen = ring.get(key) if key is not None else ring.only()
    return ring.private(chosen.name, _passphrase(chosen.name) if chosen.encrypted else "")


def _passphrase(name: str) -> str:
    given = os.environ.get(PASSPHRASE)
    if given is not None:
        return given
    if not sys.stdin.isatty():
        raise PkgError(f"the key {name} has a passphrase; set {PASSPHRASE}, for there is no terminal to ask on")
    return str(typer.prompt(f"Passphrase of the key {name}", hide_input=True, err=True))


def _confirm(question: str, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise PkgError("there is no terminal to ask on; say --yes")
    typer.confirm(question, abort=True, err=True)
