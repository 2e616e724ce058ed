"""`pkg dev publish`: from a clean repository to a pull request on the registry's index (spec §13.1, §13.2)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lumia.errors import PkgError, RegistryError
from lumia.pkg.dev.project import Project
from lumia.pkg.dev.release import (
    Release,
    address,
    check_clean,
    check_licence,
    is_public,
    make_tag,
    next_tag,
    push,
    release,
    submission,
)
from lumia.pkg.dev.testrun import has_tests, run_tests
from lumia.pkg.registry_model import Submitted

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey as PrivateKey

    from lumia.pkg.validate import Finding

__all__ = ["PrivateKey", "Wish", "checked", "choose", "publish", "ready", "sign"]


@dataclass(frozen=True)
class Wish:
    """How to publish. tag: the version. key: signs it, None leaves it unsigned. registry: its URL. token: the author's.

    tests: run them. pushes: send commit and tag to the repository's remote. news: what users are told of the version.
    """

    tag: str
    registry: str
    token: str
    key: PrivateKey | None = None
    tests: bool = True
    pushes: bool = True
    news: str = ""


def ready(project: Project) -> None:
    """Raise `PkgError` naming the first thing for which any registry would refuse the commit, at no cost."""
    from lumia.pkg.tree import check_commit

    check_clean(project)
    check_licence(project)
    check_commit(project.folder, "HEAD")
    address(project)


def checked(project: Project, *, tests: bool, told: Callable[[str], None]) -> list[Finding]:
    """Check that the plugin is fit to be published and return what the validator still warns of.

    Raises `PkgError` naming the first thing that is not as it must be. told: hears what was done.
    """
    from lumia.pkg.validate import failed, validate
    from lumia.pkg.validate.beside import dependencies_of
    from lumia.pkg.validate.output import as_text

    check_clean(project)
    findings = validate(project.folder, dependencies=dependencies_of(project.folder))
    if failed(findings):
        raise PkgError(f"pkg dev validate finds errors, which the registry would refuse:\n{as_text(findings)}")
    told(f"validated: {len(findings)} warnings")
    if not tests:
        told("its tests were left out")
    elif not has_tests(project):
        told("it has no tests")
    elif run_tests(project, aside=True):
        raise PkgError("its tests fail; mend them, or leave them out with --no-tests")
    else:
        told("its tests pass")
    return findings


def choose(project: Project, tag: str | None, registry: str, token: str) -> str:
    """Return the version to publish: `tag`, or the next.

    Raises `PkgError` when the registry has that version already, or takes none with this token.
    """
    from lumia.pkg.registry import Registry

    wanted = tag or next_tag(project)
    with tempfile.TemporaryDirectory(prefix="lumia-registry-") as cache:
        asked = Registry(registry, Path(cache))
        try:
            known = asked.info(project.name).release(wanted)
        except RegistryError:  # it knows no such plugin yet, or will say itself what is wrong
            known = None
        if known is None:
            asked.admit(token)
            return wanted
    if tag is None:
        raise PkgError(
            f"{project.name} {known.tag}, which this commit is, is published already; commit what is new and publish "
            "again: that makes the next version"
        )
    raise PkgError(f"{project.name} {known.tag} is published already and never changes; choose a higher --tag")


def publish(
    project: Project, wish: Wish, findings: list[Finding], told: Callable[[str], None]
) -> tuple[Release, Submitted]:
    """Tag, sign and push the commit, and hand the version in; return it and what the registry says.

    findings: of `checked`. Raises `PkgError` when a step fails; doing it again goes on from there.
    """
    if make_tag(project, wish.tag, wish.news):
        told(f"tagged {wish.tag}")
    one = release(project, wish.tag)
    if wish.key is not None:
        sign(project, wish.tag, wish.key, told)
    if wish.pushes and not _is_there(one):
        push(one)
        told("pushed to its remote")
    if not is_public(one):
        raise PkgError(
            f"{one.url} doesn't have the tag {one.tag} as it is here; run `git push origin HEAD {one.tag}`, and if an "
            "unsigned one was pushed before, `git push --force origin` with the tag"
        )
    from lumia.pkg.registry import Registry

    with tempfile.TemporaryDirectory(prefix="lumia-registry-") as cache:
        answer = Registry(wish.registry, Path(cache)).submit(submission(one, findings), wish.token)
    return one, answer


def _is_there(one: Release) -> bool:
    try:
        return is_public(one)
    except PkgError:  # e.g. a repository that the first push makes
        return False


def sign(project: Project, tag: str, key: PrivateKey, told: Callable[[str], None]) -> str:
    """Sign the tag, unless this key has signed it already, and return the key's fingerprint."""
    from lumia.pkg.signing import fingerprint, parse_signature, sign_tag, tag_signatures

    mine = fingerprint(key.public_key().public_bytes_raw())
    if any(parse_signature(text).fingerprint == mine for text in tag_signatures(project.folder, tag)):
        told(f"{tag} is signed by {mine[:16]}…")
        return mine
    sign_tag(project.folder, tag, key, project.manifest().name)
    told(f"signed {tag} with {mine[:16]}…")
    return mine
