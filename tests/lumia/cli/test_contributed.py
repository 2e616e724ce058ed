"""Commands of plugins: listed from the manifest, loaded when invoked, never able to break the others."""

from __future__ import annotations

import json

import pytest

from tests.lumia.cli.conftest import Cli

TOOLS = """
from typing import Annotated
import lumia

@lumia.command("tally")
def tally(
    names: Annotated[str, "Whom to count, with commas"], times: int = 1, loud: bool = False, json_: bool = False
) -> int:
    \"\"\"Count names.

    Example: lumia tally ann,bob --times 2
    \"\"\"
    answer = " ".join(names.split(",") * times)
    print(answer.upper() if loud else answer)
    return 0 if names else 1

@lumia.command("tally keep")
def keep(name: str) -> None:
    \"\"\"Keep a name. Example: lumia tally keep ann\"\"\"
"""
LISTED = {"tally": "Count names."}
STORING = """
import lumia

def on_load() -> None:
    lumia.services.provide("clock", object())

@lumia.command("remember")
def remember(value: str) -> None:
    store = lumia.store.of("memo")
    store.set("last", value)
    print(store.get("last"), type(lumia.services.get("clock")).__name__)
"""


def code(text: str) -> str:
    return text[: text.index('@lumia.command("tally keep")')]


def test_parameters_become_arguments_options_and_flags(cli: Cli) -> None:
    cli.plugin("tools", code(TOOLS), commands=LISTED)
    assert cli("tally", "ann,bob", "--times", "2", "--loud").out == "ANN,BOB ANN,BOB".replace(",", " ") + "\n"


def test_its_help_shows_its_docstring_and_parameters(cli: Cli) -> None:
    cli.plugin("tools", code(TOOLS), commands=LISTED)
    shown = cli("tally", "--help").out
    assert "Usage: lumia tally [OPTIONS] {NAMES}" in shown
    for text in ("Whom to count", "--times", "--loud", "--json", "Example: lumia tally ann,bob --times 2"):
        assert text in shown
    assert "--no-loud" not in shown


def test_a_returned_number_is_the_exit_code_and_wrong_usage_is_two(cli: Cli) -> None:
    cli.plugin("tools", code(TOOLS), commands=LISTED)
    assert (cli("tally", "").code, cli("tally").code, cli("tally", "a", "--times", "x").code) == (1, 2, 2)


def test_arguments_after_a_double_dash_reach_the_command_as_they_are(cli: Cli) -> None:
    cli.plugin("tools", code(TOOLS), commands=LISTED)
    assert cli("tally", "--", "--times").out == "--times\n"


def test_a_command_finds_its_plugin_started_with_store_and_services(bot: Cli) -> None:
    bot.plugin("memo", STORING, commands={"remember": "Remember."}, provides=["clock"])
    assert bot("remember", "milk").out == "milk object\n"


def test_a_command_that_needs_a_running_bot_says_so_in_one_line(cli: Cli) -> None:
    cli.plugin("memo", STORING, commands={"remember": "Remember."}, provides=["clock"])
    done = cli("remember", "milk")
    assert (done.code, done.out) == (1, "")
    assert "lumia up" in done.err.splitlines()[-1]


def test_a_broken_plugin_breaks_only_its_own_command(cli: Cli) -> None:
    cli.plugin("broken", "1 / 0\n", commands={"crash": "Never works."})
    done = cli("crash")
    assert (done.code, "Traceback" in done.err) == (1, False)
    assert "plugins/broken/plugin.py:1" in done.err
    assert cli("handlers").code == 0


def test_a_broken_manifest_is_told_where_its_command_would_be_looked_for(cli: Cli) -> None:
    (cli.plugin("odd", "") / "manifest.json").write_text("{")
    assert "plugin 'odd' offers no commands" in cli("--help").err
    assert "odd" not in cli("handlers", "--help").err


def test_a_listed_command_that_nothing_marks_is_an_error_of_its_plugin(cli: Cli) -> None:
    cli.plugin("empty", "import lumia\n", commands={"ghost": "Nobody there."})
    done = cli("ghost")
    assert (done.code, "ghost" in done.err) == (1, True)


def test_a_command_of_the_core_or_of_an_earlier_plugin_is_not_replaced(cli: Cli) -> None:
    cli.plugin("bad", "1 / 0\n", commands={"start": "Mine now.", "up": "Mine, too."})
    listed = cli("--help")
    assert "Mine" not in listed.out
    assert "which is a command of the core" in listed.err
    assert "both offer `lumia up`" in listed.err


def test_a_disabled_plugin_offers_nothing(cli: Cli) -> None:
    cli.plugin("tools", code(TOOLS), commands=LISTED)
    (cli.root / "config" / "lumia.toml").write_text('[plugins]\ndisabled = ["tools"]\n')
    assert "tally" not in cli("--help").out


def test_an_unreadable_lumia_toml_leaves_the_commands_listed(cli: Cli) -> None:
    (cli.root / "config" / "lumia.toml").write_text("[lumia\n")
    done = cli("--help")
    assert (done.code, "up " in done.out, "lumia.toml" in done.err) == (0, True, True)


def test_a_backend_without_commands_is_told(cli: Cli) -> None:
    (cli.root / "config" / "lumia.toml").write_text('[lumia]\nbackend = "elsewhere"\n')
    done = cli("--help")
    assert (done.code, "backend 'elsewhere' offers no commands" in done.err) == (0, True)


def test_the_backends_list_names_exactly_the_functions_it_marks() -> None:
    import tasks.commands
    from lumia.marks import marks_of
    from lumia.paths import base

    marked = {mark.id for mark, _ in marks_of(tasks.commands) if mark.kind == "command"}
    listed = json.loads((base() / "tasks" / "commands.json").read_text())
    assert {name for name in listed if not name.endswith(" *")} == marked
    groups = {name.rpartition(" ")[0] for name in marked if " " in name}
    assert {name.removesuffix(" *") for name in listed if name.endswith(" *")} == groups


@pytest.mark.parametrize("group", ["dead", "effects", "journal", "worker"])
def test_the_help_of_a_group_says_what_it_is_for_and_shows_an_example(cli: Cli, group: str) -> None:
    shown = cli(group, "--help").out
    assert "Commands that begin with" not in shown
    assert f"Example:\n    lumia {group} " in shown


def test_a_plugin_says_what_its_group_of_commands_is_for(cli: Cli) -> None:
    code = 'import lumia\n\n@lumia.command("tally keep")\ndef keep() -> int:\n    return 0\n'
    about = {"tally *": "Counts of names. Example: lumia tally keep ann", "tally keep": "Keep one."}
    cli.plugin("tally", code, commands=about)
    shown = cli("tally", "--help").out
    assert "Counts of names." in shown and "Example:\n    lumia tally keep ann" in shown and "*" not in shown
    assert cli("tally", "keep").code == 0
