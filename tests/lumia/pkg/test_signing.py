from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from lumia.errors import PkgError, SignatureError, SourceError
from lumia.pkg.dev.project import Project, find_project
from lumia.pkg.dev.release import make_tag
from lumia.pkg.signing import (
    Signature,
    checked_fingerprint,
    fingerprint,
    parse_public,
    parse_signature,
    payload,
    public_text,
    sign,
    sign_tag,
    signatures_in,
    tag_signatures,
)
from lumia.pkg.tree import digest_commit
from tests.support.repositories import git, repository

KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
OTHER = Ed25519PrivateKey.from_private_bytes(b"o" * 32)
DIGEST = "sha256:" + "ab" * 32


def test_a_signature_can_be_checked_with_nothing_but_the_page_about_it() -> None:
    text = str(sign(KEY, "dice", "v1.0", DIGEST))
    algorithm, finger, key, value = text.split(":")
    raw = base64.b64decode(key)
    assert algorithm == "ed25519"
    assert finger == hashlib.sha256(raw).hexdigest()
    message = f"lumia-package-v1\ndice\nv1.0\n{DIGEST}\n".encode()
    Ed25519PublicKey.from_public_bytes(raw).verify(base64.b64decode(value), message)
    assert payload("dice", "v1.0", DIGEST) == message


def test_a_signature_fits_its_name_tag_and_tree_alone() -> None:
    signature = sign(KEY, "dice", "v1.0", DIGEST)
    assert signature.fits("dice", "v1.0", DIGEST)
    assert not signature.fits("dice2", "v1.0", DIGEST)
    assert not signature.fits("dice", "v1.1", DIGEST)
    assert not signature.fits("dice", "v1.0", DIGEST.replace("a", "c"))
    assert not Signature(OTHER.public_key().public_bytes_raw(), signature.value).fits("dice", "v1.0", DIGEST)
    assert not Signature(b"\xff" * 32, signature.value).fits("dice", "v1.0", DIGEST)


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=64, max_size=64))
def test_what_is_written_is_read(key: bytes, value: bytes) -> None:
    assert parse_signature(str(Signature(key, value))) == Signature(key, value)
    assert parse_public(public_text(key)) == key
    assert checked_fingerprint(fingerprint(key).upper()) == fingerprint(key)


@given(st.text(max_size=40) | st.tuples(*[st.text(max_size=8)] * 3).map(lambda parts: "ed25519:" + ":".join(parts)))
def test_anything_else_is_refused_by_its_error(text: str) -> None:
    for read in (parse_signature, parse_public, checked_fingerprint):
        with pytest.raises(SignatureError):
            read(text)


def test_a_signature_that_names_another_key_than_it_carries_is_refused() -> None:
    good = str(sign(KEY, "dice", "v1.0", DIGEST))
    other = fingerprint(OTHER.public_key().public_bytes_raw())
    with pytest.raises(SignatureError, match="names the key"):
        parse_signature(good.replace(good.split(":")[1], other))


def test_signatures_stand_on_lines_of_a_message() -> None:
    assert signatures_in("dice v1\n\nLumia-Signature: a:b\nlumia-signature:  c\nNot-Lumia-Signature: d") == ("a:b", "c")
    assert len(signatures_in("Lumia-Signature: x\n" * 1000)) == 8


def test_a_tag_is_signed_where_it_is(tmp_path: Path) -> None:
    repo = repository(tmp_path / "dice", tag="v0.1.0")
    first = git(repo.folder, "rev-parse", "HEAD")
    repo.commit({"plugin.py": "x = 2\n"})
    made = sign_tag(repo.folder, "v0.1.0", KEY, "dice")
    assert git(repo.folder, "rev-parse", "v0.1.0^{commit}") == first
    assert tag_signatures(repo.folder, "v0.1.0") == (str(made),)
    assert made.fits("dice", "v0.1.0", digest_commit(repo.folder, first))
    sign_tag(repo.folder, "v0.2.0", KEY, "dice")
    assert git(repo.folder, "rev-parse", "v0.2.0^{commit}") == git(repo.folder, "rev-parse", "HEAD")
    assert tag_signatures(repo.folder, "v0.2.0") and not tag_signatures(repo.folder, "v9")


def test_a_tag_keeps_its_message_and_the_signatures_of_others(tmp_path: Path) -> None:
    repo = repository(tmp_path / "dice")
    repo.commit(tag="v0.1.0", message="What is new\n\n# a heading\n* dice roll")
    ours, theirs = sign_tag(repo.folder, "v0.1.0", KEY, "dice"), sign_tag(repo.folder, "v0.1.0", OTHER, "dice")
    again = sign_tag(repo.folder, "v0.1.0", KEY, "dice")
    assert tag_signatures(repo.folder, "v0.1.0") == (str(theirs), str(again))
    assert str(ours) == str(again)
    message = git(repo.folder, "tag", "-l", "--format=%(contents)", "v0.1.0")
    assert message.startswith("What is new\n\n# a heading\n* dice roll\n\nLumia-Signature: ")


def test_signing_needs_a_commit_and_a_tags_name(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    with pytest.raises(SourceError, match="can't be signed"):
        sign_tag(tmp_path, "v1", KEY, "dice")
    with pytest.raises(SourceError, match="can't be a git tag"):
        sign_tag(tmp_path, "--delete", KEY, "dice")


def test_signing_needs_no_identity_of_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = repository(tmp_path / "dice")
    (tmp_path / ".gitconfig").write_text("[user]\nuseConfigOnly = true\n")
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_", "EMAIL"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    made = sign_tag(repo.folder, "v0.1.0", KEY, "dice")
    assert tag_signatures(repo.folder, "v0.1.0") == (str(made),)
    make_tag(Project(repo.folder, "dice"), "v0.2.0")
    assert git(repo.folder, "cat-file", "-t", "v0.2.0").strip() == "tag"


def test_a_tag_in_the_place_of_the_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PkgError, match=r"no folder v0\.1\.0; .*--tag"):
        find_project(Path("v0.1.0"))
