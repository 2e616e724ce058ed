from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lumia.cli.pkg.key import PASSPHRASE, key_app
from lumia.errors import SignatureError

FINGERPRINT = "ab" * 32


@pytest.fixture(autouse=True)
def _in_a_bot(bot_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUMIA_ROOT", str(bot_root))
    monkeypatch.delenv(PASSPHRASE, raising=False)


def key(*args: str, stdin: str = "") -> Result:
    result = CliRunner().invoke(key_app, args, input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_a_key_is_made_shown_and_exported() -> None:
    made = json.loads(key("new", "me", "--json").stdout)
    assert json.loads(key("show", "me", "--json").stdout) == made
    assert made["fingerprint"] in key("show", made["fingerprint"][:10]).stdout
    assert key("export", "me").stdout.strip() == made["public"]
    assert Path(made["file"]).read_text() == key("export", "me", "--private").stdout


def test_a_key_is_imported_from_a_file_or_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSPHRASE, "secret")
    made = json.loads(key("new", "me", "--json").stdout)
    pem = key("export", "me", "--private").stdout
    (tmp_path / "other.key").write_text(pem)
    for args, name in ((["import", str(tmp_path / "other.key")], "other"), (["import", "-", "--name", "two"], "two")):
        took = json.loads(key(*args, "--json", stdin=pem).stdout)
        assert (took["name"], took["fingerprint"], took["encrypted"]) == (name, made["fingerprint"], True)
    with pytest.raises(SignatureError, match="can't be read"):
        key("import", str(tmp_path / "none"))


def test_whose_keys_are_trusted_is_listed_and_changed() -> None:
    assert json.loads(key("list", "--json").stdout) == {"keys": [], "trusted": []}
    assert "pkg key new NAME" in key("list").stderr
    key("trust", "dice", FINGERPRINT)
    key("pin", "weather", FINGERPRINT)
    trusted = json.loads(key("list", "--json").stdout)["trusted"]
    assert [(one["plugin"], one["how"]) for one in trusted] == [("dice", "trusted"), ("weather", "pinned")]
    assert {one["fingerprint"] for one in trusted} == {FINGERPRINT}
    assert FINGERPRINT in key("list").stdout
    assert key("untrust", "dice").exit_code == 0
    gone = key("untrust", "dice")
    assert gone.exit_code == 1
    assert "no such key" in gone.stderr
    key("untrust", "weather", FINGERPRINT)
    assert json.loads(key("list", "--json").stdout)["trusted"] == []


def test_a_plugin_or_key_that_is_none_is_refused() -> None:
    for args in (("trust", "dice", "abc"), ("pin", "-x", FINGERPRINT), ("trust", "d\u0456ce", FINGERPRINT)):
        result = CliRunner().invoke(key_app, args)
        assert result.exit_code != 0


def test_on_a_terminal_the_passphrase_is_asked_for_and_not_echoed(bot_root: Path) -> None:
    code = "from lumia.cli.pkg.key import key_app; key_app(['new', 'me'])"
    parent, child = pty.openpty()
    env = {**os.environ, "TERM": "dumb"}
    done = subprocess.Popen([sys.executable, "-c", code], stdin=child, stdout=child, stderr=child, env=env)
    os.close(child)
    shown = b""
    asked = 0
    while True:
        try:
            chunk = os.read(parent, 1024)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
        if shown.count(b": ") > asked and shown.rstrip(b" ").endswith(b":"):
            asked = shown.count(b": ")
            os.write(parent, b"hunter2\n")
    assert done.wait(30) == 0, shown
    os.close(parent)
    assert b"hunter2" not in shown
    assert b"ENCRYPTED" in (bot_root / "data" / "pkg" / "keys" / "me.key").read_bytes()
