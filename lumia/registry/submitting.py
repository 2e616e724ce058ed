"""Submissions to a private registry: fetched into its folder once they pass the checks."""

from __future__ import annotations

import hmac
import json
import secrets
import shutil
import threading
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lumia.errors import LumiaError
from lumia.manifest import Manifest
from lumia.pkg.complaint import complaint
from lumia.pkg.git_process import GitFailed, run
from lumia.pkg.registry_model import GitUrl, Signature, Tag
from lumia.pkg.requests import check_url
from lumia.pkg.signing import parse_signature
from lumia.pkg.text import plain
from lumia.pkg.tree import check_commit, digest_commit
from lumia.pkg.versions import version_of
from lumia.registry.catalogue import Catalogue

_SECONDS = 120.0
_LOCAL = 30.0
_ABSENT = "0" * 40
Check = dict[str, Any]


class _Closed(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class Validation(_Closed):
    """What `pkg dev validate` found."""

    errors: Annotated[int, Field(ge=0)]
    warnings: Annotated[int, Field(ge=0)] = 0
    tool: Annotated[str, Field(max_length=100)]


class Submission(_Closed):
    """The body of `POST /pkg`: the twin of `submission.json`."""

    git_url: GitUrl
    tag: Tag
    manifest: dict[str, Any]
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    signature: Signature | None = None
    size: Annotated[int, Field(ge=1)]
    files: Annotated[int, Field(ge=1)] | None = None
    licence: Annotated[str, Field(min_length=1, max_length=100)]
    readme_md: Annotated[str, Field(max_length=200_000)] = ""
    changelog: Annotated[str, Field(max_length=20_000)] = ""
    validation: Validation | None = None


class Desk:
    """Takes submissions with one token for all authors; without a token it takes none.

    local: repositories of this machine (`file://`) may be submitted: for a registry nobody else can reach.
    """

    def __init__(self, catalogue: Catalogue, token: str | None, *, local: bool = False) -> None:
        self._catalogue = catalogue
        self._token = token
        self._local = local
        self._locks: dict[str, threading.Lock] = {}

    def refusal(self, authorization: str) -> str:
        """Return why a request with this header is refused, "" when it isn't."""
        if not self._token:
            return "This registry takes no submissions; put the repository into its folder, or start it with a token."
        kind, _, given = authorization.partition(" ")
        fits = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self._token.encode())
        if kind.lower() in ("bearer", "token") and fits:
            return ""
        return "Submitting needs the token this registry was started with; its operator gives it to authors."

    def take(self, data: Any) -> list[Check]:
        """Check a submission and, when every check passes, keep its tag in the folder. Returns the report."""
        try:
            submission = Submission.model_validate(data)
            manifest = Manifest.model_validate(submission.manifest)
            url = check_url(submission.git_url)
        except ValidationError as error:
            where = "" if error.title == Submission.__name__ else "manifest.json: "
            return [_check("schema", False, f"{where}{complaint(error, 'all of it')}.")]
        except LumiaError as error:
            return [_check("schema", False, str(error))]
        checks = [_check("schema", True, "The submission and the manifest fit their schemas.")]
        checks += [self._reachable(url), _validation(submission)]
        # setdefault of a built-in type is one step, so two submissions of a name get the same lock.
        with self._locks.setdefault(manifest.name, threading.Lock()):
            checks.insert(1, self._version(manifest.name, submission.tag))
            if all(check["ok"] for check in checks):
                checks += self._fetch(manifest.name, url, submission)
        return checks

    def _version(self, name: str, tag: str) -> Check:
        asked = version_of(tag)
        if asked is None:
            return _check("version", False, f"{tag} is no version; tag it like v1.2.3.")
        known = self._catalogue.plugin(name)
        taken = [one["tag"] for one in known["versions"] if version_of(one["tag"]) == asked] if known else []
        if taken:
            return _check("version", False, f"{name} {taken[0]} is here already; published versions never change.")
        return _check("version", True, f"{tag} is new.")

    def _reachable(self, url: str) -> Check:
        if url.startswith("file:") and not self._local:
            return _check("repository", False, "A repository of the registry's own disk can't be submitted.")
        return _check("repository", True, "It is fetched from its own address.")

    def _fetch(self, name: str, url: str, submission: Submission) -> list[Check]:
        """Fetch the tag beside the plugin's tags here, and make it one of them if it is what was told.

        Until then nobody sees it; whatever goes wrong, only what was made here is taken out again.
        """
        bare = self._catalogue.folder / f"{name}.git"
        new = _made(bare)
        ref = f"refs/tags/{submission.tag}"
        incoming = f"refs/incoming/{secrets.token_hex(16)}"
        checks: list[Check] = []
        kept = False
        try:
            if new:
                run(["init", "--bare", "--quiet", "--", str(bare)], timeout=_LOCAL)
            run(
                ["-C", str(bare), "fetch", "--no-tags", "--depth", "1", "--", url, f"{ref}:{incoming}"],
                timeout=_SECONDS,
            )
            checks = _compare(bare, incoming, submission)
            if all(check["ok"] for check in checks):
                run(["-C", str(bare), "update-ref", ref, incoming, _ABSENT], timeout=_LOCAL)
                kept = True
        except GitFailed as error:
            checks = [*checks, _check("tag", False, f"{submission.tag} can't be taken: {error.text}")]
        finally:
            if new and not kept:
                shutil.rmtree(bare, ignore_errors=True)
            else:
                with suppress(GitFailed):
                    run(["-C", str(bare), "update-ref", "-d", incoming], timeout=_LOCAL)
            self._catalogue.look()
        return checks


def _made(folder: Path) -> bool:
    """Make a folder; tell whether it was this call that did."""
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    return True


def _compare(bare: Path, ref: str, submission: Submission) -> list[Check]:
    commit = run(["-C", str(bare), "rev-parse", "--verify", f"{ref}^{{commit}}"], timeout=_LOCAL).decode().strip()
    same = commit == submission.commit
    checks = [_check("tag", same, f"{submission.tag} is commit {commit[:12]}" + ("." if same else ", another one."))]
    try:
        check_commit(bare, commit)
        digest = digest_commit(bare, commit)
    except LumiaError as error:
        return [*checks, _check("files", False, str(error))]
    checks.append(_check("files", True, "Nothing odd."))
    checks.append(_manifest(bare, commit, submission))
    checks.append(_check("digest", digest == submission.digest, f"The tree's digest is {digest}."))
    return [*checks, _signature(submission, digest)]


def _manifest(bare: Path, commit: str, submission: Submission) -> Check:
    try:
        there = json.loads(run(["-C", str(bare), "cat-file", "blob", f"{commit}:manifest.json"], timeout=_LOCAL))
    except GitFailed:
        return _check("manifest", False, "There is no manifest.json at the tag.")
    except (ValueError, RecursionError) as error:
        return _check("manifest", False, f"manifest.json at the tag is no JSON: {error}")
    same = there == submission.manifest
    text = "It is manifest.json at the tag." if same else "manifest.json at the tag says something else."
    return _check("manifest", same, text)


def _signature(submission: Submission, digest: str) -> Check:
    if submission.signature is None:
        return _check("signature", True, "Unsigned.")
    try:
        signature = parse_signature(submission.signature)
        fits = signature.fits(submission.manifest["name"], submission.tag, digest)
    except LumiaError as error:
        return _check("signature", False, str(error))
    return _check(
        "signature", fits, f"Signed with {signature.fingerprint}." if fits else "It is not one over this tree."
    )


def _validation(submission: Submission) -> Check:
    report = submission.validation
    if report is None:
        return _check("validation", False, "There is no report of `pkg dev validate`; `pkg dev publish` adds it.")
    return _check("validation", report.errors == 0, f"{report.errors} errors ({report.tool}).")


def _check(name: str, ok: bool, text: str) -> Check:
    return {"name": name, "ok": ok, "text": plain(text, 1000)}
