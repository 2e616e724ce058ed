"""Versions: tags, what can be published, and what the registry is told."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jsonschema import Draft202012Validator  # type: ignore[import-untyped,unused-ignore]

from lumia.errors import PkgError
from lumia.paths import base
from lumia.pkg.dev.project import Project, git
from lumia.pkg.dev.publish import sign
from lumia.pkg.dev.release import (
    address,
    changes,
    check_clean,
    is_public,
    make_tag,
    next_tag,
    push,
    release,
    submission,
)
from lumia.pkg.signing import parse_signature
from tests.lumia.pkg.dev.conftest import commit, write_plugin


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A committed plugin whose remote is a bare repository."""
    made = write_plugin(tmp_path / "tried", "x = 1\n")
    (made.folder / "README.md").write_text("# Tried\n")
    commit(made)
    git(tmp_path, "init", "--quiet", "--bare", "remote.git")
    git(made.folder, "remote", "add", "origin", f"file://{tmp_path}/remote.git")
    return made


def test_only_what_is_in_a_commit_is_published(project: Project, tmp_path: Path) -> None:
    check_clean(project)
    (project.folder / "new.py").write_text("")
    with pytest.raises(PkgError, match=r"in no commit yet: new\.py; run `git add -A && git commit`"):
        check_clean(project)
    shutil.rmtree(project.folder / ".git")
    with pytest.raises(PkgError, match="is no git repository"):
        check_clean(project)
    git(project.folder, "init", "--quiet")
    for name in ("new.py", "README.md", "plugin.py", "manifest.json", "LICENSE"):
        (project.folder / name).unlink()
    with pytest.raises(PkgError, match="has no commit yet"):
        check_clean(project)


@pytest.mark.parametrize(
    "tags, following",
    [((), "v0.1.0"), (("v1.2.3", "v1.10.0", "old"), "v1.10.1"), (("2.0",), "2.0.1"), (("v1.0.0rc1",), "v1.0.0")],
)
def test_the_next_version_follows_the_highest(project: Project, tags: tuple[str, ...], following: str) -> None:
    commit(project, *tags)
    commit(project)
    assert next_tag(project) == following
    make_tag(project, following)
    assert next_tag(project) == following


def test_a_version_stays_at_its_commit(project: Project) -> None:
    make_tag(project, "v1.0.0")
    make_tag(project, "v1.0.0")
    commit(project)
    with pytest.raises(PkgError, match="is at another commit; a published version never changes"):
        make_tag(project, "v1.0.0")
    for wrong in ("newest", "-v1", "v1..0"):
        with pytest.raises(PkgError, match="is no version; a tag looks like"):
            make_tag(project, wrong)


def test_the_address_is_the_manifests_or_the_remotes_and_carries_no_secret(project: Project) -> None:
    make_tag(project, "v1.0.0")
    git(project.folder, "remote", "set-url", "origin", "https://ann:secret@example.org/tried.git")
    assert release(project, "v1.0.0").url == "https://example.org/tried.git"
    git(project.folder, "remote", "remove", "origin")
    with pytest.raises(PkgError, match="nobody can clone it yet"):
        release(project, "v1.0.0")
    source = {"type": "git", "url": "https://example.org/mine.git"}
    write_plugin(project.folder, "", source=source)
    assert release(project, "v1.0.0").url == "https://example.org/mine.git"
    write_plugin(project.folder, "", source=source, license="")
    with pytest.raises(PkgError, match="names no licence"):
        release(project, "v1.0.0")
    write_plugin(project.folder, "", source=source, license="free for all!")
    with pytest.raises(PkgError, match="'free for all!' is no SPDX expression"):
        release(project, "v1.0.0")
    write_plugin(project.folder, "", source=source)
    (project.folder / "LICENSE").unlink()
    with pytest.raises(PkgError, match="there is no licence file; add the text of MIT as"):
        release(project, "v1.0.0")
    (project.folder / "COPYING.txt").touch()
    assert release(project, "v1.0.0").url == "https://example.org/mine.git"


def test_the_address_is_as_it_is_written_and_not_ssh_where_everybody_can_read_it(
    project: Project, tmp_path: Path
) -> None:
    with (Path.home() / ".gitconfig").open("a") as settings:
        settings.write(f'[url "file://{tmp_path}/"]\n\tinsteadOf = https://example.org/\n')
        settings.write('[url "git@"]\n\tinsteadOf = ssh://git@\n')
    for written in ("git@example.org:remote.git", "ssh://git@example.org/remote.git", "https://example.org/remote.git"):
        git(project.folder, "remote", "set-url", "origin", written)
        assert address(project) == "https://example.org/remote.git"
    git(project.folder, "remote", "set-url", "origin", "git@example.org:private.git")
    assert address(project) == "git@example.org:private.git"


def test_what_the_registry_is_told_fits_its_schema(project: Project) -> None:
    make_tag(project, "v1.0.0")
    key = Ed25519PrivateKey.generate()
    told: list[str] = []
    sign(project, "v1.0.0", key, told.append)
    sign(project, "v1.0.0", key, told.append)
    assert [line.split()[0] for line in told] == ["signed", "v1.0.0"]
    packed = submission(release(project, "v1.0.0"), [])
    schema = json.loads((base() / "registry-worker" / "schema" / "submission.json").read_text("utf-8"))
    Draft202012Validator(schema).validate(packed)
    assert packed["manifest"] == {"name": "tried", "license": "MIT"}
    assert (packed["files"], packed["readme_md"]) == (4, "# Tried\n")
    assert parse_signature(packed["signature"]).fits("tried", "v1.0.0", packed["digest"])


def test_news_are_the_tags_own_words_or_the_commits_since_the_version_before(project: Project) -> None:
    commit(project, "v1.0.0")
    commit(project)
    make_tag(project, "v1.1.0")
    assert changes(project, "v1.1.0") == "- Change something"
    assert git(project.folder, "tag", "-l", "--format=%(contents)", "v1.1.0").strip().endswith("- Change something")
    with pytest.raises(PkgError, match=r"v1\.1\.0 is tagged already, with a text of its own"):
        make_tag(project, "v1.1.0", "More sides")
    commit(project)
    assert make_tag(project, "v1.2.0", "# More sides\n\nUp to 100")
    assert changes(project, "v1.2.0") == "# More sides\n\nUp to 100"
    git(project.folder, "tag", "-a", "-f", "-m", "Dice have more sides\n\n- up to 100", "v1.1.0")
    sign(project, "v1.1.0", Ed25519PrivateKey.generate(), lambda line: None)
    assert changes(project, "v1.1.0") == "Dice have more sides\n\n- up to 100"


def test_a_tag_is_public_when_everybody_gets_the_same(project: Project) -> None:
    make_tag(project, "v1.0.0")
    one = release(project, "v1.0.0")
    assert not is_public(one)
    push(one)
    assert is_public(one)
    sign(project, "v1.0.0", Ed25519PrivateKey.generate(), lambda line: None)
    assert not is_public(one)
    with pytest.raises(
        PkgError, match=r"another tag v1\.0\.0 than this one.*git push --force origin refs/tags/v1\.0\.0"
    ):
        push(one)
