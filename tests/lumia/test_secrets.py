"""The bot's secret, and hiding secrets in what is shown."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumia.errors import SecretError
from lumia.secrets import is_secret_key, load_secret, redact


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a secret in the environment of whoever runs the tests out of them."""
    monkeypatch.delenv("LUMIA_SECRET", raising=False)


# --- The secret -------------------------------------------------------------------------------------------------------


def test_the_secret_is_made_once_as_32_random_bytes_in_a_private_file(tmp_path: Path) -> None:
    secret = load_secret(tmp_path)
    path = tmp_path / "data" / "secret.key"
    assert len(secret) == 32
    assert bytes.fromhex(path.read_text().strip()) == secret
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_secret(str(tmp_path)) == secret


def test_two_bots_have_different_secrets(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    assert load_secret(tmp_path / "one") != load_secret(tmp_path / "two")


def test_processes_that_make_it_at_once_all_get_the_same(tmp_path: Path) -> None:
    script = (
        "import sys; from lumia.secrets import load_secret; print('ready', flush=True); sys.stdin.readline(); "
        "print(load_secret(sys.argv[1]).hex())"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    secrets = {process.communicate(timeout=60)[0] for process in processes}
    assert secrets == {load_secret(tmp_path).hex() + "\n"}


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o711])
def test_a_file_others_could_read_is_made_private_with_a_warning(
    tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    secret = load_secret(tmp_path)
    path = tmp_path / "data" / "secret.key"
    path.chmod(mode)
    assert load_secret(tmp_path) == secret
    assert path.stat().st_mode & 0o777 == 0o600
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert f"had mode {mode:04o} and other users could read it" in caplog.text


@pytest.mark.parametrize("mode", [0o666, 0o620, 0o602])
def test_a_file_others_could_write_is_refused_with_the_way_out(tmp_path: Path, mode: int) -> None:
    load_secret(tmp_path)
    path = tmp_path / "data" / "secret.key"
    path.chmod(mode)
    with pytest.raises(SecretError, match=rf"secret\.key has mode {mode:04o}: other users can write it.*chmod 600"):
        load_secret(tmp_path)
    assert path.stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("content", [b"", b"abc\n", b"x" * 64, b"ab" * 33, b"\xff" * 64, "\u0661".encode() * 64])
def test_a_damaged_file_is_refused_and_not_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "secret.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(
        SecretError, match=r"secret\.key does not hold 64 hex digits; restore it from a backup, or delete"
    ):
        load_secret(tmp_path)
    assert path.read_bytes() == content


def test_a_folder_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("in the way")
    with pytest.raises(
        SecretError, match=r"secret\.key: the bot's secret can't be read or made \(.*\); give this user"
    ):
        load_secret(tmp_path)
    with pytest.raises(SecretError, match="can't be read or made"):
        load_secret(tmp_path / "no" / "root")


def test_the_environment_serves_many_machines_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUMIA_SECRET", "AB" * 32)
    assert load_secret(tmp_path) == b"\xab" * 32
    assert os.listdir(tmp_path) == []
    monkeypatch.setenv("LUMIA_SECRET", "short")
    with pytest.raises(SecretError, match="environment variable LUMIA_SECRET does not hold 64 hex digits; set it"):
        load_secret(tmp_path)


# --- Hiding -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key",
    ["token", "bot_token", "accessToken", "secret", "client-secret", "password", "DB_PASSWORD", "passwd", "api_key",
     "apikey", "API-Key", "x-api-key", "Authorization", "cookie", "Set-Cookie", "credentials", "private_key", "tokens"],
)  # fmt: skip
def test_names_that_speak_of_a_secret_are_known(key: str) -> None:
    assert is_secret_key(key)
    assert redact({key: "abc"}) == {key: "***"}


@pytest.mark.parametrize(
    "key",
    ["key", "lane_key", "idempotency_key", "api_key_env", "token_count", "password_file", "secretary", "author", "name",
     "keyboard", "cookie_path", "", "authorized"],
)  # fmt: skip
def test_other_names_are_left_alone(key: str) -> None:
    assert not is_secret_key(key)
    assert redact({key: "abc"}) == {key: "abc"}


def test_secrets_are_hidden_at_every_depth_and_the_input_is_not_changed() -> None:
    value = {
        "headers": [{"Authorization": "Bearer x"}],
        "auth": {"tokens": ["a", {"x": "b", "n": 5}], "password": 1234},
    }
    before = json.dumps(value)
    assert redact(value) == {
        "headers": [{"Authorization": "***"}],
        "auth": {"tokens": ["***", {"x": "***", "n": 5}], "password": "***"},
    }
    assert json.dumps(value) == before


def test_counts_of_tokens_and_empty_values_stay() -> None:
    usage: dict[str, Any] = {"input_tokens": 512, "max_tokens": 100, "token": None, "secret": "", "password": False}
    assert redact(usage) == usage


def test_known_secrets_are_hidden_wherever_they_are() -> None:
    known = ["hunter22", "a/b c", "hunter22-long", "abc"]
    assert redact("say hunter22-long and hunter22!", known) == "say *** and ***!"
    assert redact({"hunter22": ["x a%2Fb%20c y", ("a/b c",)]}, known) == {"***": ["x *** y", ["***"]]}
    assert redact("abcdef", known) == "abcdef"  # too short to be told from text


@pytest.mark.parametrize(
    "text, shown",
    [
        ("redis://user:pa55@host:6379/0", "redis://user:***@host:6379/0"),
        ("redis://:pa55@host", "redis://:***@host"),
        ("postgresql://host:5432/db", "postgresql://host:5432/db"),
        ("Authorization: Bearer abcdef1234567890", "Authorization: Bearer ***"),
        ("the bearer of good news", "the bearer of good news"),
        ("key sk-abcdefghijklmnop1234 given", "key *** given"),
        ("bot 123456789:AAaaBBbbCCccDDddEEeeFFffGGggHHhh-_1", "bot ***"),
        ("at 12:30 see http://a.b/c", "at 12:30 see http://a.b/c"),
    ],
)
def test_text_in_the_shape_of_a_secret_is_hidden(text: str, shown: str) -> None:
    assert redact(text) == shown


def test_what_is_no_json_is_returned_as_it_is() -> None:
    thing = object()
    assert redact({"a": thing, "b": b"x", 5: 1.5}) == {"a": thing, "b": b"x", 5: 1.5}
    assert redact({"secret": thing, "token": b"x"}) == {"secret": "***", "token": "***"}


def test_endless_nesting_is_hidden_rather_than_an_error() -> None:
    value: list[Any] = []
    value.append(value)
    assert "***" in str(redact(value))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=15,
)


@given(JSON, st.text("abcdefgh0123", min_size=6, max_size=12))
def test_a_known_secret_never_comes_through(value: Any, secret: str) -> None:
    hidden = redact({"x": [value, f"before {secret} after"], secret: {"token": secret}}, [secret])
    assert secret not in json.dumps(hidden, ensure_ascii=False)


@given(JSON)
def test_hiding_keeps_the_shape(value: Any) -> None:
    hidden = redact(value)
    assert type(hidden) is type(value)
    assert redact(hidden) == hidden
