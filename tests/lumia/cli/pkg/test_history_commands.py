"""`pkg log`, `rollback`, `freeze`, `sync` and `verify`, and what a killed `pkg` leaves."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from lumia.cli.init import create
from tests.lumia.cli.pkg.conftest import Pkg
from tests.support.plugin_repos import Repository
from tests.support.registry import DATE, Answer, FakeRegistry


def versions(pkg: Pkg) -> dict[str, str]:
    return {row["name"]: row["version"] for row in pkg("-Q", "--json").json}


def test_operations_are_listed_and_rolled_back(pkg: Pkg, geo: Repository) -> None:
    pkg("-S", f"{geo.url}@v0.3.0", "-y")
    pkg("-U", "-y")
    listed = pkg("log", "--json").json
    assert [one["changes"] for one in listed] == [["Upgrade geo 0.3.0 → 0.4.0"], ["Install geo 0.3.0"]]
    assert listed[0]["operation"] in pkg("log").lines[0]
    assert pkg("rollback", "-y").lines == ["downgraded geo 0.4.0 → 0.3.0"]
    assert pkg("rollback", listed[0]["operation"], "-y").lines == ["upgraded geo 0.3.0 → 0.4.0"]
    assert len(pkg("log", "--limit", "2").lines) == 2


def test_a_lock_gives_another_bot_the_same(pkg: Pkg, geo: Repository, tmp_path: Path) -> None:
    pkg("-S", f"{geo.url}@v0.3.0", "-y")
    lock = pkg("freeze").out
    (tmp_path / "other.lock").write_text(lock)
    create(tmp_path / "other")
    other = Pkg(tmp_path / "other")
    assert other("sync", "../other.lock", "-y").lines == ["installed geo 0.3.0"]
    assert other("freeze").out == lock
    empty = json.dumps({"version": 1, "plugins": {}})
    assert other("sync", "-", "-y", stdin=empty).lines == ["removed geo 0.3.0"]
    assert "missing.lock can't be read: No such file or directory" in other("sync", "missing.lock", "-y").err
    for bad, problem in (("{", "Expecting"), ('{"version": 1}', "plugins is missing;"), ("\0", "Expecting value")):
        done = other("sync", "-", "-y", stdin=bad)
        assert (done.code, f"standard input is no lock file: {problem}" in done.err) == (1, True), done.err
        assert "make one with `pkg freeze > plugins.lock`" in done.err and "git -C" not in done.err


def test_ways_back_ask_first_what_was_revoked(pkg: Pkg, geo: Repository, registry: FakeRegistry) -> None:
    pkg("-S", f"{geo.url}@v0.3.0", "-y")
    lock = pkg("freeze").out
    pkg("-U", "-y")
    registry.answers["/revoked"].status = 503
    down = pkg("rollback", "--dry-run")
    assert (down.code, "status 503" in down.err) == (0, True)
    (pkg.root / "data" / "pkg" / "revoked.json").unlink()
    revoked = {"keys": [], "versions": [{"name": "geo", "tag": "v0.3.0", "reason": "it leaks", "date": DATE}]}
    registry.answers["/revoked"] = Answer(revoked)
    for command in (("rollback", "-y"), ("sync", "-", "-y")):
        refused = pkg(*command, stdin=lock)
        assert (refused.code, "revoked (it leaks)" in refused.err) == (1, True)
    assert versions(pkg)["geo"] == "0.4.0"


def test_an_edited_file_is_found_and_kept_from_an_upgrade(pkg: Pkg, geo: Repository) -> None:
    pkg("-S", f"{geo.url}@v0.3.0", "-y")
    assert (pkg("verify").code, pkg("verify", "geo", "--json").json) == (0, [])
    (pkg.root / "plugins" / "geo" / "plugin.py").write_text("EDITED = True\n")
    done = pkg("verify", "--json")
    assert done.code == 1
    assert [(one["plugin"], one["kind"], one["file"]) for one in done.json if one["kind"] != "unmanaged"] == [
        ("geo", "edited", "plugin.py")
    ]
    refused = pkg("-U", "-y")
    assert (refused.code, "edited by hand" in refused.err) == (1, True)
    assert pkg("-U", "-y", "--force").code == 0
    [patch] = (pkg.root / "data" / "pkg" / "undo").rglob("geo.patch")
    assert patch.read_text().startswith("diff --git a/plugin.py b/plugin.py")


def test_what_was_cut_off_is_put_right_by_the_next_command(pkg: Pkg, geo: Repository) -> None:
    staging = pkg.root / "data" / "pkg" / "staging"
    pkg.env["LUMIA_PKG_FAILPOINT"] = "stage=kill"
    assert pkg.real("-S", geo.url, "-y").code == -signal.SIGKILL
    assert list(staging.iterdir())
    pkg.env["LUMIA_PKG_FAILPOINT"] = "swap-in=kill"
    assert pkg.real("-S", geo.url, "-y").code == -signal.SIGKILL
    assert not list(staging.iterdir())
    del pkg.env["LUMIA_PKG_FAILPOINT"]
    done = pkg("-Q", "--json")
    assert (done.json, "cut off" in done.err) == ([], True)
    assert not (pkg.root / "plugins" / "geo").exists()
    assert versions(pkg) == {}
