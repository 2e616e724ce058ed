"""Installing, upgrading and removing with the real command, on real repositories and a real registry."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from lumia.pkg import deploying, layers
from lumia.pkg.deploying import Outcome
from lumia.pkg.signing import fingerprint, sign_tag
from tests.lumia.cli.pkg.conftest import COMMAND, Pkg
from tests.support.plugin_repos import Repository, repository
from tests.support.registry import FakeRegistry
from tests.support.shelf import in_place_of_pip
from tests.support.wait import until
from tests.support.wheels import wheels


def installed(pkg: Pkg) -> dict[str, str]:
    lock = json.loads((pkg.root / "plugins" / "plugins.lock").read_text())
    return {name: entry["version"] for name, entry in lock["plugins"].items()}


def commits(pkg: Pkg) -> list[str]:
    done = subprocess.run(
        ["git", "log", "--format=%s"], cwd=pkg.root / "plugins", capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_a_name_is_installed_with_what_it_needs_and_removed_again(pkg: Pkg, registry: FakeRegistry) -> None:
    done = pkg.real("-S", "weather", "--yes")
    assert (done.code, done.lines) == (0, ["installed geo 0.4.0", "installed weather 1.0.0"])
    assert "weather| the sun shines" in done.err
    assert "the change takes effect at its next start" in done.err
    assert installed(pkg) == {"geo": "0.4.0", "weather": "1.0.0"}
    assert tomllib.loads((pkg.root / "config" / "geo.toml").read_text()) == {"units": "metric"}
    assert len(commits(pkg)) == 1

    done = pkg.real("-Q", "--json")
    assert [(row["name"], row["version"], row["status"], len(row["commit"])) for row in done.json] == [
        ("geo", "0.4.0", "installed", 40),
        ("weather", "1.0.0", "installed", 40),
    ]
    assert set(done.json[0]) == {"name", "version", "commit", "status", "source"}

    refused = pkg.real("-R", "geo", "--yes")
    assert (refused.code, "weather needs geo" in refused.err) == (1, True)
    done = pkg.real("-R", "weather", "--yes")
    assert (done.lines, "loads it" in done.err) == (["removed weather 1.0.0"], False)
    assert pkg.real("-R", "geo", "--purge", "-y").code == 0
    assert installed(pkg) == {}
    assert not (pkg.root / "plugins" / "geo").exists() and not (pkg.root / "config" / "geo.toml").exists()
    assert len(commits(pkg)) == 3


def test_an_address_is_installed_while_the_registry_is_down_and_upgraded_from_its_tags(
    pkg: Pkg, geo: Repository
) -> None:
    pkg.env["LUMIA_REGISTRY_URL"] = "http://127.0.0.1:9"
    done = pkg("-S", f"{geo.url}@v0.3.0", "--yes", "--json")
    assert done.code == 0, done.err
    assert [(one["kind"], one["name"], one["to"]["tag"]) for one in done.json["actions"]] == [
        ("install", "geo", "v0.3.0")
    ]
    assert done.json["operation"] and len(done.json["commit"]) == 40
    assert "can't be reached" in done.err

    (pkg.root / "config" / "geo.toml").write_text('units = "old"\n')
    dry = pkg("-U", "--dry-run")
    assert (dry.code, installed(pkg)) == (0, {"geo": "0.3.0"})
    assert dry.lines[1].split()[:4] == ["upgrade", "geo", "0.3.0", "0.4.0"]
    assert pkg("-U", "--yes").lines == ["upgraded geo 0.3.0 → 0.4.0"]
    assert tomllib.loads((pkg.root / "config" / "geo.toml").read_text()) == {"units": "old"}
    assert "nothing to do" in pkg("-U").err


def test_a_folder_is_installed_and_turned_off_and_on(pkg: Pkg, geo: Repository) -> None:
    (pkg.root / "geo").symlink_to(geo.folder)
    assert pkg("-S", "./geo", "--yes").lines == ["installed geo 0.4.0"]
    assert pkg("disable", "geo", "--dry-run").lines == ["change   plugin  from", "disable  geo     0.4.0"]
    assert pkg("disable", "geo", "--yes").lines == ["disabled geo"]
    assert pkg("-Q", "--json").json[0]["status"] == "disabled"
    assert tomllib.loads((pkg.root / "config" / "lumia.toml").read_text())["plugins"]["disabled"] == ["geo"]
    assert pkg("enable", "geo").lines == ["enabled geo"]
    assert "no plugin is named 'xyz'; `pkg -Q --all` lists what is" in pkg("enable", "xyz").err


def test_asking_for_what_came_as_a_dependency_marks_it_as_wanted(pkg: Pkg, registry: FakeRegistry) -> None:
    pkg("-S", "weather", "-y")
    assert pkg("-S", "geo").lines == ["marked geo as asked for"], "nothing to ask about: no file changes"
    assert "nothing to do" in pkg("-S", "geo").err
    assert "nothing needs geo" not in pkg("-R", "weather", "--dry-run").err
    assert pkg("rollback", "-y").lines == ["marked geo as a dependency"]
    assert "nothing needs geo any more" in pkg("-R", "weather", "--dry-run").err
    assert pkg("-S", "geo", "--json").json["actions"][0]["kind"] == "mark"
    assert pkg("-Q", "--json").json[0]["status"] == "installed"
    assert commits(pkg)[0] == "Mark geo 0.4.0"


def test_a_first_key_is_told_as_the_normal_thing_it_is(pkg: Pkg, tmp_path: Path) -> None:
    key = Ed25519PrivateKey.from_private_bytes(b"a" * 32)
    signed = repository(tmp_path / "repositories", "signed")
    for tag in ("v1.0.0", "v1.1.0"):
        signed.release(tag)
        sign_tag(signed.folder, tag, key, "signed")
    done = pkg("-S", f"{signed.url}@v1.0.0", "-y")
    signer = fingerprint(key.public_key().public_bytes_raw())
    told = f"signed v1.0.0 is signed by the key {signer}, from now on the only one accepted for signed"
    assert (done.code, told in done.err, "warning" in done.err) == (0, True, False), done.err
    assert "only one accepted" not in pkg("-U", "--dry-run").err


def test_without_a_terminal_a_change_needs_a_yes(pkg: Pkg, geo: Repository) -> None:
    done = pkg("-S", geo.url)
    assert (done.code, "--yes" in done.err, "install" in done.err) == (1, True, True)
    assert not (pkg.root / "plugins" / "geo").exists()
    assert not list((pkg.root / "data" / "pkg" / "staging").iterdir())


@pytest.mark.parametrize("answer, code", [("y\n", 0), ("\x03", 130)])
def test_on_a_terminal_it_asks(pkg: Pkg, geo: Repository, answer: str, code: int) -> None:
    """Ctrl-C at the question changes nothing and is 130."""
    done, said = on_a_terminal(pkg, answer, "-S", geo.url)
    assert done == code, said
    assert ("Go on?" in said, (pkg.root / "plugins" / "geo").is_dir()) == (True, code == 0)


def test_ctrl_c_in_a_hook_puts_everything_back_and_says_so(pkg: Pkg, tmp_path: Path) -> None:
    slow = repository(tmp_path / "repositories", "slow")
    slow.release("v1.0.0", {"hooks/pre_install.py": "import time\nprint('Go on?', flush=True)\ntime.sleep(60)\n"})
    code, said = on_a_terminal(pkg, "\x03", "-S", slow.url, "-y")
    assert (code, (pkg.root / "plugins" / "slow").exists()) == (130, False)
    told = [said.index(text) for text in ("interrupted", "putting everything back", "everything is as it was before")]
    assert told == sorted(told) and "KeyboardInterrupt" not in said


def on_a_terminal(pkg: Pkg, answer: str, *args: str) -> tuple[int, str]:
    """Run the command on a terminal of its own and type `answer` at the question."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(pkg.root)
        os.execve(COMMAND[0], [*COMMAND, *args], {**pkg.variables(), "TERM": "dumb"})
    said = b""
    while part := _read(terminal):
        said += part
        if b"Go on?" in said and answer:
            os.write(terminal, answer.encode())
            answer = ""
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    os.close(terminal)
    return code, said.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # Linux: the other side is closed
        return b""


def test_a_failing_hook_leaves_everything_as_it_was(pkg: Pkg, tmp_path: Path) -> None:
    bad = repository(tmp_path / "repositories", "bad")
    bad.release("v1.0.0", {"hooks/pre_install.py": "raise SystemExit('no licence key')\n"})
    before = commits(pkg) if (pkg.root / "plugins" / ".git" / "refs" / "heads" / "main").exists() else []
    done = pkg("-S", bad.url, "--yes")
    assert (done.code, "no licence key" in done.err) == (1, True)
    assert not (pkg.root / "plugins" / "bad").exists() and not (pkg.root / "config" / "bad.toml").exists()
    assert not before


def test_python_packages_come_and_go_with_the_plugin_that_needs_them(
    pkg: Pkg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def deploy(*args: Any, wait: float, **more: Any) -> Outcome:
        waits.append(wait)
        return Outcome("stopped")

    monkeypatch.setattr(deploying, "deploy", deploy)
    needs = repository(tmp_path / "repositories", "needs")
    needs.release("v1.0.0", python_dependencies=["layered==1.0"])
    with in_place_of_pip(wheels(tmp_path / "wheels", ("layered", "1.0"), ("layered", "2.0"))):
        assert pkg("-S", needs.url, "--yes").code == 0
        before = layers.current(pkg.root)
        assert before is not None and before.packages == (layers.Package("layered", "1.0"),)
        hook = {"hooks/post_upgrade.py": "raise SystemExit('no')\n"}
        needs.release("v2.0.0", hook, python_dependencies=["layered==2.0"])
        assert pkg("-U", "needs", "--yes").code == 1
        assert layers.current(pkg.root) == before
        assert pkg("-R", "needs", "--yes").code == 0
    assert layers.current(pkg.root) is None
    # Machines that follow have to build them, too; removing a plugin builds nothing.
    assert waits[0] > waits[1] and int(waits[1]) == deploying.WAIT_SECONDS


def test_two_at_once_both_succeed_one_after_the_other(pkg: Pkg, geo: Repository, tmp_path: Path) -> None:
    slow = repository(tmp_path / "repositories", "slow")
    gate, inside = tmp_path / "gate", tmp_path / "inside"
    hook = f"import os, pathlib\npathlib.Path({str(inside)!r}).touch()\nopen({str(gate)!r}).read()\n"
    slow.release("v1.0.0", {"hooks/post_install.py": hook})
    os.mkfifo(gate)
    first = subprocess.Popen([*COMMAND, "-S", slow.url, "-y"], cwd=pkg.root, env=pkg.variables(),
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    until(inside.exists, what="the first one is at its hook")
    hasty = pkg("-S", geo.url, "-y", "--no-wait")
    assert (hasty.code, "--no-wait" in hasty.err) == (1, True)
    second = subprocess.Popen([*COMMAND, "-S", geo.url, "-y"], cwd=pkg.root, env=pkg.variables(),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert second.stderr is not None
    waited = next(line for line in second.stderr if "wait" in line)
    assert str(first.pid) in waited
    gate.write_text("")
    _, told = first.communicate(timeout=30)
    rest = second.communicate(timeout=30)[1]
    assert (first.returncode, second.returncode) == (0, 0), (told, rest)
    assert installed(pkg) == {"geo": "0.4.0", "slow": "1.0.0"}
