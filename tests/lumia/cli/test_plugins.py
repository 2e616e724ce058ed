"""`lumia plugins`: what is loaded, what is not, and why."""

from __future__ import annotations

from typing import Any

from lumia.cli.plugins import told
from lumia.deployment import Member, Wanted
from lumia.inmemory import InMemoryTransport
from lumia.loading import FOLDER
from tests.lumia.cli.conftest import Cli, Done


def row(done: Done, name: str) -> dict[str, Any]:
    return next(row for row in done.json if row["name"] == name)


def test_a_loaded_plugin_has_a_place_and_a_version(lean: Cli) -> None:
    lean.plugin("good", "import lumia\n")
    done = lean("plugins", "--json")
    assert done.code == 0
    expected = {"name": "good", "place": "plugins/good", "version": "0.0.0", "state": "loaded", "reason": ""}
    assert row(done, "good") == {**expected, "tools": []}


def test_a_plugin_is_listed_with_its_tools(lean: Cli) -> None:
    code = """
import lumia


@lumia.mcp.tool("shop", "price", description="The price of a thing")
def price(thing: str) -> dict:
    return {}
"""
    lean.plugin("shop", code)
    assert row(lean("plugins", "--json"), "shop")["tools"] == ["shop.price"]
    lines = lean("plugins").out.splitlines()
    assert any(line.startswith("shop ") and "loaded" in line and "shop.price" in line for line in lines)


def test_a_failed_plugin_is_told_with_file_and_line_and_the_exit_code(lean: Cli) -> None:
    lean.plugin("broken", "import lumia\n\n1 / 0\n")
    done = lean("plugins", "--json")
    assert (done.code, row(done, "broken")["state"]) == (1, "failed")
    assert "plugins/broken/plugin.py:3" in row(done, "broken")["reason"]


def test_a_broken_manifest_is_a_failure_too(lean: Cli) -> None:
    (lean.plugin("odd", "") / "manifest.json").write_text("{")
    done = lean("plugins", "--json")
    assert (done.code, row(done, "odd")["state"]) == (1, "failed")
    assert "manifest.json" in row(done, "odd")["reason"]


def test_a_disabled_plugin_is_listed_as_such(cli: Cli) -> None:
    cli.plugin("tired", "1 / 0\n")
    (cli.root / "config" / "lumia.toml").write_text('[plugins]\ndisabled = ["tired"]\n')
    done = cli("plugins", "--json")
    assert (done.code, row(done, "tired")["state"], row(done, "tired")["reason"]) == (0, "disabled", "")


def test_what_the_processes_of_a_bot_work_with_is_told_in_sentences() -> None:
    deployments = InMemoryTransport().deployments()
    assert told(deployments) == []
    deployments.attend(Member("a"))
    deployments.begin(Wanted({}), 60)
    assert told(deployments) == ["deployment 1 is being prepared: 0 of 1 processes are ready, waiting for a"]
    deployments.answer(1, "a", "ready")
    assert told(deployments) == ["deployment 1 is at work, but not yet in a"]
    deployments.attend(Member("a", active=1))
    deployments.begin(Wanted({}), 60)
    deployments.answer(2, "a", "failed", ("plugin dice (import, plugins/dice/plugin.py:7): \x1b[31mno",))
    assert told(deployments) == [
        "deployment 1 is at work",
        "deployment 2 was rolled back:",
        "  a: plugin dice (import, plugins/dice/plugin.py:7): no",
    ]


def test_a_plugin_that_ends_its_process_is_named_left_out_and_released(cli: Cli) -> None:
    cli.plugin("bad", "import os\nos._exit(5)\n")
    cli.plugin("good", "import lumia\n")
    done = cli("plugins", "--json")
    assert done.code == 1
    assert [row(done, name)["state"] for name in ("bad", "good")] == ["failed", "loaded"]
    assert "ended during its import: exit code 5" in row(done, "bad")["reason"]
    (mark,) = (cli.root / FOLDER).glob("bad.*")
    for number in (1, 2):
        (mark.parent / f"bad.{number}-x-1.json").write_bytes(mark.read_bytes())
    again = cli("plugins", "--json")
    assert row(again, "bad")["state"] == "quarantined"
    assert "lumia plugins release bad" in row(again, "bad")["reason"]
    assert cli("plugins", "release", "bad").code == 0
    assert not list((cli.root / FOLDER).glob("bad.*"))
