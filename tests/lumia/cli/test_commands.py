"""What holds for the `lumia` command as a whole: help, exit codes, streams, speed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import lumia
from lumia.cli.contributed import commands
from lumia.cli.failing import told_as_json
from tests.lumia.cli.conftest import Cli

CORE = ("adapters", "handlers", "init", "plugins", "start")


def test_the_version_is_that_of_the_package(cli: Cli) -> None:
    assert cli("--version").out == f"lumia {lumia.__version__}\n"


def test_help_lists_the_commands_of_core_backend_and_plugins(cli: Cli) -> None:
    cli.plugin("echo", "raise RuntimeError", commands={"echo": "Say it again."})
    listed = cli("--help").out
    for line in ("start ", "handlers ", "up ", "doctor ", "worker ", "send ", "Say it again."):
        assert line in listed, line


def test_help_needs_no_bot_root_and_no_plugin_code(cli: Cli) -> None:
    (cli.root / "config" / "lumia.toml").unlink()
    done = cli("--help")
    assert (done.code, done.err) == (0, "")


def test_help_is_there_before_a_reader_waits(cli: Cli) -> None:
    def seconds() -> float:
        """Return the processor time, which other work on this machine hardly changes."""
        before = os.times()
        cli("--help")
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert min(seconds() for _ in range(5)) < 0.4


def test_help_loads_neither_plugins_nor_servers_nor_models(cli: Cli) -> None:
    code = (
        "import sys\nsys.argv = ['lumia', '--help']\nfrom lumia.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'celery', 'redis', 'psycopg', 'dill', 'starlette', 'pydantic_ai', 'tomlkit', 'handlers'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=cli.root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_without_a_command_the_help_is_shown_as_a_usage_error(cli: Cli) -> None:
    done = cli()
    assert done.code == 2
    assert "Commands:" in done.out + done.err


def test_an_unknown_command_or_option_is_a_usage_error(cli: Cli) -> None:
    assert (cli("nope").code, cli("start", "--nope").code) == (2, 2)


@pytest.mark.parametrize(
    "words, meant",
    [("statsu", "'status'"), ("adapters ad", "'add'"), ("plugins relese", "'release'"), ("dead shwo X", "'show'")],
)
def test_a_misspelled_command_is_told_the_nearest(cli: Cli, words: str, meant: str) -> None:
    done = cli(*words.split())
    assert (done.code, f"Did you mean {meant}" in done.err) == (2, True)


@pytest.mark.parametrize(
    "words, code, told",
    [
        ("trace NOPE", 1, "this bot is not running"),
        ("replay NOPE", 1, "this bot is not running"),
        ("dead show NOPE", 1, "this bot is not running"),
        ("nope", 2, "No such command 'nope'"),
        ("trace", 2, "name a run or message"),
    ],
)
def test_with_json_a_failure_is_json_too(cli: Cli, words: str, code: int, told: str) -> None:
    done = cli(*words.split(), "--json")
    assert (done.code, done.json["exit_code"]) == (code, code)
    assert told in done.json["error"] and told in " ".join(done.err.split())


def test_what_answers_in_json_and_fails_answers_once(cli: Cli) -> None:
    done = cli("status", "--json")
    assert (done.code, "error" in done.json) == (1, False), done.err


def test_with_json_a_fault_of_ours_is_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyError), told_as_json(["lanes", "--json"]):
        raise KeyError("lane")
    assert json.loads(capsys.readouterr().out) == {"error": "KeyError: 'lane'", "exit_code": 1}


@pytest.mark.parametrize("command", CORE)
def test_every_core_command_has_help_with_an_example(cli: Cli, command: str) -> None:
    done = cli(command, "--help")
    assert done.code == 0
    assert f"Example:\n    lumia {command}" in done.out


_EVERY_HELP = """
import contextlib, io, json, sys
from lumia.cli import main
shown = []
for words in json.loads(sys.stdin.read()):
    out, sys.argv = io.StringIO(), ["lumia", *words, "--help"]
    with contextlib.redirect_stdout(out):
        try:
            main()
        except SystemExit as ended:
            shown.append([ended.code, out.getvalue()])
print(json.dumps(shown))
"""


def test_every_contributed_command_has_help_with_an_example(cli: Cli) -> None:
    listed, problems = commands()
    assert not problems
    words = [command.name.removesuffix(" *").split() for command in listed]  # a group's own text is listed as `dead *`
    done = subprocess.run(
        [sys.executable, "-c", _EVERY_HELP], cwd=cli.root, input=json.dumps(words), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for named, (code, text) in zip(words, json.loads(done.stdout), strict=True):
        assert (code, "Example:" in text, f"lumia {' '.join(named)}" in text) == (0, True, True), (named, text)


def test_an_expected_error_is_one_line_and_debug_shows_its_traceback(cli: Cli) -> None:
    (cli.root / "config" / "lumia.toml").unlink()
    plain, debug = cli("handlers"), cli("handlers", env={"LUMIA_DEBUG": "1"})
    assert (plain.code, plain.out, plain.err.count("\n"), plain.err[:7]) == (1, "", 1, "error: ")
    assert (debug.code, "Traceback" in debug.err) == (1, True)
