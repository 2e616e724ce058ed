from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from lumia.errors import SignatureError
from lumia.pkg.model import Locked
from lumia.pkg.revocation import Revoked
from lumia.pkg.signing import fingerprint, sign
from lumia.pkg.trust import TrustStore, Verdict, remember, verify

ANN = Ed25519PrivateKey.from_private_bytes(b"a" * 32)
EVE = Ed25519PrivateKey.from_private_bytes(b"e" * 32)
DIGEST, OTHER = "sha256:" + "11" * 32, "sha256:" + "22" * 32


def print_of(key: Ed25519PrivateKey) -> str:
    return fingerprint(key.public_key().public_bytes_raw())


def signed(*keys: Ed25519PrivateKey, tag: str = "v1", digest: str = DIGEST, name: str = "dice") -> list[str]:
    return [str(sign(key, name, tag, digest)) for key in keys]


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path)


def judge(store: TrustStore, signatures: list[str], revoked: Revoked | None = None, tag: str = "v1") -> Verdict:
    return verify("dice", tag, DIGEST, signatures, store=store, revoked=revoked or Revoked())


def locked(key: str | None) -> Locked:
    return Locked("dice", "1", "v1", "0" * 40, "https://example.org/dice", "git", DIGEST, key)


def test_an_unsigned_plugin_is_installed_with_a_warning(store: TrustStore) -> None:
    verdict = judge(store, [])
    assert (verdict.outcome, verdict.key) == ("unsigned", None)
    assert "is not signed" in verdict.text


def test_the_first_key_is_trusted_once_the_version_is_installed(store: TrustStore, tmp_path: Path) -> None:
    verdict = judge(store, signed(ANN))
    assert (verdict.outcome, verdict.key) == ("signed", print_of(ANN))
    assert print_of(ANN) in verdict.text
    assert not store.path.exists()
    remember(tmp_path, locked(verdict.key))
    assert store.of("dice").keys == {print_of(ANN): "first use"}
    assert judge(store, signed(ANN)).outcome == "signed"
    remember(tmp_path, locked(print_of(EVE)))
    remember(tmp_path, locked(None))
    assert list(store.of("dice").keys) == [print_of(ANN)]


def test_another_key_is_refused_with_both_fingerprints_and_the_way_out(store: TrustStore) -> None:
    store.trust("dice", print_of(ANN))
    verdict = judge(store, signed(EVE))
    assert (verdict.outcome, verdict.key) == ("refused", None)
    assert print_of(ANN) in verdict.text and print_of(EVE) in verdict.text
    assert f"pkg key trust dice {print_of(EVE)}" in verdict.text
    store.trust("dice", print_of(EVE))
    assert judge(store, signed(EVE)).outcome == "signed"
    assert judge(store, signed(ANN)).outcome == "signed"


def test_no_signature_where_there_was_one_is_refused(store: TrustStore) -> None:
    store.trust("dice", print_of(ANN))
    verdict = judge(store, [])
    assert verdict.outcome == "refused"
    assert "pkg key untrust dice" in verdict.text
    assert store.untrust("dice") == 1
    assert judge(store, []).outcome == "unsigned"


@pytest.mark.parametrize(
    "signatures",
    [
        signed(ANN, digest=OTHER),
        signed(ANN, tag="v2"),
        signed(ANN, name="other"),
        [signed(ANN)[0][:-8] + "AAAAAA=="],
        signed(EVE) + signed(ANN, digest=OTHER),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_a_signature_of_other_files_versions_or_plugins_is_refused(
    store: TrustStore, signatures: list[str], known: bool
) -> None:
    if known:
        store.trust("dice", print_of(ANN))
    verdict = judge(store, signatures)
    assert verdict.outcome == "refused"
    assert "doesn't fit" in verdict.text or "damaged" in verdict.text


@pytest.mark.parametrize("text", ["", "x", "ed25519:1:2:3", "rsa:a:b:c", "ed25519:" + "A" * 300])
def test_a_damaged_signature_is_refused_and_not_taken_for_none(store: TrustStore, text: str) -> None:
    assert judge(store, [text]).outcome == "refused"


def test_a_strangers_signature_beside_a_trusted_one_does_no_harm(store: TrustStore) -> None:
    store.trust("dice", print_of(ANN))
    assert judge(store, signed(EVE, ANN)).key == print_of(ANN)
    assert judge(store, signed(EVE, digest=OTHER) + signed(ANN)).key == print_of(ANN)


def test_a_pinned_key_is_the_only_one(store: TrustStore) -> None:
    store.trust("dice", print_of(EVE))
    store.pin("dice", print_of(ANN))
    assert judge(store, signed(EVE)).outcome == "refused"
    assert judge(store, []).outcome == "refused"
    assert judge(store, signed(ANN)).outcome == "signed"
    assert "pkg key pin dice" in judge(store, signed(EVE)).text
    assert store.of("dice").pinned


def test_a_revoked_key_or_version_is_refused_with_the_reason(store: TrustStore) -> None:
    store.trust("dice", print_of(ANN))
    keys = Revoked(keys={print_of(ANN): "laptop stolen"})
    assert judge(store, signed(ANN), keys).outcome == "refused"
    assert "laptop stolen" in judge(store, signed(ANN), keys).text
    versions = Revoked(versions={("dice", "v1"): "deletes files"})
    assert "deletes files" in judge(store, signed(ANN), versions).text
    assert judge(store, signed(ANN, tag="v2"), versions, tag="v2").outcome == "signed"
    assert judge(TrustStore(store.path.parent), signed(ANN, EVE), keys).key == print_of(EVE)


def test_a_damaged_list_of_trusted_keys_trusts_nobody(store: TrustStore) -> None:
    store.trust("dice", print_of(ANN))
    for text in ("", "{", "[]", '{"plugins": 3}', '{"plugins": {"dice": {"keys": {"x": {}}, "pinned": false}}}'):
        store.path.write_text(text)
        with pytest.raises(SignatureError, match="can't be read"):
            judge(store, signed(EVE))
        with pytest.raises(SignatureError):
            store.trust("dice", print_of(EVE))
        assert store.path.read_text() == text


def test_the_list_is_made_for_people_to_read(store: TrustStore) -> None:
    store.trust("dice", print_of(ANN).upper())
    data = json.loads(store.path.read_text())
    assert data["version"] == 1
    assert data["plugins"]["dice"]["keys"][print_of(ANN)]["how"] == "trusted"
    with pytest.raises(SignatureError, match="no fingerprint"):
        store.pin("dice", "abc")
    assert store.untrust("dice", print_of(EVE)) == 0
    assert store.untrust("nobody") == 0
    assert store.untrust("dice", print_of(ANN)) == 1
    assert store.plugins() == {}
