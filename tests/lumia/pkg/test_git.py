"""Real git over real connections: what comes of honest repositories, slow and absent ones, and hostile ones."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lumia.errors import PkgError, SourceError, UnsafePackageError
from lumia.pkg.git import Git, latest
from lumia.pkg.git_process import failure
from lumia.pkg.git_remote import explain
from lumia.pkg.tree import Limits, digest, digest_commit
from tests.support.git_server import Served, serving
from tests.support.repositories import Repository, git, repository

EVIL = "#!/bin/sh\ntouch {}\n"


@pytest.fixture
def fetcher(tmp_path: Path) -> Git:
    return Git(tmp_path / "cache")


@contextmanager
def away(repo: Repository) -> Iterator[None]:
    """Let nobody answer for the repository."""
    gone = repo.folder.rename(repo.folder.with_name("gone"))
    try:
        yield
    finally:
        gone.rename(repo.folder)


def test_tags_are_versions_in_order(repo: Repository, fetcher: Git) -> None:
    for name in ("nightly", "v0.10.0", "0.3", "v1.0.0rc1"):
        git(repo.folder, "tag", name, "HEAD")
    tags = fetcher.tags(repo.url)
    assert [tag.name for tag in tags] == ["v0.1.0", "v0.2.0", "0.3", "v0.10.0", "v1.0.0rc1"]
    assert tags[1].commit == git(repo.folder, "rev-parse", "v0.2.0^{commit}")
    newest = latest(tags)
    assert newest is not None and newest.name == "v0.10.0"
    assert latest(tags, prereleases=True) == tags[-1]
    assert latest([]) is None


def test_a_tag_is_checked_out_with_a_git_of_its_own(repo: Repository, fetcher: Git, tmp_path: Path) -> None:
    into = tmp_path / "out" / "dice"
    into.parent.mkdir()
    got = fetcher.checkout(repo.url, "v0.2.0", into)
    assert (got.tag, got.cached) == ("v0.2.0", False)
    assert (into / "plugin.py").read_text() == "x = 2\n"
    assert git(into, "status", "--porcelain") == ""
    assert git(into, "tag", "--points-at", "HEAD") == "v0.2.0"
    assert git(into, "rev-parse", "HEAD") == got.commit
    assert sorted(os.listdir(into / ".git")) == ["HEAD", "config", "index", "info", "objects", "refs", "shallow"]
    assert digest(into) == digest_commit(repo.folder, got.commit)
    assert git(into, "fsck") == ""


def test_an_untagged_commit_is_checked_out_too(repo: Repository, fetcher: Git, tmp_path: Path) -> None:
    commit = git(repo.folder, "rev-parse", "v0.1.0~0")
    got = fetcher.checkout(repo.url, commit, tmp_path / "out")
    assert (got.commit, got.tag) == (commit, None)
    later = repo.commit({"plugin.py": "x = 4\n"})
    assert fetcher.checkout(repo.url, later, tmp_path / "later").commit == later


def test_what_is_in_the_cache_needs_no_network(repo: Repository, fetcher: Git, tmp_path: Path) -> None:
    commit = fetcher.checkout(repo.url, "v0.1.0", tmp_path / "one").commit
    with away(repo):
        assert not fetcher.checkout(repo.url, "v0.1.0", tmp_path / "two", commit=commit).cached
        assert fetcher.checkout(repo.url, commit, tmp_path / "three").commit == commit
        with pytest.raises(SourceError, match="no such repository"):
            fetcher.tags(repo.url)


def test_a_tag_from_the_cache_says_that_it_is(fetcher: Git, tmp_path: Path) -> None:
    repository(tmp_path / "served" / "dice", tag="v0.1.0")
    with serving(tmp_path / "served") as server:
        url = f"{server.url}/dice/.git"
        fetcher.checkout(url, "v0.1.0", tmp_path / "one")
    assert fetcher.checkout(url, "v0.1.0", tmp_path / "two").cached
    with pytest.raises(SourceError, match="can't be reached"):
        fetcher.checkout(url, "v0.2.0", tmp_path / "three")


def test_a_moved_tag_is_refused(repo: Repository, fetcher: Git, tmp_path: Path) -> None:
    before = fetcher.checkout(repo.url, "v0.1.0", tmp_path / "one").commit
    moved = repo.commit({"plugin.py": "evil\n"})
    git(repo.folder, "tag", "-f", "v0.1.0", moved)
    other = Git(tmp_path / "other")
    with pytest.raises(UnsafePackageError, match="somebody moved it"):
        other.checkout(repo.url, "v0.1.0", tmp_path / "two", commit=before)
    assert not (tmp_path / "two").exists()
    got = other.checkout_locked(repo.url, "v0.1.0", before, tmp_path / "three")
    assert got.commit == before
    assert git(tmp_path / "three", "tag", "--points-at", "HEAD") == "v0.1.0"


def test_an_absent_tag_is_answered_with_those_there_are(repo: Repository, fetcher: Git, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"has no tag v0\.2\.1; did you mean v0\.2\.0\?"):
        fetcher.checkout(repo.url, "v0.2.1", tmp_path / "x")
    with pytest.raises(SourceError, match=r"its versions are v0\.2\.0, v0\.1\.0"):
        fetcher.checkout(repo.url, "zzz", tmp_path / "x")
    with pytest.raises(SourceError, match="has no commit 0000"):
        fetcher.checkout(repo.url, "0" * 40, tmp_path / "x")


def test_progress_is_told(repo: Repository, tmp_path: Path) -> None:
    told: list[tuple[str, float | None]] = []
    Git(tmp_path / "cache", progress=lambda what, part: told.append((what, part))).checkout(
        repo.url, "v0.1.0", tmp_path / "out"
    )
    assert ("Receiving objects", 1.0) in told


def test_the_cache_is_emptied_and_kept_small(repo: Repository, tmp_path: Path) -> None:
    other = repository(tmp_path / "other", tag="v1", files={"big": os.urandom(100_000)})
    fetcher = Git(tmp_path / "cache", cache_bytes=50_000)
    fetcher.checkout(repo.url, "v0.1.0", tmp_path / "one")
    fetcher.checkout(other.url, "v1", tmp_path / "two")
    assert [path.name.split("-")[0] for path in (tmp_path / "cache").glob("*.git")] == ["other"]
    assert fetcher.clear() > 50_000
    assert fetcher.clear() == 0
    assert Git(tmp_path / "never").clear() == 0


def test_a_half_made_mirror_is_made_anew(repo: Repository, fetcher: Git, tmp_path: Path) -> None:
    fetcher.checkout(repo.url, "v0.1.0", tmp_path / "one")
    (mirror,) = (tmp_path / "cache").glob("*.git")
    (mirror / "shallow.lock").touch()
    fetcher.checkout(repo.url, "v0.2.0", tmp_path / "two")
    for pack in mirror.glob("objects/pack/*"):
        pack.chmod(0o644)
        pack.write_bytes(b"")
    fetcher.checkout(repo.url, "v0.2.0", tmp_path / "three")
    (mirror / "HEAD").unlink()
    fetcher.checkout(repo.url, "v0.2.0", tmp_path / "four")


# Hostile repositories.


def test_filters_hooks_and_attributes_of_a_repository_do_nothing(
    tmp_path: Path, fetcher: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned = tmp_path / "owned"
    script = tmp_path / "evil.sh"
    script.write_text(EVIL.format(owned))
    script.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        f'[filter "lfs"]\n smudge = {script}\n process = {script}\n required = true\n[core]\n fsmonitor = {script}\n'
        f" hooksPath = {tmp_path}/hooks\n[diff]\n external = {script}\n"
    )
    (tmp_path / "hooks").mkdir()
    for hook in ("post-checkout", "reference-transaction", "post-merge"):
        (tmp_path / "hooks" / hook).write_text(EVIL.format(owned))
        (tmp_path / "hooks" / hook).chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    attributes = "* filter=lfs text eol=crlf ident working-tree-encoding=UTF-16\n"
    files = {
        ".gitattributes": attributes,
        ".lfsconfig": "[lfs]\nurl = http://127.0.0.1:1/\n",
        "a.txt": "$Id$\n",
        "manifest.json": "{}",
    }
    made = repository(tmp_path / "dice")
    entries = [("100644", name, made.blob(text.encode())) for name, text in sorted(files.items())]
    made.commit_tree(made.tree(*entries), tag="v0.1.0")
    owned.unlink(missing_ok=True)  # the author's own git may do as its settings say
    raw = digest_commit(made.folder, "v0.1.0")
    fetcher.checkout(made.url, "v0.1.0", tmp_path / "out")
    assert digest(tmp_path / "out") == raw
    assert not owned.exists()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda repo: repo.tree(("160000", "sub", git(repo.folder, "rev-parse", "HEAD"))),
        lambda repo: repo.tree(("120000", "up", repo.blob(b"/etc/passwd"))),
        lambda repo: repo.tree(("100644", "../../evil.py", repo.blob(b"x"))),
        lambda repo: repo.tree(("100644", ".gitmodules", repo.blob(b'[submodule "x"]\n url = --upload-pack=id\n'))),
    ],
)
def test_nothing_of_a_refused_tree_reaches_the_disk(
    repo: Repository, fetcher: Git, tmp_path: Path, spoil: Callable[[Repository], str]
) -> None:
    repo.commit_tree(spoil(repo), tag="v6.6.6")
    with pytest.raises(UnsafePackageError):
        fetcher.checkout(repo.url, "v6.6.6", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert fetcher.checkout(repo.url, "v0.1.0", tmp_path / "fine").tag == "v0.1.0"


def test_a_bomb_never_lands_on_the_disk(repo: Repository, tmp_path: Path) -> None:
    repo.commit({"bomb": b"\0" * 30_000_000}, tag="v6.6.6")
    with pytest.raises(UnsafePackageError, match=r"'bomb' has 28\.6 MiB"):
        Git(tmp_path / "cache").checkout(repo.url, "v6.6.6", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert sum(path.stat().st_size for path in (tmp_path / "cache").rglob("*") if path.is_file()) < 1_000_000


def test_a_transfer_that_is_too_large_is_cut_off(repo: Repository, tmp_path: Path) -> None:
    repo.commit({"noise": os.urandom(3_000_000)}, tag="v6.6.6")
    with pytest.raises(UnsafePackageError, match="larger than a package may be"):
        Git(tmp_path / "cache", limits=Limits(pack=1_000_000)).checkout(repo.url, "v6.6.6", tmp_path / "out")
    assert sum(path.stat().st_size for path in (tmp_path / "cache").rglob("*") if path.is_file()) < 2_000_000


def test_tags_that_would_be_options_or_paths_are_not_seen(repo: Repository, fetcher: Git) -> None:
    packed = repo.folder / ".git" / "packed-refs"
    commit = git(repo.folder, "rev-parse", "HEAD")
    packed.write_text(f"{commit} refs/tags/--upload-pack=id\n{commit} refs/tags/v9.0.0\n")
    assert [tag.name for tag in fetcher.tags(repo.url)][-1] == "v9.0.0"
    with pytest.raises(PkgError):
        fetcher.tags("--upload-pack=touch owned")
    with pytest.raises(PkgError):
        fetcher.tags("ext::sh -c id")


# Servers.


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Served, Repository]]:
    made = repository(tmp_path / "served" / "dice", tag="v0.1.0")
    made.commit({"plugin.py": "x = 2\n"}, tag="v0.2.0")
    with serving(tmp_path / "served", login=("ann", "s3cret/@")) as server:
        yield server, made


def test_a_login_in_the_url_is_used_and_never_shown(
    served: tuple[Served, Repository], fetcher: Git, tmp_path: Path
) -> None:
    server, _ = served
    url = f"{server.url}/dice/.git"
    with_login = url.replace("//", "//ann:s3cret%2F%40@")
    with pytest.raises(SourceError, match="without a login"):
        fetcher.tags(url)
    with pytest.raises(SourceError, match="without a login") as wrong:
        fetcher.tags(url.replace("//", "//ann:wr0ng@"))
    assert "wr0ng" not in str(wrong.value)
    assert [tag.name for tag in fetcher.tags(with_login)] == ["v0.1.0", "v0.2.0"]
    fetcher.checkout(with_login, "v0.2.0", tmp_path / "out")
    everything = [path for path in tmp_path.rglob("*") if path.is_file() and "served" not in path.parts]
    assert not [path for path in everything if b"s3cret" in path.read_bytes()]


def test_a_login_goes_to_its_host_alone(tmp_path: Path, fetcher: Git) -> None:
    """A server that redirects elsewhere gets no second host to hand the login to."""
    repository(tmp_path / "served" / "dice", tag="v0.1.0")
    with (
        serving(tmp_path / "served", login=("eve", "x")) as thief,
        serving(tmp_path / "served", redirect=thief.url.replace("127.0.0.1", "localhost")) as server,
    ):
        with pytest.raises(SourceError):
            fetcher.tags(f"{server.url}/dice/.git".replace("//", "//ann:s3cret@"))
        assert thief.logins == []


def test_a_server_that_knows_no_depth_is_read_whole(tmp_path: Path, fetcher: Git) -> None:
    made = repository(tmp_path / "served" / "dice", tag="v0.1.0")
    git(made.folder, "update-server-info")
    with serving(tmp_path / "served", dumb=True) as server:
        got = fetcher.checkout(f"{server.url}/dice/.git", "v0.1.0", tmp_path / "out")
    assert got.commit == git(made.folder, "rev-parse", "HEAD")


@contextmanager
def silent_server() -> Iterator[str]:
    """Take connections and never answer."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        held: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    held.append(listening.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/dice.git"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(5)
        for one in held:
            one.close()


def test_a_server_that_never_answers_costs_its_time_and_no_more(tmp_path: Path) -> None:
    with silent_server() as url, pytest.raises(SourceError, match=r"too slow: git was not done after 0\.3 s"):
        Git(tmp_path / "cache", timeout=0.3).tags(url)


def test_a_host_that_is_not_there_is_told_in_plain_words(fetcher: Git) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(SourceError, match="can't be reached; check the network"):
        fetcher.tags(f"http://127.0.0.1:{port}/dice")
    with pytest.raises(SourceError, match="no such repository"):
        fetcher.tags("file:///nowhere/at/all")


def test_a_machine_without_git_is_told_so(fetcher: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SourceError, match="git is not installed"):
        fetcher.tags("file:///srv/dice")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_repository_of_another_user_is_told_how_to_be_trusted(repo: Repository, fetcher: Git) -> None:
    for path in (repo.folder / ".git", *(repo.folder / ".git").rglob("*")):
        os.chown(path, 12345, 12345)
    with pytest.raises(SourceError, match=rf"safe\.directory {repo.folder}"):
        fetcher.tags(repo.url)


@pytest.mark.parametrize(
    "said, kind",
    [
        ("fatal: write error: No space left on device", "full"),
        ("error: object file is corrupt\nfatal: fsck error in packed object", "unsafe"),
        ("ssh: Could not resolve hostname x: Name or service not known", "offline"),
        ("git@x: Permission denied (publickey).\nfatal: Could not read from remote", "denied"),
        ("Host key verification failed.", "denied"),
        ("fatal: Out of memory, malloc failed (tried to allocate 99 bytes)", "large"),
        ("remote: Repository not found.", "absent"),
        ("fatal: the remote end hung up", "other"),
    ],
)
def test_gits_last_words_say_what_stood_in_the_way(said: str, kind: str) -> None:
    failed = failure(said, 128)
    assert failed.kind == kind
    with pytest.raises(PkgError, match=r"https://example\.org/dice"):
        explain("https://ann:s3cret@example.org/dice", failed)


def test_what_a_server_says_is_shown_without_its_escape_codes(tmp_path: Path, fetcher: Git) -> None:
    made = repository(tmp_path / "served" / "dice", tag="v0.1.0")
    greeting = b"\x1b[2J\x1b]0;owned\x07 come in"
    with serving(tmp_path / "served", says=greeting) as server, pytest.raises(SourceError) as refused:
        fetcher.tags(f"{server.url}/dice/.git")
    assert made.folder.exists()
    assert "come in" in str(refused.value)
    assert not set(str(refused.value)) & {"\x1b", "\x07"}


def test_the_surroundings_do_not_lead_git_astray(
    repo: Repository, fetcher: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As inside a hook of another repository, whose GIT_DIR and index would be ours."""
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "/nowhere/evil")
    fetcher.checkout(repo.url, "v0.2.0", tmp_path / "out")
    assert stat.S_IMODE((tmp_path / "out" / "plugin.py").stat().st_mode) & 0o111 == 0
