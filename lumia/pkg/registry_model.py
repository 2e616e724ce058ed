"""What a registry answers, as values: the twins of the JSON Schemas in `registry-worker/schema/` (spec §13.1).

Keys nobody knows are left out, so a newer registry can be read; everything else is checked, for what comes from outside
may be a mistake or a lie. Texts are as they came: show them through `lumia.pkg.text.plain`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

PAGE = 50
"""Hits on one page of a search."""

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=64)]
Tag = Annotated[str, Field(pattern=r"^[vV]?[0-9][A-Za-z0-9.+_-]*$", max_length=64)]
GitUrl = Annotated[
    str,
    Field(
        pattern=r"^(https?|ssh|git|file)://[^\s\\\"'<>`]+$|^[A-Za-z0-9_.][A-Za-z0-9_.-]*@[A-Za-z0-9_.][A-Za-z0-9_.-]*:[^\s\\\"'<>`]+$",
        max_length=1024,
    ),
]
Moment = Annotated[
    str,
    Field(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$",
        max_length=40,
    ),
]
Signature = Annotated[str, Field(pattern=r"^ed25519:[^\s]+:[A-Za-z0-9+/=_-]+:[A-Za-z0-9+/=_-]+$", max_length=512)]
Reason = Annotated[str, Field(max_length=500)]


def _no_options(url: str) -> str:
    """Refuse a URL whose host or path git would take for an option (`--upload-pack=…`)."""
    rest = url.partition("://")[2] or url.partition(":")[2]
    if any(part.startswith("-") for part in rest.replace(":", "/").replace("@", "/").split("/")):
        raise ValueError("a part of the git URL begins with '-', which git could take for an option")
    if any(not letter.isprintable() for letter in url):
        raise ValueError("the git URL holds an invisible character")
    return url


class _Answer(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class Hit(_Answer):
    """One result of a search."""

    name: Name
    display_name: Annotated[str, Field(max_length=200)]
    description: Annotated[str, Field(max_length=500)]
    author: Annotated[str, Field(max_length=200)]
    git_url: Annotated[GitUrl, AfterValidator(_no_options)]
    latest_tag: Tag
    stars: Annotated[int, Field(ge=0)]


class Release(_Answer):
    """One version of a plugin.

    commit: 40 hex digits. digest: of the tag's tree (docs/signing.md). signature: `ed25519:<fingerprint>:<key>:<sig>`,
    None when unsigned. yanked: why nobody should install it any more, None for a good one.
    """

    tag: Tag
    date: Moment
    changelog: Annotated[str, Field(max_length=20_000)]
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    signature: Signature | None
    yanked: Reason | None


class Info(_Answer):
    """One plugin; `versions` newest first, `manifest` the latest version's, unchecked."""

    name: Name
    git_url: Annotated[GitUrl, AfterValidator(_no_options)]
    latest_tag: Tag
    manifest: dict[str, Any]
    readme_md: Annotated[str, Field(max_length=200_000)]
    stars: Annotated[int, Field(ge=0)]
    versions: Annotated[tuple[Release, ...], Field(min_length=1, max_length=500)]

    def release(self, tag: str) -> Release | None:
        """Return the version of a tag; `1.2.0` finds `v1.2.0`, too."""
        bare = tag.lstrip("vV")
        exact = next((one for one in self.versions if one.tag == tag), None)
        return exact or next((one for one in self.versions if one.tag.lstrip("vV") == bare), None)


class RevokedKey(_Answer):
    """A key nobody may trust any more."""

    fingerprint: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9:+/=_-]*$", min_length=8, max_length=128)]
    reason: Reason
    date: Moment


class RevokedVersion(_Answer):
    """A version nobody may install any more."""

    name: Name
    tag: Tag
    reason: Reason
    date: Moment


class Revoked(_Answer):
    """Keys and versions that were called back."""

    keys: tuple[RevokedKey, ...]
    versions: tuple[RevokedVersion, ...]


class Check(_Answer):
    """One automatic check of a submission and what it found."""

    name: Annotated[str, Field(pattern=r"^[a-z-]+$", max_length=40)]
    ok: bool
    text: Annotated[str, Field(max_length=1000)]


class Submitted(_Answer):
    """What became of a submission: the pull request when every check passed."""

    pull_request: Annotated[str, Field(pattern=r"^https?://[^\s]+$", max_length=1024)] | None
    checks: Annotated[tuple[Check, ...], Field(min_length=1)]


class Problem(_Answer):
    """Why a request failed (RFC 9457)."""

    title: Annotated[str, Field(max_length=200)]
    status: Annotated[int, Field(ge=400, le=599)]
    detail: Annotated[str, Field(max_length=2000)]
