"""Whether a staged version's signatures, or a lock that vouches for them, are enough (docs/signing.md)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lumia.errors import SignatureError
from lumia.pkg import trust
from lumia.pkg.model import Locked
from lumia.pkg.revocation import Revoked
from lumia.pkg.signing import parse_signature, tag_signatures


def judge(
    locked: Locked, signatures: Sequence[str], folder: Path, root: Path, revoked: Revoked
) -> tuple[str | None, tuple[str, ...]]:
    """Return the key that signed what lies in `folder`, None when nobody did, and what is to be said of it.

    signatures: those beside the ones in the tag. Raises `SignatureError` when it is refused.
    """
    store = trust.TrustStore(root)
    trusts_folder = locked.origin == "folder" and not store.of(locked.name).pinned
    if locked.tag is None:
        untagged = f"{locked.name} {locked.version} has no version tag, so it can't be signed"
        if trusts_folder:
            return None, ()
        if not store.of(locked.name).keys:
            return None, (untagged,)
        raise SignatureError(
            f"{untagged}, and {locked.name} was signed before; install a tagged version, or run "
            f"`pkg key untrust {locked.name}` first"
        )
    found = dict.fromkeys((*tag_signatures(folder, locked.tag), *signatures))
    if trusts_folder and not found:
        said = f"{locked.name} {locked.tag} is not signed, and taken from a folder of this machine all the same"
        return None, (said,) if store.of(locked.name).keys else ()
    verdict = trust.verify(locked.name, locked.tag, locked.digest, tuple(found), store=store, revoked=revoked)
    if verdict.outcome == "refused":
        raise SignatureError(verdict.text)
    new = verdict.key is not None and verdict.key not in store.of(locked.name).keys
    return verdict.key, (verdict.text,) if new or verdict.outcome == "unsigned" else ()


def check_lock(locked: Locked, root: Path, revoked: Revoked) -> None:
    """Raise `SignatureError` for a locked version that is revoked, or not signed by the key pinned here."""
    _refuse_revoked(locked, revoked)
    _refuse_unpinned(locked, root)


def _refuse_unpinned(locked: Locked, root: Path) -> None:
    trusted = trust.TrustStore(root).of(locked.name)
    if trusted.pinned and locked.key not in trusted.keys:
        signed = f"signed by {locked.key}" if locked.key else "not signed"
        raise SignatureError(
            f"{locked.name} {locked.version} is {signed}, and the key pinned for it here is {', '.join(trusted.keys)}; "
            f"`pkg key untrust {locked.name}` takes the pin away"
        )


def check_signature(locked: Locked, folder: Path) -> None:
    """Refuse a version whose tag carries signatures of the locked key that don't fit; a registry's are not at hand."""
    if locked.key is None or locked.tag is None:
        return
    found = [one for one in map(parse_signature, tag_signatures(folder, locked.tag)) if one.fingerprint == locked.key]
    if found and not any(one.fits(locked.name, locked.tag, locked.digest) for one in found):
        raise SignatureError(
            f"{locked.name} {locked.tag}: its signature by {locked.key} doesn't fit its files; refused"
        )


def _refuse_revoked(locked: Locked, revoked: Revoked) -> None:
    reason = revoked.versions.get((locked.name, locked.tag or ""))
    if reason is None and locked.key is not None:
        reason = revoked.keys.get(locked.key)
    if reason is not None:
        because = f" ({reason})" if reason else ""
        raise SignatureError(f"{locked.name} {locked.tag} or its key was revoked{because}; choose another version")
