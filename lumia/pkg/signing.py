"""Ed25519 signatures over the tree of a version: made, written into its tag, read and checked (docs/signing.md)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lumia.errors import SignatureError, SourceError
from lumia.pkg.git_process import GitFailed, run
from lumia.pkg.repository import stand_in
from lumia.pkg.requests import is_tag
from lumia.pkg.text import plain
from lumia.pkg.tree import digest_commit

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

TRAILER = "Lumia-Signature"
ALGORITHM = "ed25519"
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_SECONDS = 30.0
_MESSAGE_BYTES = 64 * 1024
_MOST = 8


@dataclass(frozen=True)
class Signature:
    """A signature and the key it is said to be made with. key: 32 bytes; value: 64 bytes."""

    key: bytes
    value: bytes

    @property
    def fingerprint(self) -> str:
        """Return the key's fingerprint."""
        return fingerprint(self.key)

    def __str__(self) -> str:
        return f"{ALGORITHM}:{self.fingerprint}:{_base64(self.key)}:{_base64(self.value)}"

    def fits(self, name: str, tag: str, digest: str) -> bool:
        """Tell whether this is the key's signature of that tree as that version of that plugin."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.key).verify(self.value, payload(name, tag, digest))
        except (InvalidSignature, ValueError):
            return False
        return True


def payload(name: str, tag: str, digest: str) -> bytes:
    """Return the bytes that are signed."""
    return f"lumia-package-v1\n{name}\n{tag}\n{digest}\n".encode()


def fingerprint(key: bytes) -> str:
    """Return the fingerprint of a public key: 64 hex digits, the SHA-256 of its 32 bytes."""
    return hashlib.sha256(key).hexdigest()


def checked_fingerprint(text: str) -> str:
    """Return a fingerprint in lower case. Raises `SignatureError` for what is none."""
    if not _FINGERPRINT.fullmatch(text.lower()):
        raise SignatureError(f"{plain(text, 80)!r} is no fingerprint of a key; one is 64 hex digits")
    return text.lower()


def public_text(key: bytes) -> str:
    """Return a public key as people pass it on: `ed25519:<base64>`."""
    return f"{ALGORITHM}:{_base64(key)}"


def parse_public(text: str) -> bytes:
    """Return the 32 bytes of `ed25519:<base64>`. Raises `SignatureError` for anything else."""
    algorithm, _, encoded = text.strip().partition(":")
    key = _decoded(encoded)
    if algorithm != ALGORITHM or key is None or len(key) != 32:
        raise SignatureError(f"{plain(text, 80)!r} is no public key; one looks like ed25519:<44 characters of base64>")
    return key


def parse_signature(text: str) -> Signature:
    """Return the signature written as `ed25519:<fingerprint>:<base64 key>:<base64 signature>`.

    Raises `SignatureError` when it is written otherwise, or the fingerprint is another key's.
    """
    parts = text.strip().split(":")
    key, value = (_decoded(part) for part in parts[2:]) if len(parts) == 4 else (None, None)
    if parts[0] != ALGORITHM or key is None or value is None or (len(key), len(value)) != (32, 64):
        raise SignatureError(f"{plain(text, 60)!r} is no signature; it was damaged, or made by another tool")
    signature = Signature(key, value)
    if parts[1] != signature.fingerprint:
        raise SignatureError(f"a signature names the key {plain(parts[1], 64)!r} and carries {signature.fingerprint!r}")
    return signature


def sign(private: Ed25519PrivateKey, name: str, tag: str, digest: str) -> Signature:
    """Return the signature of a tree as version `tag` of plugin `name`."""
    return Signature(private.public_key().public_bytes_raw(), private.sign(payload(name, tag, digest)))


def signatures_in(message: str) -> tuple[str, ...]:
    """Return the signatures a tag's message carries, each on a line `Lumia-Signature: …`."""
    heads = (line.partition(":") for line in message.splitlines())
    found = [value.strip() for key, _, value in heads if key.strip().lower() == TRAILER.lower()]
    return tuple(found[:_MOST])


def tag_signatures(repository: Path, tag: str) -> tuple[str, ...]:
    """Return the signatures in the message of a tag of a git repository; none of a lightweight or absent tag."""
    try:
        found = _git(repository, "cat-file", "tag", f"refs/tags/{tag}")
    except GitFailed:
        return ()
    return signatures_in(found[:_MESSAGE_BYTES].decode("utf-8", "replace").partition("\n\n")[2])


def sign_tag(folder: Path, tag: str, key: Ed25519PrivateKey, name: str) -> Signature:
    """Write a signature into the tag of a plugin's repository, and return it.

    The tag is made at HEAD, or made anew at the commit it is at, as an annotated tag of that message; signatures of
    other keys stay in it. Raises `SourceError` when git can't.
    """
    if not is_tag(tag):
        raise SourceError(f"{plain(tag, 80)!r} can't be a git tag; a version's tag looks like v1.2.3")
    ref = f"refs/tags/{tag}"
    try:
        exists = bool(_git(folder, "for-each-ref", "--format=%(refname)", ref).strip())
        commit = _git(folder, "rev-parse", "--verify", f"{ref if exists else 'HEAD'}^{{commit}}").decode().strip()
        signature = sign(key, name, tag, digest_commit(folder, commit))
        others = [one for one in tag_signatures(folder, tag) if one.split(":")[1:2] != [signature.fingerprint]]
        text = _tag_text(folder, tag, exists) or f"{name} {tag}"
        message = "\n".join([text, "", *(f"{TRAILER}: {one}" for one in (*others, str(signature))), ""])
        words = ("tag", "-a", "-f", "--no-sign", "-F", "-", "--cleanup=verbatim", tag, commit)
        _git(folder, *_who(folder), *words, stdin=message)
    except GitFailed as error:
        raise SourceError(f"{folder}: the tag {tag} can't be signed: {error.text}") from None
    return signature


def _who(folder: Path) -> tuple[str, ...]:
    """Return what git must be told of who signs: nothing where it knows."""
    try:
        _git(folder, "var", "GIT_COMMITTER_IDENT")
    except GitFailed:
        return stand_in()
    return ()


def _tag_text(folder: Path, tag: str, exists: bool) -> str:
    """Return the message of an annotated tag without signatures."""
    if not exists or _git(folder, "cat-file", "-t", f"refs/tags/{tag}").strip() != b"tag":
        return ""
    message = _git(folder, "cat-file", "tag", f"refs/tags/{tag}").decode("utf-8", "replace").partition("\n\n")[2]
    kept = [line for line in message.splitlines() if not line.lower().startswith(TRAILER.lower() + ":")]
    return "\n".join(kept).strip()


def _git(folder: Path, *args: str, stdin: str = "", env: Mapping[str, str] | None = None) -> bytes:
    inner = folder / ".git"
    place = ["-C", str(folder)] if inner.exists() else ["--git-dir", str(folder)]
    return run([*place, *args], timeout=_SECONDS, stdin=stdin.encode(), env=env)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
