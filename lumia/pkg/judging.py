"""Whether a staged version's signatures, or a lock that vouches for them, are enough (docs/signing.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from lumia.errors import SignatureError
from lumia.pkg import past, trust
from lumia.pkg.model import Locked
from lumia.pkg.revocation import Revoked
from lumia.pkg.signing import Signature, parse_signature, tag_signatures


def judge(
    locked: Locked, signatures: Sequence[str], folder: Path, root: Path, revoked: Revoked
) -> tuple[Locked, tuple[str, ...]]:
    """Return the version with the key that signed what lies in `folder`, if one did, and what is to be said of it.

    signatures: those beside the ones in the tag. Raises `SignatureError` when it is refused.
    """
    store = trust.TrustStore(root)
    trusts_folder = locked.origin == "folder" and not store.of(locked.name).pinned
    if locked.tag is None:
        untagged = f"{locked.name} {locked.version} has no version tag, so it can't be signed"
        if trusts_folder:
            return locked, ()
        if not store.of(locked.name).keys:
            return locked, (untagged,)
        raise SignatureError(
            f"{untagged}, and {locked.name} was signed before; install a tagged version, or run "
            f"`pkg key untrust {locked.name}` first"
        )
    found = dict.fromkeys((*tag_signatures(folder, locked.tag), *signatures))
    if trusts_folder and not found:
        said = f"{locked.name} {locked.tag} is not signed, and taken from a folder of this machine all the same"
        return locked, (said,) if store.of(locked.name).keys else ()
    verdict = trust.verify(locked.name, locked.tag, locked.digest, tuple(found), store=store, revoked=revoked)
    if verdict.outcome == "refused":
        raise SignatureError(verdict.text)
    signed = replace(locked, key=verdict.key, signature=_signature_by(verdict.key, found, locked))
    return signed, (verdict.text,) if verdict.outcome == "unsigned" else ()


def _signature_by(key: str | None, signatures: Iterable[str], locked: Locked) -> str | None:
    read = map(parse_signature, signatures)
    fitting = (one for one in read if one.fingerprint == key and one.fits(locked.name, locked.tag or "", locked.digest))
    return next(map(str, fitting), None)


def check_lock(locked: Locked, root: Path, revoked: Revoked) -> None:
    """Raise `SignatureError` for a locked version that can't be good, whatever its files are.

    So it is with one that is revoked, or not said to be signed by the pinned key; and, unless this bot root had it
    before, with one whose plugin has trusted keys while it names none, or no tag that could be signed.
    """
    _refuse_revoked(locked, revoked)
    trusted = trust.TrustStore(root).of(locked.name)
    if trusted.pinned and locked.key not in trusted.keys:
        signed = f"signed by {locked.key}" if locked.key else "not signed"
        raise SignatureError(
            f"{locked.name} {locked.version} is {signed}, and the key pinned for it here is {', '.join(trusted.keys)}; "
            f"`pkg key untrust {locked.name}` takes the pin away"
        )
    if not trusted.keys or (locked.key and locked.tag) or past.held(root, locked):
        return
    why = "has no version tag, so it can't be signed" if locked.key else "is not signed"
    raise SignatureError(
        f"{locked.name} {locked.version} of the lock {why}, and {locked.name} was signed before, by "
        f"{', '.join(trusted.keys)}; take another lock, or run `pkg key untrust {locked.name}` first"
    )


def check_signature(locked: Locked, folder: Path, root: Path, revoked: Revoked) -> None:
    """Refuse files whose lock names a key that did not sign them; what this bot root had before needs no signature.

    Signatures are looked for in the tag and in the lock. Raises `SignatureError`.
    """
    if locked.key is None:
        return
    found = _signatures_of(locked.key, locked, folder)
    if not found:
        if past.held(root, locked):
            return
        raise SignatureError(
            f"{locked.name} {locked.tag or locked.version}: the lock says that the key {locked.key} signed it, and "
            f"neither its tag nor the lock holds that signature; refused. `pkg -S {locked.name} --force` installs it "
            "anew, and a lock made after that holds it"
        )
    tag = locked.tag or ""
    fitting = [str(one) for one in found if one.fits(locked.name, tag, locked.digest)]
    if not fitting:
        raise SignatureError(f"{locked.name} {tag}: its signature by {locked.key} doesn't fit its files; refused")
    verdict = trust.verify(locked.name, tag, locked.digest, fitting, store=trust.TrustStore(root), revoked=revoked)
    if verdict.outcome != "signed" and not past.held(root, locked):
        raise SignatureError(verdict.text)


def _signatures_of(key: str, locked: Locked, folder: Path) -> list[Signature]:
    """Return the signatures of one key in a version's tag and in its lock; of a version without tag there are none."""
    if locked.tag is None:
        return []
    found = []
    for text in dict.fromkeys((*tag_signatures(folder, locked.tag), *filter(None, [locked.signature]))):
        try:
            signature = parse_signature(text)
        except SignatureError:
            continue  # damaged, or of another kind: it can't be this key's
        if signature.fingerprint == key:
            found.append(signature)
    return found


def _refuse_revoked(locked: Locked, revoked: Revoked) -> None:
    reason = revoked.versions.get((locked.name, locked.tag or ""))
    if reason is None and locked.key is not None:
        reason = revoked.keys.get(locked.key)
    if reason is not None:
        because = f" ({reason})" if reason else ""
        raise SignatureError(f"{locked.name} {locked.tag} or its key was revoked{because}; choose another version")
