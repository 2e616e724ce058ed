"""`pkg -Q`, `-Ql` and `-Qu`."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.lumia.cli.pkg.conftest import Pkg
from tests.support.plugin_repos import Repository
from tests.support.registry import FakeRegistry


def test_an_empty_bot_says_where_to_look(pkg: Pkg) -> None:
    assert (pkg("-Q").out, "pkg -Ss" in pkg("-Q").err) == ("", True)
    assert pkg("-Q", "--json").json == []


def test_all_shows_what_comes_with_lumia_and_what_lies_there(pkg: Pkg) -> None:
    rows = {row["name"]: row for row in pkg("-Q", "--all", "--json").json}
    assert rows["hello"] | {"version": ""} == {
        "name": "hello",
        "version": "",
        "commit": "",
        "status": "installed",
        "source": "plugins/hello",
    }
    assert rows["heartflow"]["source"] == "handlers/heartflow"
    assert pkg("-Q", "hello", "--json").json == [rows["hello"]]
    wrong = pkg("-Q", "hello", "helo")
    assert (wrong.code, wrong.out, "helo is not installed; did you mean 'hello'?" in wrong.err) == (1, "", True)


def test_one_whose_folder_is_gone_is_failed_and_installed_anew(pkg: Pkg, registry: FakeRegistry) -> None:
    assert pkg("-S", "geo", "-y").code == 0
    shutil.rmtree(pkg.root / "plugins" / "geo")
    assert "geo: it has no folder in plugins/ any more; `pkg -S geo` brings it back" in pkg("-Q").err
    assert pkg("-S", "geo", "-y").lines == ["reinstalled geo 0.4.0"]
    assert (pkg.root / "plugins" / "geo" / "plugin.py").exists()


def test_one_that_cannot_be_loaded_is_failed_and_says_why(pkg: Pkg, geo: Repository) -> None:
    assert pkg("-S", geo.url, "-y").code == 0
    (pkg.root / "plugins" / "geo" / "manifest.json").write_text("{")
    done = pkg("-Q", "--json")
    assert done.json[0]["status"] == "failed"
    assert "manifest.json: line 1" in pkg("-Q").err


def test_files_are_listed_as_seen_from_the_bot_root(pkg: Pkg) -> None:
    done = pkg("-Ql", "hello")
    assert "plugins/hello/manifest.json" in done.lines
    assert all((pkg.root / line).is_file() for line in done.lines)
    assert pkg("-Ql", "hello", "--json").json == done.lines
    assert pkg("-Ql").lines == []
    wrong = pkg("-Ql", "helo")
    assert (wrong.code, "did you mean 'hello'?" in wrong.err) == (1, True)


def test_what_there_is_a_newer_version_of(pkg: Pkg, registry: FakeRegistry, geo: Repository) -> None:
    assert "latest version" in pkg("-Qu").err
    pkg("-S", "geo@v0.3.0", "-y")
    assert pkg("-Qu", "--json").json == [
        {"name": "geo", "version": "0.3.0", "latest": "0.4.0", "source": geo.url},
    ]
    assert pkg("-Qu").lines[1].split()[:3] == ["geo", "0.3.0", "0.4.0"]


def test_the_commands_own_place_is_the_nearest_bot_root(pkg: Pkg) -> None:
    inside = pkg.root / "plugins" / "hello"
    assert Pkg(inside)("-Ql", "hello").lines == pkg("-Ql", "hello").lines
    assert Pkg(Path("/"), {"LUMIA_ROOT": str(pkg.root)})("-Ql", "hello").code == 0
