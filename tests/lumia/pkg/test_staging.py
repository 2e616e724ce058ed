"""A version on its way from a repository or folder to the staging folder: whatever is wrong with it, it stops here."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from lumia.discovery import folder_version
from lumia.errors import ManifestError, PkgError, SignatureError, SourceError, UnsafePackageError
from lumia.pkg import stages, trust
from lumia.pkg.git import Git
from lumia.pkg.model import Request, Staged
from lumia.pkg.requests import parse
from lumia.pkg.revocation import Revoked
from lumia.pkg.signing import fingerprint, sign, sign_tag
from lumia.pkg.staging import STAGING, discard, stage, stage_locked
from lumia.pkg.tree import Limits, digest_commit
from tests.support.repositories import Repository, git, repository

ANN = Ed25519PrivateKey.from_private_bytes(b"a" * 32)
EVE = Ed25519PrivateKey.from_private_bytes(b"e" * 32)
SIGNER = fingerprint(ANN.public_key().public_bytes_raw())


class Bot:
    """A bot root to stage for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git = Git(root / "data" / "pkg" / "cache")

    def stage(self, text: str, **keys: object) -> Staged:
        asked = parse(text)
        tag = keys.pop("tag", asked.tag)
        name = keys.pop("name", None)
        asked = replace(asked, name=name) if name else asked  # type: ignore[arg-type]
        return stage(asked, url=asked.url or "", tag=tag, root=self.root, git=self.git, **keys)  # type: ignore[arg-type]

    def staged(self) -> list[str]:
        """Return what lies in the staging folder."""
        folder = self.root / STAGING
        return [str(path.relative_to(folder)) for path in folder.rglob("*")] if folder.exists() else []


@pytest.fixture
def bot(bot_root: Path) -> Bot:
    return Bot(bot_root)


def test_the_latest_version_of_a_repository_is_staged(bot: Bot, repo: Repository) -> None:
    made = bot.stage(repo.url)
    locked = made.locked
    assert (locked.name, locked.version, locked.tag, locked.origin) == ("dice", "0.2.0", "v0.2.0", "git")
    assert locked.url == repo.url
    assert locked.commit == git(repo.folder, "rev-parse", "v0.2.0^{commit}")
    assert locked.digest == digest_commit(repo.folder, "v0.2.0")
    assert made.folder.is_relative_to(bot.root / STAGING)
    assert made.manifest.name == "dice"
    assert folder_version(made.folder).version == "0.2.0"
    assert made.warnings == ("dice v0.2.0 is not signed: nothing shows who made it",)
    discard(made)
    assert bot.staged() == []


def test_a_tag_a_commit_and_an_untagged_repository_are_staged(bot: Bot, repo: Repository, tmp_path: Path) -> None:
    assert bot.stage(repo.url + "@v0.1.0").locked.version == "0.1.0"
    commit = git(repo.folder, "rev-parse", "v0.1.0")
    by_commit = bot.stage(f"{repo.url}@{commit}")
    assert (by_commit.locked.version, by_commit.locked.tag) == (f"0.0.0+{commit[:12]}", None)
    assert "no version tag" in by_commit.warnings[0]
    bare = repository(tmp_path / "bare")
    assert bot.stage(bare.url).locked.version.startswith("0.0.0+")


def test_what_was_staged_is_staged_again_from_its_lock_without_network(bot: Bot, repo: Repository) -> None:
    locked = bot.stage(repo.url + "@v0.1.0").locked
    repo.folder.rename(repo.folder.with_name("gone"))
    again = stage_locked(locked, root=bot.root, git=bot.git)
    assert again.locked == locked
    assert (again.folder / "plugin.py").read_text() == "import lumia\n"
    with pytest.raises(SignatureError, match="they were changed since"):
        stage_locked(replace(locked, digest="sha256:" + "0" * 64), root=bot.root, git=bot.git)
    with pytest.raises(SignatureError, match="was revoked"):
        stage_locked(locked, root=bot.root, git=bot.git, revoked=Revoked(versions={("dice", "v0.1.0"): "x"}))
    with pytest.raises(SignatureError, match="was revoked"):
        stage_locked(replace(locked, key="k"), root=bot.root, git=bot.git, revoked=Revoked(keys={"k": "x"}))


# Folders.


def test_a_clean_folder_at_a_tag_is_that_version(bot: Bot, repo: Repository) -> None:
    repo.write({"__pycache__/plugin.cpython-311.pyc": b"x"})
    made = bot.stage(str(repo.folder))
    assert (made.locked.version, made.locked.origin, made.locked.url) == ("0.2.0", "folder", str(repo.folder))
    assert bot.stage(f"{repo.folder}@v0.1.0").locked.version == "0.1.0"


def test_a_folder_with_changes_is_taken_as_it_is_and_kept(bot: Bot, repo: Repository) -> None:
    repo.write({"plugin.py": "x = 3\n", "new.py": "", ".gitignore": "*.log\n", "a.log": "secret", "sub/x.txt": "x"})
    repo.write({"__pycache__/plugin.cpython-311.pyc": b"x"})
    made = bot.stage(str(repo.folder))
    assert made.locked.tag is None
    assert made.locked.version == "0.0.0+" + made.locked.commit[:12]
    (warning,) = made.warnings
    assert "changes that aren't committed (.gitignore, new.py, plugin.py and 1 more)" in warning
    files = sorted(path.name for path in made.folder.iterdir())
    assert files == [".git", ".gitignore", "manifest.json", "new.py", "plugin.py", "sub"]
    assert git(made.folder, "status", "--porcelain") == ""
    assert bot.stage(str(repo.folder)).locked == made.locked
    repo.write({"plugin.py": "x = 4\n"})
    assert (stage_locked(made.locked, root=bot.root, git=bot.git).folder / "plugin.py").read_text() == "x = 3\n"
    bot.git.clear()
    with pytest.raises(SourceError, match="not in the cache any more"):
        stage_locked(made.locked, root=bot.root, git=bot.git)


def test_a_folder_that_is_no_repository_is_taken_as_it_is(bot: Bot, tmp_path: Path) -> None:
    folder = tmp_path / "my plugins" / "dice#1"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text('{"name": "dice"}')
    (folder / "plugin.py").write_text("")
    made = bot.stage(str(folder))
    assert "is no git repository" in made.warnings[0]
    assert stage_locked(made.locked, root=bot.root, git=bot.git).locked == made.locked
    with pytest.raises(SourceError, match="is no folder"):
        bot.stage(str(tmp_path / "nowhere"))


def test_a_hostile_folder_gets_nothing_run(bot: Bot, repo: Repository, tmp_path: Path) -> None:
    owned, script = tmp_path / "owned", tmp_path / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {owned}\ncat\n")
    script.chmod(0o755)
    (repo.folder / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (repo.folder / ".git" / "hooks").mkdir(exist_ok=True)
    for hook in ("post-checkout", "post-index-change", "pre-commit", "reference-transaction"):
        (repo.folder / ".git" / "hooks" / hook).write_text(script.read_text())
        (repo.folder / ".git" / "hooks" / hook).chmod(0o755)
    with (repo.folder / ".git" / "config").open("a") as config:
        config.write(
            f'[core]\n fsmonitor = {script}\n pager = {script}\n[filter "evil"]\n clean = {script}\n'
            f" smudge = {script}\n[diff]\n external = {script}\n[uploadpack]\n packObjectsHook = {script}\n"
        )
    made = bot.stage(str(repo.folder))
    bot.stage(repo.url)
    assert made.locked.tag is None
    assert not owned.exists()
    assert "evil" not in (made.folder / ".git" / "config").read_text()


def test_a_folder_may_not_hold_what_a_repository_may_not(bot: Bot, repo: Repository, tmp_path: Path) -> None:
    (repo.folder / "up").symlink_to("/etc/passwd")
    with pytest.raises(UnsafePackageError, match="is a link to"):
        bot.stage(str(repo.folder))
    (repo.folder / "up").unlink()
    repository(repo.folder / "inner")
    with pytest.raises(UnsafePackageError, match="repository inside"):
        bot.stage(str(repo.folder))
    assert bot.staged() == []


def test_a_folder_larger_than_a_package_is_refused_before_it_is_copied(bot: Bot, repo: Repository) -> None:
    repo.write({"big": b"\0" * 1000})
    with pytest.raises(UnsafePackageError, match="'big' has"):
        bot.stage(str(repo.folder), limits=Limits(file=500))
    assert bot.staged() == []


# What is refused.


def test_another_plugin_than_asked_for_is_refused(bot: Bot, repo: Repository) -> None:
    with pytest.raises(UnsafePackageError, match="holds the plugin 'dice', not 'weather'"):
        bot.stage(repo.url, name="weather")
    assert bot.staged() == []


@pytest.mark.parametrize(
    "manifest, reason",
    [
        ('{"name": "../../etc"}', "is no plugin name"),
        ('{"name": "d\u0456ce"}', "is no plugin name"),
        ('{"name": "dice", "main": "../../evil.py"}', "is no entry point"),
        ('{"name": "dice", "config_schema": "../../config/lumia.toml"}', "is no file inside"),
        ('{"name": "dice", "config_schema": "/etc/passwd"}', "is no file inside"),
        ('{"name": "dice", "description": "\\u001b[2J"}', "U+001B"),
        ('{"name": "dice", "description": "safe\\u202egnp"}', "U+202E"),
        ('{"name": "dice", "source": {"type": "git", "url": "--upload-pack=id"}}', "is no git URL"),
        ('{"name": "dice", "python_dependencies": ["x @ file:///evil.whl"]}', "names an address"),
        ('{"name": "dice", "commands": {"a": "b", "a": "c"}}', "twice"),
        ("[" * 100_000, "nested too deeply"),
        ("{", "line 1"),
        ("\x00", "line 1"),
    ],
)
def test_a_hostile_manifest_is_refused_with_the_reason(bot: Bot, repo: Repository, manifest: str, reason: str) -> None:
    repo.commit({"manifest.json": manifest}, tag="v6.6.6")
    with pytest.raises(ManifestError) as refused:
        bot.stage(repo.url)
    assert reason in str(refused.value)
    assert str(refused.value).startswith(f"{repo.url} v6.6.6: manifest.json")
    assert not set(str(refused.value)) & {"\x1b", "\n", "\u202e"}
    assert bot.staged() == []


def test_a_tag_that_is_no_version_is_refused(bot: Bot, repo: Repository) -> None:
    git(repo.folder, "tag", "nightly")
    with pytest.raises(SourceError, match="the tag nightly is no version"):
        bot.stage(repo.url + "@nightly")


def test_a_registry_that_lies_about_commit_or_digest_is_found_out(bot: Bot, repo: Repository) -> None:
    commit, digest = git(repo.folder, "rev-parse", "v0.2.0^{commit}"), digest_commit(repo.folder, "v0.2.0")
    assert bot.stage(repo.url, tag="v0.2.0", commit=commit, expected_digest=digest).locked.digest == digest
    other = git(repo.folder, "rev-parse", "v0.1.0")
    with pytest.raises(UnsafePackageError, match="moved"):
        bot.stage(repo.url, tag="v0.2.0", commit=other)
    with pytest.raises(SignatureError, match="recorded is sha256:0"):
        bot.stage(repo.url, tag="v0.2.0", expected_digest="sha256:" + "0" * 64)
    assert len([one for one in bot.staged() if one.endswith("manifest.json")]) == 1


def test_an_unencrypted_connection_is_told(bot: Bot) -> None:
    with pytest.raises(PkgError):
        bot.stage("git://127.0.0.1:1/dice")


def test_what_a_killed_pkg_left_staged_is_swept_away_and_nothing_of_a_live_one(bot: Bot, repo: Repository) -> None:
    made = bot.stage(repo.url)
    left = bot.root / STAGING / "left"
    (left / "dice").mkdir(parents=True)
    stages.sweep(bot.root / STAGING)
    assert (made.folder.is_dir(), left.exists()) == (True, False)
    discard(made)
    assert not list((bot.root / STAGING).iterdir())


def test_a_file_system_without_locks_is_told_once_and_for_all(
    bot: Bot, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("lumia.pkg.stages.fcntl.flock", unknown)
    with pytest.raises(SourceError, match="No locks available; it must be on a file system that knows locks"):
        bot.stage(repo.url)
    assert bot.staged() == []


# Signatures.


def test_a_signed_tag_is_verified_and_its_key_remembered(bot: Bot, repo: Repository) -> None:
    sign_tag(repo.folder, "v0.2.0", ANN, "dice")
    made = bot.stage(repo.url)
    assert made.locked.key == SIGNER
    assert made.warnings == (), "a first key is nothing to warn of"
    trust.remember(bot.root, made.locked)
    assert bot.stage(repo.url).warnings == ()
    with pytest.raises(SignatureError, match="is not signed, and dice was signed before"):
        bot.stage(repo.url + "@v0.1.0")
    with pytest.raises(SignatureError, match="was signed before"):
        bot.stage(f"{repo.url}@{made.locked.commit}")


def test_a_tag_that_is_signed_later_is_seen_so(bot: Bot, repo: Repository) -> None:
    commit = git(repo.folder, "rev-parse", "v0.2.0^{commit}")
    assert bot.stage(repo.url, tag="v0.2.0", commit=commit).locked.key is None
    sign_tag(repo.folder, "v0.2.0", ANN, "dice")
    assert bot.stage(repo.url, tag="v0.2.0", commit=commit).locked.key == SIGNER


def test_the_registry_may_carry_the_signature(bot: Bot, repo: Repository) -> None:
    signature = str(sign(ANN, "dice", "v0.2.0", digest_commit(repo.folder, "v0.2.0")))
    assert bot.stage(repo.url, tag="v0.2.0", signatures=[signature]).locked.key == SIGNER


def test_a_package_changed_after_it_was_signed_is_refused(bot: Bot, repo: Repository) -> None:
    sign_tag(repo.folder, "v0.2.0", ANN, "dice")
    message = git(repo.folder, "tag", "-l", "--format=%(contents)", "v0.2.0")
    repo.commit({"plugin.py": "evil\n"})
    git(repo.folder, "tag", "-f", "-a", "-F", "-", "v0.2.0", stdin=message.encode())
    with pytest.raises(SignatureError, match="the signature doesn't fit"):
        bot.stage(repo.url)
    git(repo.folder, "tag", "-f", "-a", "-F", "-", "v0.3.0", "v0.2.0^{commit}~1", stdin=message.encode())
    with pytest.raises(SignatureError, match="the signature doesn't fit"):  # an old signed tree under a new tag
        bot.stage(repo.url)
    assert bot.staged() == []


def test_another_key_and_a_revoked_one_are_refused(bot: Bot, repo: Repository) -> None:
    sign_tag(repo.folder, "v0.2.0", ANN, "dice")
    trust.remember(bot.root, bot.stage(repo.url).locked)
    with pytest.raises(SignatureError, match="was revoked"):
        bot.stage(repo.url, revoked=Revoked(keys={SIGNER: "lost"}))
    git(repo.folder, "tag", "-d", "v0.2.0")
    sign_tag(repo.folder, "v0.2.0", EVE, "dice")
    with pytest.raises(SignatureError, match="confirms the new key"):
        bot.stage(repo.url)


def test_an_authors_own_folder_needs_no_signature_unless_its_key_is_pinned(bot: Bot, repo: Repository) -> None:
    store = trust.TrustStore(bot.root)
    store.trust("dice", SIGNER)
    assert "taken from a folder" in bot.stage(str(repo.folder)).warnings[0]
    assert Bot(bot.root / "other").stage(str(repo.folder)).warnings == ()
    repo.write({"plugin.py": "x = 9\n"})
    assert bot.stage(str(repo.folder)).locked.key is None
    store.pin("dice", SIGNER)
    with pytest.raises(SignatureError):
        bot.stage(str(repo.folder))


def test_a_lock_does_not_get_around_a_pin(bot: Bot, repo: Repository) -> None:
    sign_tag(repo.folder, "v0.2.0", ANN, "dice")
    signed, unsigned = bot.stage(repo.url).locked, bot.stage(repo.url + "@v0.1.0").locked
    other = fingerprint(EVE.public_key().public_bytes_raw())
    trust.TrustStore(bot.root).pin("dice", SIGNER)
    assert stage_locked(signed, root=bot.root, git=bot.git).locked == signed
    for lock in (unsigned, replace(signed, key=other), replace(signed, key=None)):
        with pytest.raises(SignatureError, match="the key pinned for it here"):
            stage_locked(lock, root=bot.root, git=bot.git)


@pytest.mark.parametrize("pinned", [True, False])
def test_a_lock_does_not_vouch_for_a_signature_that_is_not_there(bot: Bot, repo: Repository, pinned: bool) -> None:
    sign_tag(repo.folder, "v0.2.0", ANN, "dice")
    signed, unsigned = bot.stage(repo.url).locked, bot.stage(repo.url + "@v0.1.0").locked
    store = trust.TrustStore(bot.root)
    (store.pin if pinned else store.trust)("dice", SIGNER)
    assert stage_locked(signed, root=bot.root, git=bot.git).locked == signed
    before = bot.staged()
    untagged = replace(unsigned, tag=None, version=f"0.0.0+{unsigned.commit[:12]}", key=SIGNER)
    taken_along = replace(unsigned, key=SIGNER, signature=signed.signature)
    for lock in (unsigned, replace(unsigned, key=SIGNER), untagged, taken_along, replace(signed, key=None)):
        with pytest.raises(SignatureError):
            stage_locked(lock, root=bot.root, git=bot.git)
    assert bot.staged() == before


def test_a_lock_does_not_bring_in_another_key_than_the_trusted_one(bot: Bot, repo: Repository) -> None:
    sign_tag(repo.folder, "v0.2.0", EVE, "dice")
    lock = bot.stage(repo.url).locked
    trust.TrustStore(bot.root).trust("dice", SIGNER)
    with pytest.raises(SignatureError, match="confirms the new key"):
        stage_locked(lock, root=bot.root, git=bot.git)


def test_a_key_that_a_lock_only_names_is_not_trusted_on_first_use(bot: Bot, repo: Repository) -> None:
    lock = replace(bot.stage(repo.url).locked, key=SIGNER)
    with pytest.raises(SignatureError, match="neither its tag nor the lock holds that signature"):
        stage_locked(lock, root=bot.root, git=bot.git)


def test_a_signature_that_only_the_registry_gave_travels_in_the_lock(bot: Bot, repo: Repository) -> None:
    signature = str(sign(ANN, "dice", "v0.2.0", digest_commit(repo.folder, "v0.2.0")))
    lock = bot.stage(repo.url, tag="v0.2.0", signatures=[signature]).locked
    assert lock.signature == signature
    trust.TrustStore(bot.root).pin("dice", SIGNER)
    assert stage_locked(lock, root=bot.root, git=bot.git).locked == lock
    with pytest.raises(SignatureError, match="neither its tag nor the lock"):
        stage_locked(replace(lock, signature=None), root=bot.root, git=bot.git)


def test_a_lock_that_claims_a_signature_for_other_files_is_refused(bot: Bot, repo: Repository) -> None:
    sign_tag(repo.folder, "v0.2.0", ANN, "dice")
    message = git(repo.folder, "tag", "-l", "--format=%(contents)", "v0.2.0")
    repo.commit({"plugin.py": "evil\n"}, tag="v0.3.0", message=message)
    commit = git(repo.folder, "rev-parse", "HEAD")
    lock = bot.stage(repo.url + "@v0.2.0").locked
    digest = digest_commit(repo.folder, commit)
    with pytest.raises(SignatureError, match="doesn't fit its files"):
        stage_locked(replace(lock, tag="v0.3.0", commit=commit, digest=digest), root=bot.root, git=bot.git)


def test_a_disk_that_is_full_or_closed_leaves_nothing(bot: Bot, repo: Repository, tmp_path: Path) -> None:
    (bot.root / "data" / "pkg").mkdir(parents=True)
    (bot.root / STAGING).write_text("a file where a folder should be")
    with pytest.raises(SourceError, match="can't be made"):
        bot.stage(repo.url)


def test_a_request_by_name_stages_into_the_plugins_folder_name(bot: Bot, tmp_path: Path) -> None:
    made = repository(tmp_path / "x", name="memory-graph", tag="v1.0")
    asked = Request("registry", "memory-graph", name="memory-graph")
    staged = stage(asked, url=made.url, tag="v1.0", root=bot.root, git=bot.git)
    assert staged.folder.name == "memory_graph"
    assert staged.locked.origin == "registry"
    assert json.loads((staged.folder / "manifest.json").read_text())["name"] == "memory-graph"
    into = tmp_path / "elsewhere"
    assert stage(asked, url=made.url, tag="v1.0", root=bot.root, git=bot.git, into=into).folder == into
    assert os.listdir(into)
