"""An author's signing keys: made, kept (0600, with a passphrase if wanted), exported and imported (spec §14.2)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lumia.atomic import locked, replace
from lumia.errors import RootNotFoundError, SignatureError
from lumia.pkg.signing import checked_fingerprint, fingerprint, parse_public, public_text
from lumia.pkg.text import plain

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FOLDER = Path("data") / "pkg" / "keys"
VARIABLE = "LUMIA_KEYS"
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_PRIVATE, _PUBLIC = ".key", ".pub"
_MOST_BYTES = 64 * 1024


@dataclass(frozen=True)
class Key:
    """A key pair of a key ring. public: `ed25519:<base64>`. encrypted: a passphrase protects the private half."""

    name: str
    fingerprint: str
    public: str
    file: Path
    encrypted: bool


def default_folder() -> Path:
    """Return where keys are kept: `LUMIA_KEYS`, else data/pkg/keys of the bot root, else the user's own folder."""
    from lumia.paths import find_root

    given = os.environ.get(VARIABLE)
    if given:
        return Path(given).expanduser()
    try:
        return find_root() / FOLDER
    except RootNotFoundError:
        own = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
        return Path(own) / "lumia" / "keys"


class KeyRing:
    """The key pairs in a folder: `<name>.key` (PKCS 8, PEM, mode 0600) and `<name>.pub` each.

    Every method raises `SignatureError` with the file and the way out.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def new(self, name: str, passphrase: str = "") -> Key:
        """Make a key pair."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return self._write(name, Ed25519PrivateKey.generate(), passphrase)

    def list(self) -> list[Key]:
        """Return all key pairs by name."""
        return [self._read(file) for file in sorted(self.folder.glob(f"*{_PRIVATE}"))]

    def get(self, wanted: str) -> Key:
        """Return the key of a name, or of a fingerprint or its beginning (8 digits or more)."""
        keys = self.list()
        beginning = wanted.lower() if re.fullmatch("[0-9a-fA-F]{8,64}", wanted) else None
        found = [key for key in keys if key.name == wanted] or [
            key for key in keys if beginning and key.fingerprint.startswith(beginning)
        ]
        if len(found) == 1:
            return found[0]
        known = ", ".join(key.name for key in keys) or "none; make one: pkg key new NAME"
        raise SignatureError(f"no key is called {plain(wanted, 80)!r} in {self.folder}; there are: {known}")

    def only(self) -> Key:
        """Return the one key there is, for commands that weren't told which."""
        keys = self.list()
        if len(keys) == 1:
            return keys[0]
        if not keys:
            raise SignatureError(f"{self.folder} holds no key yet; make one: pkg key new NAME")
        raise SignatureError(f"say which key is meant, with --key: {', '.join(key.name for key in keys)}")

    def private(self, wanted: str, passphrase: str = "") -> Ed25519PrivateKey:
        """Return a private key, ready to sign with."""
        key = self.get(wanted)
        private = _load(_guarded(key.file), passphrase, key.file)
        if fingerprint(private.public_key().public_bytes_raw()) != key.fingerprint:
            raise SignatureError(f"{key.file} and its {_PUBLIC} file are no pair; restore both from a backup")
        return private

    def export_private(self, wanted: str) -> str:
        """Return the private key's file as it is: PEM, under the passphrase it has."""
        return _guarded(self.get(wanted).file).decode("ascii", "replace")

    def add(self, name: str, pem: str, passphrase: str = "") -> Key:
        """Take in a private key in PEM (PKCS 8 or OpenSSH), kept under the same passphrase."""
        return self._write(name, _load(pem.encode(), passphrase, Path(name)), passphrase)

    def _write(self, name: str, private: Ed25519PrivateKey, passphrase: str) -> Key:
        from cryptography.hazmat.primitives import serialization as form

        if not _NAME.fullmatch(name):
            raise SignatureError(f"{plain(name, 80)!r} is no name for a key; use a-z, 0-9, '.', '_' and '-'")
        protection = form.BestAvailableEncryption(passphrase.encode()) if passphrase else form.NoEncryption()
        data = private.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, protection)
        public = public_text(private.public_key().public_bytes_raw())
        file = self.folder / f"{name}{_PRIVATE}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with locked(self.folder):
                if file.exists():
                    raise SignatureError(f"there is a key {name!r} in {self.folder} already; choose another name")
                replace(file.with_suffix(_PUBLIC), f"{public} {name}\n".encode())
                replace(file, data, mode=0o600)
        except OSError as error:
            raise SignatureError(f"{self.folder}: the key can't be written: {error.strerror}") from error
        return self._read(file)

    def _read(self, file: Path) -> Key:
        public = file.with_suffix(_PUBLIC)
        try:
            words = public.read_text("utf-8").split()
            encrypted = b"ENCRYPTED" in file.read_bytes()[:200]
        except (OSError, UnicodeDecodeError) as error:
            raise SignatureError(f"{public} can't be read ({plain(str(error))}); restore it from a backup") from None
        key = parse_public(words[0] if words else "")
        return Key(file.stem, fingerprint(key), public_text(key), file, encrypted)


def _guarded(file: Path) -> bytes:
    """Return a private key's file, which none but its owner may read or write."""
    try:
        mode = file.stat().st_mode & 0o777
        if mode & 0o022:
            raise SignatureError(
                f"{file} has mode {mode:04o}: others can write it, so it may not be your key; "
                f"if you trust it run `chmod 600 {file}`"
            )
        if mode & 0o044:
            file.chmod(0o600)
        return file.read_bytes()[:_MOST_BYTES]
    except OSError as error:
        raise SignatureError(f"{file} can't be read: {error.strerror}") from error


def _load(pem: bytes, passphrase: str, file: Path) -> Ed25519PrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    secret = passphrase.encode() if passphrase and b"ENCRYPTED" in pem[:200] else None
    read = form.load_ssh_private_key if b"OPENSSH" in pem[:60] else form.load_pem_private_key
    try:
        key = read(pem, passphrase.encode() or None if read is form.load_ssh_private_key else secret)
    except TypeError:
        raise SignatureError(f"{file} needs its passphrase; give it, or set LUMIA_KEY_PASSPHRASE") from None
    except UnsupportedAlgorithm:
        raise SignatureError(
            f"{file}: its protection is of another kind; take it off (ssh-keygen -p) and import it"
        ) from None
    except ValueError:
        raise SignatureError(f"{file}: the passphrase is wrong, or this is no private key in PEM") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise SignatureError(f"{file} holds a key of another kind; Ed25519 is needed: pkg key new NAME")
    return key


def fingerprint_of(text: str, ring: KeyRing | None = None) -> str:
    """Return the fingerprint that `text` names: itself, a public key, a `.pub` file, or a key of `ring`.

    Raises `SignatureError` when it names none.
    """
    if re.fullmatch("[0-9a-fA-F]{64}", text):
        return checked_fingerprint(text)
    if text.startswith("ed25519:"):
        return fingerprint(parse_public(text))
    if text.endswith(_PUBLIC) and Path(text).is_file():
        words = Path(text).read_text("utf-8", "replace")[:1000].split()
        return fingerprint(parse_public(words[0] if words else ""))
    if ring is not None and any(key.name == text for key in ring.list()):
        return ring.get(text).fingerprint
    raise SignatureError(
        f"{plain(text, 80)!r} names no key; give a fingerprint (64 hex digits), a public key (ed25519:…) or a .pub file"
    )
