"""Whose signature a plugin must carry: trust on first use, pinned keys, and what is refused (spec §14.2)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from lumia import system
from lumia.atomic import locked, replace
from lumia.errors import SignatureError
from lumia.pkg.model import Locked
from lumia.pkg.revocation import Revoked
from lumia.pkg.signing import Signature, checked_fingerprint, parse_signature
from lumia.pkg.text import plain

FILE = Path("data") / "pkg" / "trust.json"
How = Literal["first use", "trusted", "pinned"]


@dataclass(frozen=True)
class Verdict:
    """What came of looking at a package's signatures. key: fingerprint of the key that signed; text: for the reader."""

    outcome: Literal["signed", "unsigned", "refused"]
    key: str | None
    text: str


@dataclass(frozen=True)
class Trusted:
    """What is known of a plugin's keys. keys: fingerprint → how it came to be trusted. pinned: no other ever counts."""

    keys: Mapping[str, How] = field(default_factory=dict)
    since: Mapping[str, str] = field(default_factory=dict)
    pinned: bool = False


class TrustStore:
    """The keys a bot root trusts, plugin by plugin, in data/pkg/trust.json.

    Reading raises `SignatureError` when the file is damaged: nobody is trusted by accident.
    """

    def __init__(self, root: Path) -> None:
        self.path = root / FILE

    def plugins(self) -> dict[str, Trusted]:
        """Return what is trusted, by plugin name."""
        return {name: _trusted(data) for name, data in sorted(self._read().items())}

    def of(self, name: str) -> Trusted:
        """Return what is trusted of one plugin."""
        return self.plugins().get(name, Trusted())

    def trust(self, name: str, fingerprint: str, how: How = "trusted") -> None:
        """Trust one more key for a plugin. Raises `SignatureError` for what is no fingerprint."""
        fingerprint = checked_fingerprint(fingerprint)

        def change(data: dict[str, Any]) -> None:
            entry = data.setdefault(name, {"keys": {}, "pinned": False})
            entry["keys"].setdefault(fingerprint, {"how": how, "since": _today()})

        self._change(change)

    def pin(self, name: str, fingerprint: str) -> None:
        """Trust this key alone for a plugin from now on, whatever was trusted before."""
        key = {checked_fingerprint(fingerprint): {"how": "pinned", "since": _today()}}
        self._change(lambda data: data.update({name: {"keys": key, "pinned": True}}))

    def untrust(self, name: str, fingerprint: str | None = None) -> int:
        """Forget a plugin's key, or all of them, and return how many there were."""
        gone = 0

        def change(data: dict[str, Any]) -> None:
            nonlocal gone
            keys = data.get(name, {}).get("keys", {})
            dropped = [key for key in keys if fingerprint in (None, key)]
            gone = len(dropped)
            for key in dropped:
                del keys[key]
            if not keys:
                data.pop(name, None)

        self._change(change)
        return gone

    def _read(self) -> dict[str, Any]:
        try:
            data = json.loads(self.path.read_bytes())
            plugins = data["plugins"]
            for entry in plugins.values():
                _trusted(entry)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, SignatureError) as error:
            raise SignatureError(
                f"{self.path}: the list of trusted keys can't be read ({plain(repr(error))}); restore it from a "
                "backup. Deleting it makes the bot trust whatever key signs a plugin next"
            ) from None
        return dict(plugins)

    def _change(self, change: Callable[[dict[str, Any]], None]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with locked(self.path.parent):
                plugins = self._read()
                change(plugins)
                text = json.dumps({"version": 1, "plugins": plugins}, indent=2, sort_keys=True)
                replace(self.path, text.encode() + b"\n")
        except OSError as error:
            raise SignatureError(f"{self.path} can't be written: {error.strerror}") from error


def _trusted(data: Any) -> Trusted:
    keys = {checked_fingerprint(key): value for key, value in data["keys"].items()}
    return Trusted(
        {key: value["how"] for key, value in keys.items()},
        {key: value["since"] for key, value in keys.items()},
        bool(data["pinned"]),
    )


def _today() -> str:
    return datetime.fromtimestamp(system.now(), UTC).date().isoformat()


def verify(
    name: str, tag: str, digest: str, signatures: Sequence[str], *, store: TrustStore, revoked: Revoked
) -> Verdict:
    """Judge the signatures (`ed25519:<fingerprint>:<key>:<signature>`) of one version; changes nothing on disk.

    A valid signature of a trusted key is enough. Refused are a revoked version; a signature that doesn't fit, which
    means that the files are not the signed ones; another key than the trusted or pinned ones; a revoked key; and no
    signature at all where the plugin was signed before.
    """
    trusted = store.of(name)
    if (name, tag) in revoked.versions:
        return _refused(f"{name} {tag} was revoked{_because(revoked.versions[name, tag])}; install another version")
    try:
        found = [parse_signature(one) for one in signatures]
    except SignatureError as error:
        return _refused(f"{name} {tag}: {error}. Ask its author to sign it again")
    if not found:
        return _unsigned(name, tag, trusted)
    fitting = [one for one in found if one.fits(name, tag, digest)]
    good = [one for one in fitting if one.fingerprint not in revoked.keys]
    known = next((one for one in good if one.fingerprint in trusted.keys), None)
    if known is not None:
        return Verdict("signed", known.fingerprint, f"{name} {tag} is signed by the key {known.fingerprint[:16]}")
    if len(fitting) < len(found):
        return _refused(
            f"{name} {tag}: the signature doesn't fit: its files are not those that were signed as {name} {tag}. "
            "Somebody may have tampered with them; ask its author, and don't install it from there"
        )
    if not good:
        return _refused(_revoked_key(name, tag, fitting[0], revoked))
    return _other_key(name, tag, good[0], trusted) if trusted.keys else _first_use(name, tag, good[0])


def _refused(text: str) -> Verdict:
    return Verdict("refused", None, text)


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""


def _unsigned(name: str, tag: str, trusted: Trusted) -> Verdict:
    if not trusted.keys:
        return Verdict("unsigned", None, f"{name} {tag} is not signed: nothing shows who made it")
    return _refused(
        f"{name} {tag} is not signed, and {name} was signed before, by {', '.join(trusted.keys)}. Ask its author why; "
        f"if the answer satisfies you, run `pkg key untrust {name}` and install it again"
    )


def _revoked_key(name: str, tag: str, signature: Signature, revoked: Revoked) -> str:
    reason = _because(revoked.keys[signature.fingerprint])
    return f"{name} {tag} is signed by the key {signature.fingerprint}, which was revoked{reason}; take another version"


def _other_key(name: str, tag: str, signature: Signature, trusted: Trusted) -> Verdict:
    word = "pinned" if trusted.pinned else "trusted"
    command = f"pkg key {'pin' if trusted.pinned else 'trust'} {name} {signature.fingerprint}"
    return _refused(
        f"{name} {tag} is signed by the key {signature.fingerprint}; {word} for {name}: {', '.join(trusted.keys)}. If "
        f"its author confirms the new key by another way than this repository, run `{command}`"
    )


def _first_use(name: str, tag: str, signature: Signature) -> Verdict:
    text = f"{name} {tag} is signed by the key {signature.fingerprint}, from now on the only one accepted for {name}"
    return Verdict("signed", signature.fingerprint, text)


def remember(root: Path, locked: Locked) -> None:
    """Trust the key that signed `locked` for its plugin from now on: called when the version was installed.

    A plugin whose keys are known already gets no other this way.
    """
    store = TrustStore(root)
    if locked.key is not None and not store.of(locked.name).keys:
        store.trust(locked.name, locked.key, "first use")
