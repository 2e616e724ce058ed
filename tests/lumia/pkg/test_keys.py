from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from lumia.errors import SignatureError
from lumia.pkg.keys import FOLDER, KeyRing, default_folder, fingerprint_of
from lumia.pkg.signing import fingerprint, sign

DIGEST = "sha256:" + "00" * 32


@pytest.fixture
def ring(tmp_path: Path) -> KeyRing:
    return KeyRing(tmp_path / "keys")


def test_a_key_is_made_listed_and_signs(ring: KeyRing) -> None:
    assert ring.list() == []
    key = ring.new("me")
    assert ring.list() == [key] == [ring.only()]
    assert ring.get("me") == ring.get(key.fingerprint) == ring.get(key.fingerprint[:8].upper()) == key
    signature = sign(ring.private("me"), "dice", "v1", DIGEST)
    assert signature.fingerprint == key.fingerprint
    assert signature.fits("dice", "v1", DIGEST)


def test_a_private_key_is_its_owners_alone(ring: KeyRing) -> None:
    key = ring.new("me")
    assert stat.S_IMODE(key.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(ring.folder.stat().st_mode) & 0o077 == 0
    key.file.chmod(0o644)
    ring.private("me")
    assert stat.S_IMODE(key.file.stat().st_mode) == 0o600
    key.file.chmod(0o620)
    with pytest.raises(SignatureError, match="others can write it"):
        ring.private("me")


def test_a_passphrase_protects_a_key(ring: KeyRing) -> None:
    key = ring.new("me", "correct horse")
    assert key.encrypted and not ring.new("open").encrypted
    assert b"ENCRYPTED" in key.file.read_bytes()
    ring.private("me", "correct horse")
    with pytest.raises(SignatureError, match="passphrase is wrong"):
        ring.private("me", "battery")
    with pytest.raises(SignatureError, match="needs its passphrase"):
        ring.private("me")
    ring.private("open", "not needed")


def test_a_key_moves_to_another_machine(ring: KeyRing, tmp_path: Path) -> None:
    key = ring.new("me", "secret")
    there = KeyRing(tmp_path / "there")
    moved = there.add("work", ring.export_private("me"), "secret")
    assert moved.fingerprint == key.fingerprint
    assert moved.encrypted
    there.private("work", "secret")


def test_an_ssh_key_can_be_taken(ring: KeyRing, tmp_path: Path) -> None:
    for kind, file in (("ed25519", "good"), ("ecdsa", "other")):
        command = ["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(tmp_path / file)]
        subprocess.run(command, check=True, capture_output=True)
    assert ring.add("ssh", (tmp_path / "good").read_text()).name == "ssh"
    with pytest.raises(SignatureError, match="of another kind"):
        ring.add("ec", (tmp_path / "other").read_text())


def test_what_is_wrong_with_a_key_is_said(ring: KeyRing) -> None:
    with pytest.raises(SignatureError, match="pkg key new"):
        ring.only()
    me, you = ring.new("me"), ring.new("you")
    with pytest.raises(SignatureError, match="--key: me, you"):
        ring.only()
    with pytest.raises(SignatureError, match="there are: me, you"):
        ring.get("her")
    with pytest.raises(SignatureError, match="already"):
        ring.new("me")
    for name in ("../evil", "", "-x", "A", "a/b", "x" * 65):
        with pytest.raises(SignatureError, match="no name for a key"):
            ring.new(name)
    with pytest.raises(SignatureError, match="no private key"):
        ring.add("new", "nonsense")
    me.file.with_suffix(".pub").write_bytes(you.file.with_suffix(".pub").read_bytes())
    with pytest.raises(SignatureError, match="no pair"):
        ring.private("me")
    me.file.with_suffix(".pub").unlink()
    with pytest.raises(SignatureError, match="restore it"):
        ring.list()


def test_a_key_is_named_in_several_ways(ring: KeyRing) -> None:
    key = ring.new("me")
    public = key.file.with_suffix(".pub")
    for text in (key.fingerprint, key.fingerprint.upper(), key.public, str(public), "me"):
        assert fingerprint_of(text, ring) == key.fingerprint
    for text in ("you", "ed25519:AAAA", key.fingerprint[:10], "nowhere.pub"):
        with pytest.raises(SignatureError):
            fingerprint_of(text, ring)
    assert fingerprint(b"\0" * 32) != key.fingerprint


def test_where_keys_are_kept(tmp_path: Path, bot_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LUMIA_ROOT", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    monkeypatch.chdir(bot_root)
    assert default_folder() == bot_root / FOLDER
    monkeypatch.chdir("/")
    assert default_folder() == tmp_path / "own" / "lumia" / "keys"
    monkeypatch.setenv("LUMIA_KEYS", "/somewhere/keys")
    assert default_folder() == Path("/somewhere/keys")
