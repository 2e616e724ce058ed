"""What holds for `pkg` as a whole: help, exit codes, streams, and what it loads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lumia
from lumia.cli.pkg.app import COMMANDS, build
from tests.lumia.cli.conftest import Cli
from tests.lumia.cli.pkg.conftest import Pkg
from tests.support.plugin_repos import Repository


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_an_example(command: str) -> None:
    shown = CliRunner().invoke(build([command]), [command, "--help"])
    assert shown.exit_code == 0
    assert "\n  Example:\n    pkg " in shown.stdout


def test_the_list_of_commands_says_the_short_forms() -> None:
    shown = CliRunner().invoke(build([]), ["--help"]).stdout
    for line in (*COMMANDS, "key", "dev", "pkg -S NAME[@TAG]", "pkg -Qu", "Exit codes"):
        assert line in shown, line


def test_the_version_is_that_of_the_package(pkg: Pkg) -> None:
    assert pkg("-V").out == f"pkg {lumia.__version__}\n"


def test_lumia_pkg_is_the_same_command(pkg: Pkg) -> None:
    done = Cli(pkg.root)("pkg", "-Ql", "hello")
    assert (done.code, "plugins/hello/manifest.json" in done.out) == (0, True)


def test_wrong_usage_is_2_and_a_failure_1_with_one_line(pkg: Pkg) -> None:
    assert pkg("-Syu").code == 2
    wrong = pkg.real("install")
    assert (wrong.code, "Missing argument" in wrong.err) == (2, True)
    failed = pkg("-R", "nobody", "--yes")
    assert (failed.code, failed.out, failed.err.count("\n")) == (1, "", 1)
    assert failed.err.startswith("error: nobody is not installed")


@pytest.mark.parametrize(
    "args, code, told",
    [
        (("-R", "nobody", "--json"), 1, "nobody is not installed"),
        (("--json", "-Syu"), 2, "here it is `pkg -U`"),
        (("install", "--json"), 2, "Missing argument"),
        (("nothing", "--json"), 2, "No such command"),
        (("key", "show", "nobody", "--json"), 1, "no key is called 'nobody'"),
    ],
)
def test_with_json_a_failure_is_json_too(pkg: Pkg, args: tuple[str, ...], code: int, told: str) -> None:
    done = pkg(*args)
    assert (done.code, done.json["exit_code"], told in done.json["error"], told in done.err) == (code, code, True, True)


def test_what_answers_in_json_and_fails_answers_once(pkg: Pkg, geo: Repository) -> None:
    pkg("-S", geo.url, "-y")
    (pkg.root / "plugins" / "geo" / "plugin.py").write_text("EDITED = True\n")
    done = pkg("verify", "geo", "--json")
    assert (done.code, done.json[0]["kind"]) == (1, "edited")
    assert pkg("freeze", "--json").json == pkg("freeze").json


def test_a_source_checkout_is_left_alone() -> None:
    done = Pkg(lumia.paths.base())("-S", "./plugins/hello", "--yes")
    assert (done.code, "lumia init" in done.err) == (1, True)


def test_outside_of_a_bot_root_the_way_out_is_told() -> None:
    done = Pkg(Path(os.sep))("-Q")
    assert (done.code, "lumia init" in done.err) == (1, True)


def test_help_loads_nothing_heavy(pkg: Pkg) -> None:
    code = (
        "import sys\nsys.argv = ['pkg', '--help']\nfrom lumia.cli.pkg import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'celery', 'redis', 'httpx', 'cryptography', 'tomlkit', 'lumia.pkg.planning'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=pkg.root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
