"""Environment variables over settings files."""

from __future__ import annotations

from pathlib import Path

import pytest

from lumia.config import ConfigStore, field
from lumia.config_env import variable
from lumia.config_schema import declared_schema
from lumia.errors import ConfigValueError

FIELDS = {
    "name": field(str, "n"),
    "rate": field(float, 0.5, max=1),
    "count": field(int, 1),
    "on": field(bool, False),
    "words": field(list[str], ["a"]),
    "numbers": field(list[int]),
    "limits.low": field(int, 1),
    "free": field(dict),
    "sources": field(dict, fields={"token": field(str, secret=True), "n": field(int, 4), "extra": field(dict)}),
}


def opened(root: Path, **environ: str) -> ConfigStore:
    store = ConfigStore(root, environ=environ)
    store.register("my-plugin", declared_schema("my-plugin", FIELDS))
    return store


@pytest.mark.parametrize(
    "name, text, path, value",
    [
        ("NAME", "", "name", ""),
        ("NAME", "[x]", "name", "[x]"),
        ("RATE", "1", "rate", 1.0),
        ("COUNT", " 7 ", "count", 7),
        ("ON", "Yes", "on", True),
        ("ON", "0", "on", False),
        ("WORDS", "x, y,", "words", ["x", "y"]),
        ("WORDS", '["x,y"]', "words", ["x,y"]),
        ("WORDS", "", "words", []),
        ("NUMBERS", "1,2", "numbers", [1, 2]),
        ("LIMITS__LOW", "9", "limits.low", 9),
        ("FREE", "{a = 1}", "free", {"a": 1}),
        ("SOURCES", '{x = {n = 1}}', "sources", {"x": {"token": "", "n": 1, "extra": {}}}),
        ("SOURCES__GITHUB__TOKEN", "abc", "sources", {"github": {"token": "abc", "n": 4, "extra": {}}}),
        ("SOURCES__GITHUB__EXTRA", "{q = 1}", "sources.github.extra", {"q": 1}),
    ],
)  # fmt: skip
def test_a_variable_overrides_the_file(tmp_path: Path, name: str, text: str, path: str, value: object) -> None:
    store = opened(tmp_path, **{f"LUMIA__MY_PLUGIN__{name}": text})
    assert store.get_path(path, "my-plugin") == value
    assert store.problems() == []


def test_the_core_goes_without_a_plugins_name(tmp_path: Path) -> None:
    store = ConfigStore(tmp_path, environ={"LUMIA__WORKER__CONCURRENCY": "3", "LUMIA__MODELS__MAIN__MODEL": "m"})
    assert store.core.worker.concurrency == 3
    assert store.core.models["main"]["model"] == "m"


def test_a_variable_is_never_written_to_the_file(tmp_path: Path) -> None:
    store = opened(tmp_path, LUMIA__MY_PLUGIN__NAME="from-env", LUMIA__MY_PLUGIN__SOURCES__X__TOKEN="env-secret")
    settings = store.settings("my-plugin")
    settings.count = 9
    text = (tmp_path / "config" / "my-plugin.toml").read_text()
    assert "count = 9" in text
    assert "env" not in text


def test_an_entry_in_the_file_takes_single_values_from_the_environment(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "my-plugin.toml").write_text('[sources."My-Hub"]\ntoken = "file"\nn = 2\n')
    store = opened(tmp_path, LUMIA__MY_PLUGIN__SOURCES__MY_HUB__TOKEN="env")
    assert store.settings("my-plugin").sources == {"My-Hub": {"token": "env", "n": 2, "extra": {}}}


def test_setting_what_a_variable_overrides_writes_the_file_and_says_who_wins(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = opened(tmp_path, LUMIA__MY_PLUGIN__COUNT="5").settings("my-plugin")
    settings.count = 9
    assert settings.count == 5
    assert "the environment variable LUMIA__MY_PLUGIN__COUNT beats it" in caplog.text
    assert opened(tmp_path).settings("my-plugin").count == 9


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("COUNT", "x", r"LUMIA__MY_PLUGIN__COUNT = 'x' is not allowed \(allowed: int\); correct or unset it"),
        ("RATE", "2", r"LUMIA__MY_PLUGIN__RATE = 2.0 is not allowed \(allowed: float of at most 1.0\)"),
        ("ON", "maybe", r"LUMIA__MY_PLUGIN__ON = 'maybe' is not allowed \(allowed: true or false\)"),
        ("WORDS", "[x", r"LUMIA__MY_PLUGIN__WORDS = '\[x' is not allowed"),
        ("NAME", "\udcff", r"LUMIA__MY_PLUGIN__NAME = .* is not allowed \(allowed: text that UTF-8 can hold"),
        ("SOURCES__X__N", "q", r"LUMIA__MY_PLUGIN__SOURCES__X__N = 'q' is not allowed \(allowed: int\)"),
    ],
)
def test_a_wrong_variable_is_named_with_value_and_range(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigValueError, match=message):
        opened(tmp_path, **{f"LUMIA__MY_PLUGIN__{name}": text})


@pytest.mark.parametrize("name", ["CUONT", "SOURCES__X", "SOURCES__X__Q", "FREE__X__Y", "LIMITS"])
def test_a_variable_that_names_nothing_is_warned_about(tmp_path: Path, name: str) -> None:
    store = opened(tmp_path, **{f"LUMIA__MY_PLUGIN__{name}": "1"})
    assert [problem.severity for problem in store.problems()] == ["warning"]
    assert f"LUMIA__MY_PLUGIN__{name} names no setting of my-plugin" in str(store.problems()[0])


def test_a_misspelt_variable_of_the_core_is_warned_about_and_those_of_others_are_not(tmp_path: Path) -> None:
    store = ConfigStore(tmp_path, environ={"LUMIA__WORKER__CONCURENCY": "3", "LUMIA__OTHER__X": "1", "LUMIA_ROOT": "/"})
    assert ["CONCURENCY" in str(problem) for problem in store.problems()] == [True]


def test_a_variable_of_the_core_is_not_taken_by_a_plugin_of_that_name(tmp_path: Path) -> None:
    store = ConfigStore(tmp_path, environ={"LUMIA__GATEWAY__PORT": "9000"})
    settings = store.register("gateway", declared_schema("gateway", {"port": field(int, 1), "own": field(int, 2)}))
    assert (settings.port, store.core.gateway.port) == (1, 9000)


def test_names_of_variables_are_upper_case_with_double_underscores() -> None:
    assert variable("memory-graph", ("limits", "low")) == "LUMIA__MEMORY_GRAPH__LIMITS__LOW"
    assert variable("lumia", ("worker", "fuse")) == "LUMIA__WORKER__FUSE"
