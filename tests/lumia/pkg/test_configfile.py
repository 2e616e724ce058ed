"""Texts of settings files across versions: nothing that somebody wrote is lost."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumia.config_schema import Schema, load_schema
from lumia.errors import ConfigError, ConfigValueError
from lumia.pkg import configfile

HERE = Path("config/dice.toml")
OLD = """
[sides]
type = "int"
default = 6
[words]
type = "list[str]"
default = ["a"]
[net.host]
type = "str"
[net.port]
type = "int"
[rooms]
type = "table"
fields = { size = { type = "int" } }
"""
NEW = """
[sides]
type = "int"
default = 20
[net.port]
type = "int"
[loud]
type = "bool"
description = "Whether it shouts"
"""
MINE = """# About us
sides = 8  # ours

words = [
    "one",  # first
    "two = 2",
]

[net]
host = "example.org"
port = 1

[rooms.hall]
size = 3

[rooms."the attic"]
size = 4
"""


def schema(folder: Path, text: str) -> Schema:
    file = folder / "config-schema.toml"
    file.write_text(text, "utf-8")
    return load_schema(file)


def completed(folder: Path, text: str, old: str | None = OLD, new: str = NEW) -> str:
    before = schema(folder, old) if old is not None else None
    return configfile.completed("dice", "2.0.0", HERE, text, schema(folder, new), before, folder)


def test_what_somebody_set_stays_as_it_was_written(tmp_path: Path) -> None:
    text = completed(tmp_path, MINE)
    assert tomllib.loads(text) == {"sides": 8, "loud": False, "net": {"port": 1}}
    assert "# About us\nsides = 8  # ours\n" in text
    assert "loud = false  # Whether it shouts" in text


def test_settings_that_are_gone_stay_as_comments_where_they_were(tmp_path: Path) -> None:
    text = completed(tmp_path, MINE)
    assert '# not used since 2.0.0:\n# words = [\n#     "one",  # first\n#     "two = 2",\n# ]\n' in text
    assert '[net]\n# not used since 2.0.0:\n# host = "example.org"\nport = 1\n' in text
    assert "# [rooms.hall]\n# size = 3\n" in text
    assert '# [rooms."the attic"]\n# size = 4' in text


def test_completing_twice_changes_nothing_more(tmp_path: Path) -> None:
    once = completed(tmp_path, MINE)
    assert completed(tmp_path, once) == once
    assert completed(tmp_path, once, old=NEW) == once


@pytest.mark.parametrize(
    "text",
    ['net = {host = "a", port = 1}\n', 'net.host = "a"\nnet.port = 1\n', '"net"."host" = """\na\n"""\n[net2]\n'],
)
def test_a_setting_in_any_form_is_taken_out_and_kept(tmp_path: Path, text: str) -> None:
    found = completed(tmp_path, text)
    data = tomllib.loads(found)
    assert "host" not in data.get("net", {})
    comments = [line for line in found.splitlines() if line.startswith("#")]
    assert any("host" in line for line in comments)


def test_a_first_installation_takes_nothing_out(tmp_path: Path) -> None:
    text = completed(tmp_path, MINE, old=None)
    assert '\nhost = "example.org"' in text


def test_a_value_that_does_not_fit_any_more_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigValueError, match=r"don't fit dice 2\.0\.0: config/dice\.toml: sides = 'many'"):
        completed(tmp_path, "sides = 'many'\n")


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"config/dice\.toml is no valid TOML"):
        completed(tmp_path, "sides = = 6\n")


values = st.one_of(
    st.integers(-9, 9), st.booleans(), st.text("ab\n\"'#=[] \\", max_size=6), st.lists(st.integers(0, 9), max_size=3)
)


@given(st.dictionaries(st.sampled_from(["one", "two", "one_more", "net"]), values, min_size=1))
def test_retiring_a_setting_leaves_all_others(data: dict[str, Any]) -> None:
    import tomlkit

    text = tomlkit.dumps(data)
    for name in data:
        found = configfile._retired(text, (name,), "gone")
        assert tomllib.loads(found) == {key: value for key, value in data.items() if key != name}


def test_names_are_put_into_disabled_and_taken_out() -> None:
    text = '[plugins]\ndisabled = ["memory_graph", "own"]  # for now\n'
    found = configfile.with_names(text, {"memory-graph": False, "dice": True, "own": True}, HERE)
    assert found == '[plugins]\ndisabled = ["own", "dice"]  # for now\n'
    assert configfile.with_names(found, {"dice": True, "memory-graph": False}, HERE) == found
    assert configfile.disabled(found, HERE) == {"own", "dice"}
    assert configfile.disabled("", HERE) == frozenset()
