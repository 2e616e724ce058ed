"""What `lumia up` reads before anything else is loaded."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from lumia import paths
from lumia.errors import ConfigValueError
from tasks.supervise.settings import Settings, read_settings


def write(root: Path, text: str) -> None:
    (root / "config" / "lumia.toml").write_text(text, encoding="utf-8")


def test_an_empty_file_means_the_defaults(bot_root: Path) -> None:
    assert read_settings(bot_root) == Settings()


def test_the_defaults_are_those_of_the_core_schema(bot_root: Path) -> None:
    schema = tomllib.loads((paths.base() / "lumia" / "core-schema.toml").read_text(encoding="utf-8"))
    mine = Settings()
    assert schema["gateway"]["host"]["default"] == mine.gateway_host
    assert schema["gateway"]["port"]["default"] == mine.gateway_port
    assert schema["flower"]["port"]["default"] == mine.flower_port
    assert schema["redis"]["port"]["default"] == mine.redis_port
    assert schema["redis"]["appendfsync"]["default"] == mine.appendfsync
    assert schema["postgres"]["enabled"]["default"] == mine.postgres_enabled


def test_values_come_from_the_file(bot_root: Path) -> None:
    write(bot_root, "[gateway]\nport = 9000\n[redis]\nappendfsync = 'always'\n[postgres]\nenabled = false\n")
    found = read_settings(bot_root)
    assert (found.gateway_port, found.appendfsync, found.postgres_enabled) == (9000, "always", False)


def test_a_variable_beats_the_file(bot_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(bot_root, "[redis]\nport = 9000\n")
    monkeypatch.setenv("LUMIA__REDIS__PORT", "9001")
    monkeypatch.setenv("LUMIA__POSTGRES__ENABLED", "no")
    found = read_settings(bot_root)
    assert (found.redis_port, found.postgres_enabled) == (9001, False)


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "[redis]\nport = 70000",
            r"lumia\.toml: \[redis\] port = 70000 is not allowed; use a whole number from 1 to 65535",
        ),
        ("[redis]\nport = true", r"\[redis\] port = True is not allowed"),
        ("[redis]\nappendfsync = 'no'", r"\[redis\] appendfsync = 'no' is not allowed; use one of everysec, always"),
        ("[gateway]\nhost = 1", r"\[gateway\] host = 1 is not allowed; use a text"),
        ("[postgres]\nenabled = 1", r"\[postgres\] enabled = 1 is not allowed; use true or false"),
        ("[redis", r"lumia\.toml can't be read as TOML: .*; correct it"),
    ],
)
def test_a_wrong_value_names_file_key_value_and_range(bot_root: Path, text: str, message: str) -> None:
    write(bot_root, text)
    with pytest.raises(ConfigValueError, match=message):
        read_settings(bot_root)


def test_a_wrong_variable_is_named(bot_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUMIA__FLOWER__PORT", "many")
    with pytest.raises(ConfigValueError, match="LUMIA__FLOWER__PORT = 'many' is not allowed"):
        read_settings(bot_root)


def test_one_port_option_moves_all_four() -> None:
    moved = Settings().moved_to(9000)
    assert (moved.gateway_port, moved.flower_port, moved.redis_port, moved.postgres_port) == (9000, 9001, 9002, 9003)
    with pytest.raises(ConfigValueError, match="four ports in a row"):
        Settings().moved_to(65535)
