"""A version of a plugin: its tag, whether it can be published, and what the registry is told of it."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from lumia import __version__
from lumia.errors import PkgError, UnsafePackageError
from lumia.manifest import MANIFEST_FILE, Manifest
from lumia.pkg.dev.project import Project, git, is_repository, tag_at_head, version_of
from lumia.pkg.git import tag_version
from lumia.pkg.repository import stand_in
from lumia.pkg.requests import check_url, is_tag, public_url
from lumia.pkg.signing import signatures_in
from lumia.pkg.text import plain

if TYPE_CHECKING:
    from lumia.pkg.validate import Finding

FIRST = "v0.1.0"
MAX_README = 200_000
MAX_CHANGES = 20_000
_SHOWN = 5
_ASKING = 15.0
_SPDX = re.compile(r"\(?[A-Za-z0-9][A-Za-z0-9.+-]*\)?(?: (?:AND|OR|WITH) \(?[A-Za-z0-9][A-Za-z0-9.+-]*\)?)*")
_LICENCE_FILE = re.compile(r"(?:licen[cs]e|copying|unlicense)(?:[.-].*)?", re.IGNORECASE)
"""Both as the registry has them: registry-worker/src/checks.ts, repository.ts."""
_SSH = re.compile(r"(?:ssh://(?:[^@/]+@)?|[^@/:]+@)(?P<host>[^@/:]+)[:/]/?(?P<path>[^:]+)")


@dataclass(frozen=True)
class Release:
    """A tagged version in its author's repository. url: where everybody can clone it, without credentials."""

    project: Project
    manifest: Manifest
    tag: str
    commit: str
    url: str


def check_clean(project: Project) -> None:
    """Raise `PkgError` unless the plugin is a repository of its own with everything in a commit."""
    folder = project.folder
    if not is_repository(folder):
        raise PkgError(f"{folder} is no git repository; run `git init` there and commit the plugin: a version is a tag")
    left = [line[3:] for line in git(folder, "status", "--porcelain").splitlines()]
    if left:
        shown = ", ".join(plain(name, 80) for name in left[:_SHOWN]) + (", …" if len(left) > _SHOWN else "")
        raise PkgError(f"these changes are in no commit yet: {shown}; run `git add -A && git commit` first")
    try:
        git(folder, "rev-parse", "--verify", "--quiet", "HEAD")
    except PkgError:
        raise PkgError(f"{folder} has no commit yet; run `git add -A && git commit` first") from None


def next_tag(project: Project) -> str:
    """Return the tag at the commit, or else the one that would come next: of v1.2.3 it is v1.2.4."""
    here = tag_at_head(project.folder)
    if here is not None:
        return here
    known = [(version, tag) for tag, version in _versions(project) if version is not None]
    if not known:
        return FIRST
    version, tag = max(known)
    prefix = tag[0] if tag[0] in "vV" else ""
    if version.is_prerelease:
        return f"{prefix}{version.base_version}"
    return f"{prefix}{version.major}.{version.minor}.{version.micro + 1}"


def _versions(project: Project) -> list[tuple[str, Version | None]]:
    return [(tag, version_of(tag)) for tag in git(project.folder, "tag", "--list").split()]


def make_tag(project: Project, tag: str, news: str = "") -> bool:
    """Tag the commit, unless it has the tag already; tell whether the tag is new.

    news: what users are told of it; default: the subjects of the commits since the version before. Raises `PkgError`
    for a tag that is no version, is taken, or has a text of its own while there is news.
    """
    folder = project.folder
    if not is_tag(tag) or tag_version(tag) is None:
        raise PkgError(f"{plain(tag, 80)!r} is no version; a tag looks like {FIRST}")
    if tag not in git(folder, "tag", "--list").split():
        try:
            git(folder, "var", "GIT_COMMITTER_IDENT")
            who: tuple[str, ...] = ()
        except PkgError:  # nobody has told git who that is
            who = stand_in()
        text = f"{project.name} {tag}\n\n{news or _subjects(folder, 'HEAD')}"
        git(folder, "tag", "--annotate", "--cleanup=verbatim", "--message", text, tag, options=who)
        return True
    if git(folder, "rev-parse", f"{tag}^{{commit}}") != git(folder, "rev-parse", "HEAD"):
        raise PkgError(
            f"the tag {tag} is at another commit; a published version never changes: choose the next one, with --tag"
        )
    if news:
        raise PkgError(f"{tag} is tagged already, with a text of its own; leave --message out, or: git tag -d {tag}")
    return False


def release(project: Project, tag: str) -> Release:
    """Return the tagged version; raises `PkgError` when the registry could not take it."""
    check_licence(project)
    commit = git(project.folder, "rev-parse", "--verify", f"{tag}^{{commit}}").strip()
    return Release(project, project.manifest(), tag, commit, address(project))


def check_licence(project: Project) -> None:
    """Raise `PkgError` unless the manifest names a licence whose text is beside it: no registry takes less."""
    licence = project.manifest().license
    where = project.file(MANIFEST_FILE)
    if not licence:
        raise PkgError(f'{where} names no licence; add "license": "MIT", or what it is, and its text as LICENSE')
    if not _SPDX.fullmatch(licence):
        raise PkgError(
            f"{where}: {plain(licence, 100)!r} is no SPDX expression; write it like MIT, Apache-2.0 or LicenseRef-Mine"
        )
    if not any(_LICENCE_FILE.fullmatch(path.name) for path in project.folder.iterdir() if path.is_file()):
        raise PkgError(
            f"there is no licence file; add the text of {licence} as {project.file('LICENSE')}, and commit it"
        )


def address(project: Project) -> str:
    """Return where strangers clone the plugin.

    What git reaches by ssh needs an account, so its https address is taken where the repository can be read there.
    Raises `PkgError` when there is no address, or one that can't be published.
    """
    source = project.manifest().source
    url = source.url if source is not None else ""
    if not url:
        remotes = git(project.folder, "remote").split()
        name = "origin" if "origin" in remotes else next(iter(remotes), "")
        # As it is written, not as `git remote get-url` says it: insteadOf is this machine's own.
        told = git(project.folder, "config", "--get-all", f"remote.{name}.url").splitlines() if name else []
        url = told[0] if told else ""
    if not url:
        raise PkgError(
            "nobody can clone it yet: push it somewhere (`git remote add origin URL && git push -u origin main`), or "
            'name the address in manifest.json: "source": {"type": "git", "url": "https://…"}'
        )
    url = public_url(url)
    try:
        check_url(url)
    except UnsafePackageError as error:
        raise PkgError(f"the address of the repository, {plain(url, 200)}, can't be published: {error}") from error
    return _without_ssh(url)


def _without_ssh(url: str) -> str:
    found = _SSH.fullmatch(url)
    if found is None:
        return url
    from lumia.pkg.git_process import GitFailed
    from lumia.pkg.git_remote import over_network

    https = f"https://{found['host']}/{found['path']}"
    try:
        over_network(["-c", "credential.helper=", "ls-remote"], https, ["HEAD"], timeout=_ASKING)
    except (GitFailed, UnsafePackageError):
        return url
    return https


def push(one: Release) -> None:
    """Send the commit's branch and the tag to the repository's remote."""
    folder = one.project.folder
    remotes = git(folder, "remote").split()
    if not remotes:
        raise PkgError(f"the repository has no remote; run `git remote add origin {one.url}`")
    remote = "origin" if "origin" in remotes else remotes[0]
    refs = ["HEAD"] if _branch(folder) else []
    place = git(folder, "remote", "get-url", "--push", remote).strip()
    there = git(folder, "ls-remote", "--", place, f"refs/tags/{one.tag}").split()
    if there and there[0] != git(folder, "rev-parse", f"refs/tags/{one.tag}").strip():
        raise PkgError(
            f"{remote} has another tag {one.tag} than this one. When it is the same commit, unsigned, and nobody has "
            f"that version: git push --force {remote} refs/tags/{one.tag}; else choose the next version, with --tag"
        )
    git(folder, "push", "--quiet", remote, *refs, f"refs/tags/{one.tag}", timeout=120.0)


def _branch(folder: Path) -> str:
    return git(folder, "branch", "--show-current").strip()


def is_public(one: Release) -> bool:
    """Tell whether the tag is at this commit where everybody clones it; raises `PkgError` when nobody answers there."""
    asked = (f"refs/tags/{one.tag}", f"refs/tags/{one.tag}^{{}}")
    listed = git(one.project.folder, "ls-remote", "--", one.url, *asked).splitlines()
    mine = git(one.project.folder, "rev-parse", f"refs/tags/{one.tag}").strip()
    known = {ref: commit for commit, _, ref in (line.partition("\t") for line in listed)}
    return known.get(asked[0]) == mine and known.get(asked[1], one.commit) == one.commit


def signature_of(one: Release) -> str | None:
    """Return the signature in the tag, None when there is none."""
    from lumia.pkg.signing import tag_signatures

    found = tag_signatures(one.project.folder, one.tag)
    return found[-1] if found else None


def submission(one: Release, findings: Iterable[Finding]) -> dict[str, Any]:
    """Return what `POST /pkg` takes (registry-worker/schema/submission.json)."""
    from lumia.pkg.tree import check_commit, digest_commit, entries_of_commit

    folder = one.project.folder
    check_commit(folder, one.commit)
    sizes = [entry.size for entry in entries_of_commit(folder, one.commit)]
    found = list(findings)
    errors = sum(finding.severity == "error" for finding in found)
    packed: dict[str, Any] = {
        "git_url": one.url,
        "tag": one.tag,
        "manifest": json.loads(git(folder, "show", f"{one.commit}:{MANIFEST_FILE}")),
        "commit": one.commit,
        "digest": digest_commit(folder, one.commit),
        "signature": signature_of(one),
        "size": sum(sizes),
        "files": len(sizes),
        "licence": one.manifest.license,
        "changelog": changes(one.project, one.tag)[:MAX_CHANGES],
        "validation": {"errors": errors, "warnings": len(found) - errors, "tool": f"lumia {__version__}"},
    }
    readme = folder / "README.md"
    if readme.is_file() and stat.S_ISREG(readme.lstat().st_mode):
        packed["readme_md"] = readme.read_text("utf-8", "replace")[:MAX_README]
    return packed


def changes(project: Project, tag: str) -> str:
    """Return what is new: the tag's own message, or else the subjects of the commits since the version before."""
    folder = project.folder
    message = git(folder, "for-each-ref", "--format=%(contents:subject)%0a%0a%(contents:body)", f"refs/tags/{tag}")
    lines = [line for line in message.splitlines() if not signatures_in(line)]
    told = "\n".join(lines).strip().removeprefix(f"{project.name} {tag}").strip()
    return told if told and git(folder, "cat-file", "-t", tag).strip() == "tag" else _subjects(folder, tag)


def _subjects(folder: Path, commit: str) -> str:
    """Return the subjects of the commits since the version before `commit`, as a list."""
    ancestors = git(folder, "tag", "--merged", f"{commit}^{{commit}}", "--no-contains", commit).split()
    before = max(((version, tag) for tag in ancestors if (version := version_of(tag)) is not None), default=None)
    since = f"{before[1]}..{commit}" if before else commit
    return git(folder, "log", "--no-merges", "--format=- %s", "--max-count=200", since).strip()
