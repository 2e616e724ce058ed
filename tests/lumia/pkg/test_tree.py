"""What may be in a package, for a folder and for a commit alike; every way in that a stranger might try."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lumia.errors import PkgError, UnsafePackageError
from lumia.pkg.tree import Limits, check, check_commit, digest, digest_commit
from lumia.pkg.tree_rules import FILE, LINK, Entry, Inspector
from tests.support.repositories import Repository, repository

MANIFEST = '{"name": "dice"}'


def test_a_digest_can_be_computed_with_nothing_but_the_page_about_it(repo: Repository) -> None:
    repo.commit({"plugin.py": "x = 1\n", "hooks/post_install.py": "", "z/ä.txt": b"\r\n\x00"})
    (repo.folder / "run.sh").write_text("#!/bin/sh\n")
    (repo.folder / "run.sh").chmod(0o755)
    (repo.folder / "link").symlink_to("plugin.py")
    lines = []
    for path in ("hooks/post_install.py", "link", "manifest.json", "plugin.py", "run.sh", "z/ä.txt"):
        file = repo.folder / path
        content = os.readlink(file).encode() if file.is_symlink() else file.read_bytes()
        mode = "120000" if file.is_symlink() else "100755" if path == "run.sh" else "100644"
        lines.append(f"{mode} {hashlib.sha256(content).hexdigest()} {path}\n")
    expected = "sha256:" + hashlib.sha256(("lumia-tree-v1\n" + "".join(lines)).encode()).hexdigest()
    assert digest(repo.folder) == expected
    assert digest_commit(repo.folder, repo.commit()) == expected


def test_the_script_on_the_page_computes_the_digest(repo: Repository) -> None:
    page = (Path(__file__).parents[3] / "docs" / "signing.md").read_text("utf-8")
    script = page.partition("```sh\n")[2].partition("```")[0].replace("v1.2.3", "HEAD")
    (repo.folder / "link").symlink_to("plugin.py")
    commit = repo.commit({"a b/ü.txt": "x\n", "a-b": "y", "z.sh": ""})
    done = subprocess.run(["sh", "-c", script], cwd=repo.folder, capture_output=True, text=True, check=True)
    assert digest_commit(repo.folder, commit) == "sha256:" + done.stdout.split()[0]


def test_pythons_cache_and_git_itself_do_not_count(repo: Repository) -> None:
    before = digest(repo.folder)
    repo.write({"__pycache__/plugin.cpython-311.pyc": b"x", "sub/__pycache__/y.pyc": b"x", ".git/new": b"x"})
    assert digest(repo.folder) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "plugin.py").write_text("import os\n"),
        lambda folder: (folder / "plugin.py").chmod(0o755),
        lambda folder: (folder / "plugin.py").rename(folder / "plugin2.py"),
        lambda folder: (folder / "new").touch(),
        lambda folder: (folder / "plugin.py").unlink(),
        lambda folder: ((folder / "plugin.py").unlink(), (folder / "plugin.py").symlink_to("manifest.json")),
    ],
)
def test_any_change_is_another_digest(repo: Repository, change: Callable[[Path], object]) -> None:
    before = digest(repo.folder)
    change(repo.folder)
    assert digest(repo.folder) != before


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.text("abcxyz.-é ", min_size=1, max_size=8).filter(lambda name: name.strip(". ") and name == name.strip()),
        st.tuples(st.binary(max_size=50), st.booleans()),
        max_size=6,
    )
)
def test_a_checkout_and_its_commit_have_the_same_digest(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, tuple[bytes, bool]]
) -> None:
    made = repository(tmp_path_factory.mktemp("digest") / "dice")
    for name, (content, runs) in files.items():
        made.write({f"d/{name}": content})
        (made.folder / "d" / name).chmod(0o755 if runs else 0o644)
    commit = made.commit()
    assert digest(made.folder) == digest_commit(made.folder, commit)


def test_a_plugin_with_links_inside_itself_is_fine(repo: Repository) -> None:
    (repo.folder / "data").mkdir()
    (repo.folder / "data" / "de.txt").write_text("x")
    (repo.folder / "data" / "link").symlink_to("../plugin.py")
    (repo.folder / "again").symlink_to("data/link")
    (repo.folder / "here").symlink_to("data")
    (repo.folder / "through").symlink_to("here/de.txt")
    check(repo.folder)
    check_commit(repo.folder, repo.commit())


@pytest.mark.parametrize(
    "links, reason",
    [
        ({"a": "/etc/passwd"}, "is a link to '/etc/passwd'"),
        ({"a": "../outside"}, "out of the package"),
        ({"a": "d/../../outside"}, "out of the package"),
        ({"a": "b/..", "b": "c/..", "c": ".."}, "out of the package"),
        ({"d/up": "..", "a": "d/up/../etc/passwd"}, "out of the package"),
        ({"d/up": "..", "a": "d/up/up2", "up2": "../x"}, "out of the package"),
        ({"a": "b", "b": "a"}, "round in a circle"),
        ({"a": "a/b"}, "round in a circle"),
        ({"a": ".git/hooks"}, "into .git"),
        ({"a": ".GIT/config"}, "into .git"),
        ({"a": "C:\\Windows"}, "is a link to"),
        ({"a": "x\x1b[2J"}, "U+001B"),
        ({"a": "x" * 300}, "is a link of 300 bytes"),
        ({"manifest.json": "plugin.py"}, "a manifest is a file"),
    ],
)
def test_a_link_out_of_the_package_is_refused(repo: Repository, links: dict[str, str], reason: str) -> None:
    for name, target in links.items():
        (repo.folder / name).parent.mkdir(exist_ok=True)
        (repo.folder / name).unlink(missing_ok=True)
        (repo.folder / name).symlink_to(target)
    commit = repo.commit()
    with pytest.raises(UnsafePackageError) as in_folder:
        check(repo.folder)
    with pytest.raises(UnsafePackageError) as in_commit:
        check_commit(repo.folder, commit)
    assert reason in str(in_folder.value)
    assert str(in_folder.value) == str(in_commit.value)


def entry(repo: Repository, mode: str, name: str | bytes, id: str = "") -> tuple[str, str | bytes, str]:
    return (mode, name, id or repo.blob(b"x"))


@pytest.mark.parametrize(
    "mode, name, reason",
    [
        ("160000", "sub", "is a submodule"),
        ("100644", ".gitmodules", "names submodules"),
        ("120000", ".GitModules", "names submodules"),
        ("100644", ".git", "is git's own"),
        ("100644", ".GIT", "is git's own"),
        ("100644", ".git ", "is git's own"),
        ("100644", "git~1", "is git's own"),
        ("100644", ".g\u200cit", "U+200C"),
        ("100644", "..", "no path inside"),
        ("100644", "../evil.py", "no path inside"),
        ("100644", "/etc/evil", "no path inside"),
        ("100644", "a\\..\\..\\evil", "no path inside"),
        ("100644", "a\x1b[2Jb", "U+001B"),
        ("100644", "a\nb", "U+000A"),
        ("100644", "a\u202eyp.exe", "U+202E"),
        ("100644", b"\xff\xfe", "isn't UTF-8"),
        ("100644", "Plugin.py", "are the same name"),
        ("100644", "ﬁle", "are the same name"),
        ("100644", "plugin.py", "twice"),
        ("100644", "x" * 230, "too long"),
    ],
)
def test_a_tree_that_no_honest_git_makes_is_refused(
    repo: Repository, mode: str, name: str | bytes, reason: str
) -> None:
    plain = [entry(repo, "100644", one, repo.blob(MANIFEST.encode())) for one in ("file", "manifest.json", "plugin.py")]
    commit = repo.commit_tree(repo.tree(*plain, entry(repo, mode, name)), tag="v6.6.6")
    with pytest.raises(UnsafePackageError) as refused:
        check_commit(repo.folder, commit)
    assert reason in str(refused.value)
    assert not set(str(refused.value)) & {"\x1b", "\n", "\u202e"}


def test_a_folder_inside_the_tree_that_is_gits_own_is_refused(repo: Repository) -> None:
    inner = repo.tree(entry(repo, "100755", "post-checkout", repo.blob(b"#!/bin/sh\ntouch owned\n")))
    hooks = repo.tree(("40000", "hooks", inner))
    manifest = entry(repo, "100644", "manifest.json", repo.blob(MANIFEST.encode()))
    for name in (".git", ".Git"):
        commit = repo.commit_tree(repo.tree(("40000", name, hooks), manifest), tag="v1" + name[1])
        with pytest.raises(UnsafePackageError, match="git's own"):
            check_commit(repo.folder, commit)


def test_a_file_and_a_folder_of_one_name_are_refused(repo: Repository) -> None:
    folder = repo.tree(entry(repo, "100644", "evil.py"))
    link = entry(repo, "120000", "d", repo.blob(b"plugin.py"))
    manifest = entry(repo, "100644", "manifest.json", repo.blob(MANIFEST.encode()))
    commit = repo.commit_tree(repo.tree(link, ("40000", "d", folder), manifest), tag="v1")
    with pytest.raises(UnsafePackageError, match="file and a folder at once"):
        check_commit(repo.folder, commit)


def test_folders_that_differ_by_case_alone_are_refused(repo: Repository) -> None:
    commit = repo.commit({"Data/a": "1", "data/b": "2"})
    with pytest.raises(UnsafePackageError, match="are the same name"):
        check_commit(repo.folder, commit)


def test_bytecode_that_hides_behind_the_source_is_refused(repo: Repository) -> None:
    commit = repo.commit({"__pycache__/plugin.cpython-311.pyc": b"evil"})
    with pytest.raises(UnsafePackageError, match="instead of the source"):
        check_commit(repo.folder, commit)
    with pytest.raises(UnsafePackageError, match="instead of the source"):
        check(repo.folder)


def test_a_tree_of_ten_billion_files_is_refused_at_once(repo: Repository) -> None:
    tree = repo.tree(*(entry(repo, "100644", f"f{number}") for number in range(10)))
    for _ in range(9):
        tree = repo.tree(*(("40000", f"d{number}", tree) for number in range(10)))
    commit = repo.commit_tree(tree, tag="v1")
    with pytest.raises(UnsafePackageError, match="more than 5000 files"):
        check_commit(repo.folder, commit)


def test_a_tree_of_ten_billion_empty_folders_is_refused_at_once(repo: Repository) -> None:
    tree = repo.tree()
    for _ in range(10):
        tree = repo.tree(*(("40000", f"d{number}", tree) for number in range(10)))
    commit = repo.commit_tree(tree, tag="v1")
    with pytest.raises(UnsafePackageError, match="more than 5000 folders"):
        check_commit(repo.folder, commit)


def test_a_bomb_is_refused_by_what_it_would_unfold_to(repo: Repository) -> None:
    commit = repo.commit({"zeros.bin": b"\0" * 200_000, "more.bin": b"\0" * 200_001})
    with pytest.raises(UnsafePackageError, match=r"'more\.bin' has 0\.2 MiB; a file of a package has at most 0\.1"):
        check_commit(repo.folder, commit, Limits(file=100_000))
    with pytest.raises(UnsafePackageError, match="come to more than"):
        check(repo.folder, Limits(total=300_000))
    check_commit(repo.folder, commit)


def test_devices_pipes_and_sockets_are_refused(repo: Repository) -> None:
    os.mkfifo(repo.folder / "pipe")
    with pytest.raises(UnsafePackageError, match="device, pipe or socket"):
        check(repo.folder)
    (repo.folder / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as made:
        cwd = os.getcwd()
        os.chdir(repo.folder)
        made.bind("s")
        os.chdir(cwd)
        with pytest.raises(UnsafePackageError, match="device, pipe or socket"):
            digest(repo.folder)


def test_a_program_with_its_owners_rights_is_refused(repo: Repository) -> None:
    (repo.folder / "plugin.py").chmod(0o4755)
    with pytest.raises(UnsafePackageError, match="setuid"):
        check(repo.folder)


def test_a_repository_inside_the_package_is_refused(repo: Repository) -> None:
    repository(repo.folder / "inner")
    with pytest.raises(UnsafePackageError, match="repository inside"):
        check(repo.folder)


@pytest.mark.parametrize("manifest", [None, b"x" * (1024 * 1024 + 1)])
def test_a_package_needs_a_manifest_of_a_sane_size(repo: Repository, manifest: bytes | None) -> None:
    (repo.folder / "manifest.json").unlink()
    if manifest:
        repo.write({"manifest.json": manifest})
    with pytest.raises(UnsafePackageError, match=r"manifest\.json"):
        check(repo.folder)


_PART = st.sampled_from(["a", "b", "..", ".", "A", "c", ".git", ""])
_PATH = st.lists(_PART, min_size=1, max_size=5).map("/".join)


@settings(deadline=None)
@given(st.dictionaries(_PATH, _PATH, max_size=5))
def test_no_link_that_passes_leads_out_as_the_system_follows_it(
    tmp_path_factory: pytest.TempPathFactory, links: dict[str, str]
) -> None:
    inspector = Inspector(Limits())
    try:
        for path, target in links.items():
            inspector.see(Entry(path, LINK, len(target)), lambda target=target: target)  # type: ignore[misc]
        inspector.end(lambda seen: None)
    except PkgError:
        return
    folder = tmp_path_factory.mktemp("links") / "in" / "package"
    folder.mkdir(parents=True)
    for path, target in links.items():
        if target and not (folder / path).is_symlink():
            try:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).symlink_to(target)
            except (FileExistsError, NotADirectoryError):
                continue
    for path in links:
        assert (folder / path).resolve().is_relative_to(folder.resolve())


@given(st.lists(st.text("./a\\", max_size=6), max_size=4))
def test_no_path_that_passes_leaves_the_folder(paths: list[str]) -> None:
    inspector = Inspector(Limits())
    for path in paths:
        try:
            inspector.see(Entry(path, FILE, 1), str)
        except PkgError:
            continue
        assert not path.startswith("/")
        assert ".." not in path.split("/")
