"""`lumia handlers`: the routes, without a running bot."""

from __future__ import annotations

from tests.lumia.cli.conftest import Cli

CODE = """
import lumia

@lumia.pipe.on("tea", priv=7, queue="kitchen")
def brew(content: lumia.Box) -> None:
    lumia.utils.next()
"""


def test_json_gives_one_object_for_each_route(lean: Cli) -> None:
    lean.plugin("tea-house", CODE, queues=["kitchen"])
    rows = [row for row in lean("handlers", "--json").json if row["handler"] == "tea_house.brew"]
    source = "plugins/tea-house/plugin.py:4"
    expected = {"kind": "pipe", "id": "tea", "priv": 7, "handler": "tea_house.brew", "queue": "kitchen"}
    assert rows == [{**expected, "source": source}]


def test_the_handlers_of_one_id_stand_in_the_order_they_run(lean: Cli) -> None:
    marks = [
        ("last", 'event.consumer("tea", priv=900)'),
        ("second", 'event.chain("tea", priv=1)'),
        ("first", 'event.interceptor("tea")'),
        ("low", 'pipe.on("tea", priv=1)'),
        ("high", 'pipe.on("tea", priv=5)'),
        ("high_too", 'pipe.on("tea", priv=5)'),
        ("other", 'pipe.on("milk", priv=-1)'),
    ]
    code = "".join(f"\n@lumia.{mark}\ndef {name}(content: lumia.Box) -> None:\n    ...\n" for name, mark in marks)
    lean.plugin("tea", f"import lumia\n{code}")
    listed = [row["handler"] for row in lean("handlers", "--json").json if row["handler"].startswith("tea.")]
    assert listed == [f"tea.{name}" for name in ("other", "high", "high_too", "low", "first", "second", "last")]


def test_it_lists_the_first_party_handlers_too(cli: Cli) -> None:
    assert any(row["id"] == "msg" for row in cli("handlers", "--json").json)


def test_the_table_on_stdout_has_one_line_for_each_route(cli: Cli) -> None:
    done = cli("handlers")
    assert done.code == 0 and done.out.startswith("kind ")
    assert len(done.out.splitlines()) == 1 + len(cli("handlers", "--json").json)


def test_a_broken_plugin_is_named_with_its_line_and_leaves_the_others(lean: Cli) -> None:
    lean.plugin("good", CODE)
    lean.plugin("broken", "import lumia\n\n1 / 0\n")
    done = lean("handlers", "--json")
    assert done.code == 0
    assert "good.brew" in done.out
    assert "plugins/broken/plugin.py:3" in done.err


def test_what_a_plugin_prints_while_it_is_imported_stays_out_of_the_json(lean: Cli) -> None:
    lean.plugin("chatty", f'print("hello there")\n{CODE}')
    assert [row["handler"] for row in lean("handlers", "--json").json if row["id"] == "tea"] == ["chatty.brew"]
    assert any(row["name"] == "chatty" for row in lean("plugins", "--json").json)
