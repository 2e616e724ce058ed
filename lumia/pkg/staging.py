"""Getting a version of a plugin into a staging folder, checked and ready to be installed (DESIGN §11)."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lumia.errors import ManifestError, SignatureError, SourceError, UnsafePackageError
from lumia.manifest import Manifest, load_manifest, underscored
from lumia.pkg import judging, snapshot, stages, tree
from lumia.pkg.git import Git, latest, tag_version
from lumia.pkg.model import Locked, Origin, Request, Staged
from lumia.pkg.requests import UNENCRYPTED, public_url
from lumia.pkg.revocation import Revoked
from lumia.pkg.text import plain
from lumia.pkg.tree import Limits

STAGING = Path("data") / "pkg" / "staging"


@dataclass(frozen=True)
class _Fetched:
    """Files in `folder`: url is the public one; warnings: what was not as asked for."""

    folder: Path
    url: str
    origin: Origin
    commit: str
    tag: str | None
    warnings: tuple[str, ...] = ()


def stage(
    request: Request,
    *,
    url: str,
    tag: str | None,
    root: Path,
    git: Git,
    commit: str | None = None,
    expected_digest: str | None = None,
    signatures: Sequence[str] = (),
    revoked: Revoked | None = None,
    into: Path | None = None,
    limits: Limits | None = None,
) -> Staged:
    """Fetch, check and stage one version in a new folder; nothing of the bot is changed.

    url: where it is, for a folder its absolute path. tag: a version's tag or a commit; None takes the latest version (a
    folder: what it holds now). commit, expected_digest, signatures: what the registry says of it; it must be so. into:
    the folder to make, default data/pkg/staging/<random>/<plugin>.

    Raises `SourceError`, `UnsafePackageError`, `SignatureError`, `ManifestError`.
    """
    folder = into or _new_folder(root, request.name)
    try:
        fetched = _fetch(request, url, tag, commit, git, folder, limits or Limits())
        manifest = _manifest(fetched, request.name)
        digest = _digest(fetched, expected_digest)
        locked = _locked(manifest.name, fetched, digest)
        locked, said = judging.judge(locked, signatures, folder, root, revoked or Revoked())
        return Staged(locked, folder, manifest, (*fetched.warnings, *said))
    except BaseException:
        _remove(folder, root)
        raise


def stage_locked(
    locked: Locked,
    *,
    root: Path,
    git: Git,
    revoked: Revoked | None = None,
    into: Path | None = None,
) -> Staged:
    """Stage exactly what a lock records (rollback, sync, other machines): commit and digest must be the lock's.

    Needs no network when the commit is in the cache. A lock vouches for nothing: the key it names must have signed the
    files, by the tag or by the signature in the lock, and must be a trusted one where the plugin has such. Only what
    this bot root had before needs no signature again (`lumia.pkg.judging`). Raises what `stage` raises.
    """
    judging.check_lock(locked, root, revoked or Revoked())
    folder = into or _new_folder(root, locked.name)
    try:
        if locked.origin == "folder":
            fetched = _from_folder_again(locked, git, folder)
        else:
            got = git.checkout_locked(locked.url, locked.tag, locked.commit, folder)
            fetched = _Fetched(folder, locked.url, locked.origin, got.commit, got.tag)
        manifest = _manifest(fetched, locked.name)
        _digest(fetched, locked.digest)
        judging.check_signature(locked, folder, root, revoked or Revoked())
        return Staged(locked, folder, manifest, fetched.warnings)
    except BaseException:
        _remove(folder, root)
        raise


def discard(staged: Staged) -> None:
    """Remove a staged version that is not wanted after all."""
    shutil.rmtree(staged.folder, ignore_errors=True)
    if not staged.folder.exists():
        stages.leave(staged.folder.parent)


def _new_folder(root: Path, name: str | None) -> Path:
    try:
        parent = stages.make(root / STAGING)
    except OSError as error:
        raise SourceError(
            f"a folder in {root / STAGING} can't be made: {error.strerror}; it must be on a file system that knows "
            "locks (flock), where this user may write"
        ) from error
    return parent / (underscored(name) if name else "plugin")


def _remove(folder: Path, root: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if folder.parent.parent == root / STAGING:
        stages.leave(folder.parent)


def _fetch(
    request: Request, url: str, tag: str | None, commit: str | None, git: Git, folder: Path, limits: Limits
) -> _Fetched:
    if request.origin == "folder":
        return _from_folder(Path(url), tag, git, folder, limits)
    warnings = []
    if url.partition("://")[0].lower() in UNENCRYPTED:
        warnings.append(f"{public_url(url)} is not encrypted: whoever is on the way can change what arrives")
    wanted = tag or _latest_tag(url, git)
    got = git.checkout(url, wanted, folder, commit=commit)
    if got.cached:
        warnings.append(f"{public_url(url)} can't be reached; {wanted} is taken from the cache as it was fetched last")
    return _Fetched(folder, public_url(url), request.origin, got.commit, got.tag, tuple(warnings))


def _latest_tag(url: str, git: Git) -> str:
    tags = git.tags(url)
    newest = latest(tags) or latest(tags, prereleases=True)
    return newest.name if newest else git.head(url)


def _from_folder(source: Path, tag: str | None, git: Git, folder: Path, limits: Limits) -> _Fetched:
    if not source.is_dir():
        raise SourceError(f"{plain(str(source))} is no folder; name the plugin's folder, with its manifest.json")
    url = snapshot.url_of(source)
    if tag is not None:
        got = git.checkout(url, tag, folder)
        return _Fetched(folder, str(source), "folder", got.commit, got.tag)
    state = snapshot.state_of(source, git)
    if state.tag is not None and not state.changed:
        got = git.checkout(url, state.tag, folder, commit=state.commit)
        return _Fetched(folder, str(source), "folder", got.commit, got.tag)
    taken = snapshot.take(source, state, folder, limits)
    git.keep(url, folder, taken)
    return _Fetched(folder, str(source), "folder", taken, None, (snapshot.warning(source, state),))


def _from_folder_again(locked: Locked, git: Git, folder: Path) -> _Fetched:
    try:
        got = git.checkout_locked(snapshot.url_of(Path(locked.url)), locked.tag, locked.commit, folder)
    except SourceError as error:
        if locked.tag is not None:
            raise
        raise SourceError(
            f"the snapshot {locked.version} of {plain(locked.url)} is not in the cache any more ({error}); install the "
            "folder anew, or tag its versions: those can always be had from its repository"
        ) from None
    return _Fetched(folder, locked.url, "folder", got.commit, got.tag)


def _manifest(fetched: _Fetched, name: str | None) -> Manifest:
    tree.check(fetched.folder)
    try:
        manifest = load_manifest(fetched.folder)
    except ManifestError as error:
        problem = str(error).replace(f"{fetched.folder}/", "")
        text = plain(f"{fetched.url} {fetched.tag or fetched.commit[:12]}: {problem}", 600)
        raise ManifestError(text, file=error.file, line=error.line) from None
    if name is not None and manifest.name != name:
        raise UnsafePackageError(
            f"{fetched.url} holds the plugin {manifest.name!r}, not {name!r}; if you want it, install it by its URL"
        )
    return manifest


def _digest(fetched: _Fetched, expected: str | None) -> str:
    digest = tree.digest(fetched.folder)
    if digest != tree.digest_commit(fetched.folder, fetched.commit):
        raise UnsafePackageError(
            f"{fetched.folder}: the files written are not those of commit {fetched.commit[:12]}; does this disk "
            "change names or contents?"
        )
    if expected is not None and digest != expected:
        raise SignatureError(
            f"{fetched.url} {fetched.tag or fetched.commit[:12]}: its files have the digest {digest}, recorded is "
            f"{plain(expected, 80)}; they were changed since. Ask its author, and don't install it from there"
        )
    return digest


def _locked(name: str, fetched: _Fetched, digest: str) -> Locked:
    version = tag_version(fetched.tag) if fetched.tag is not None else None
    if fetched.tag is not None and version is None:
        raise SourceError(
            f"{fetched.url}: the tag {fetched.tag} is no version, such as v1.2.3; name another one, or the commit "
            f"{fetched.commit}"
        )
    text = str(version) if version is not None else f"0.0.0+{fetched.commit[:12]}"
    return Locked(name, text, fetched.tag, fetched.commit, fetched.url, fetched.origin, digest)
