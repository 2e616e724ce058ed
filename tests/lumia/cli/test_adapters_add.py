"""`lumia adapters add`: the adapter itself judges every answer before anything is written."""

from __future__ import annotations

import os
import pty
import sys
import tomllib
from typing import Any

import pytest

from tests.lumia.cli.conftest import Cli

TOKEN = "123456789:AAFabcdefghijklmnop"
SATORI = "http://127.0.0.1:5140/satori"


def accounts(cli: Cli, adapter: str) -> Any:
    table = "sources" if adapter == "webhook" else "accounts"
    return tomllib.loads((cli.root / "config" / f"{adapter}.toml").read_text())[table]


def said(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize(
    "words, why",
    [
        ("satori --set token=t", 'url is no http:// or https:// address without a query or a password; write url = "'),
        ("satori --set url=ftp://host", "url is no http:// or https:// address"),
        (f"satori --set url={SATORI} --set mode=webhook", "has no webhook_token, so anybody could post"),
        ("telegram --set token=hello", "token isn't one of Telegram's; one looks like 123456789:AAF…"),
        ("telegram --set owner=12", "has no token; ask @BotFather for one"),
        (f"telegram --set token={TOKEN} --set poll_seconds=99", "poll_seconds is int from 1 to 50"),
        (f"telegram --set token={TOKEN} --set mode=pigeon", "mode is one of 'polling', 'webhook'"),
        ("slack --set bot_token=xapp-1 --set signing_secret=s", "bot_token is no xoxb-… token; copy it from"),
        ("slack --set bot_token=xoxb-1", "signing_secret is missing; copy it from the app's page"),
        ("slack --set bot_token=xoxb-1 --set signing_secret=s --set owner=ann", "owner 'ann' is no Slack id"),
        ("discord --set owner=80351110224678912", "has neither token nor public_key, so nothing reaches it"),
        ("discord --set token=t --set public_key=zz", "public_key is no key of 64 hex digits"),
        ("onebot --set mode=forward", 'mode forward needs a url; write url = "ws://host:port"'),
        ("onebot --set self_id=me", "self_id is 'me'; it is a QQ number in quotes"),
        ("webhook --set rate=5", "has neither token nor secret, so it refuses everything; choose one, and give it to"),
        (
            "webhook --set token=t --set callback_url=shop.example",
            "must be http(s)://host/… without user and password; write it as",
        ),
        ("webhook --set token=t --set rate=-1", "rate is int from 0 to 1000000"),
    ],
)
def test_what_can_not_work_is_refused_with_the_way_out_and_nothing_is_written(cli: Cli, words: str, why: str) -> None:
    done = cli("adapters", "add", *words.split())
    assert (done.code, done.out) == (2, "")
    assert why in said(done.err)
    assert [file.name for file in (cli.root / "config").glob("*.toml")] == ["lumia.toml"]


@pytest.mark.parametrize(
    "words",
    [
        f"telegram --set token={TOKEN}",
        f"satori --set url={SATORI}",
        "slack --set bot_token=xoxb-1 --set signing_secret=s",
        "discord --set token=t",
        "onebot --set access_token=t",
        "webhook --set secret=s --set callback_url=https://shop.example/replies",
    ],
)
def test_what_can_work_is_written(cli: Cli, words: str) -> None:
    done = cli("adapters", "add", *words.split())
    assert done.code == 0, done.err
    assert list(accounts(cli, words.split(maxsplit=1)[0])) == ["main"]


def test_a_secret_in_a_variable_that_is_only_set_where_the_bot_runs_is_not_judged(cli: Cli) -> None:
    done = cli("adapters", "add", "telegram", "--set", "token_env=BOT_TOKEN")
    assert done.code == 0, done.err
    assert "BOT_TOKEN is not set here" in done.err
    assert accounts(cli, "telegram") == {"main": {"token_env": "BOT_TOKEN"}}
    http = "onebot --set mode=http --set url=http://127.0.0.1:1 --set access_token_env=QQ_KEY"
    for either in ("webhook --set secret_env=SHOP_KEY", http):  # one of two keys is enough, and it is named
        done = cli("adapters", "add", *either.split())
        assert done.code == 0, done.err
    words = ("adapters", "add", "telegram", "--account", "other", "--set", "token_env=BOT_TOKEN")
    assert cli(*words, env={"BOT_TOKEN": "hello"}).code == 2
    assert list(accounts(cli, "telegram")) == ["main"]


def test_on_a_terminal_an_answer_that_can_not_work_is_asked_for_again(cli: Cli) -> None:
    answers = [
        ("What to call", "main"),
        ("token: ", "hello"),
        ("token isn't one of Telegram's; one looks like 123456789:AAF", TOKEN),
        ("public_url: ", "ftp://x"),
        ("public_url is no https address", ""),
    ]
    code, told = on_a_terminal(cli, "telegram", answers)
    assert code == 0, told
    assert accounts(cli, "telegram") == {"main": {"token": TOKEN}}


def test_on_a_terminal_a_name_that_can_not_be_taken_is_asked_for_again(cli: Cli) -> None:
    assert cli("adapters", "add", "telegram", "--set", f"token={TOKEN}").code == 0
    answers = [
        ("What to call", ""),
        ("telegram has an account 'main' already", "second bot"),
        ("'second bot' is no name", "second"),
        ("token: ", TOKEN.replace("1", "2", 1)),
    ]
    code, told = on_a_terminal(cli, "telegram", answers)
    assert code == 0, told
    assert list(accounts(cli, "telegram")) == ["main", "second"]


def test_on_a_terminal_what_must_not_be_left_out_is_asked_for_at_the_end(cli: Cli) -> None:
    answers = [("What to call", "main"), ("has no token; ask @BotFather", ""), ("token_env: ", "PATH_OF_NOBODY")]
    code, told = on_a_terminal(cli, "telegram", answers)
    assert code == 0, told
    assert accounts(cli, "telegram") == {"main": {"token_env": "PATH_OF_NOBODY"}}


def on_a_terminal(cli: Cli, adapter: str, answers: list[tuple[str, str]]) -> tuple[int, str]:
    """Run it on a terminal, and type each answer once the text before it is there; Enter at all other questions."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(cli.root)
        words = [sys.executable, "-m", "lumia", "adapters", "add", adapter]
        os.execve(words[0], words, {**os.environ, "TERM": "dumb", "COLUMNS": "300"})
    told, new, left = "", "", list(answers)
    while part := _read(terminal):
        told, new = told + part.decode(), new + part.decode()
        if new.endswith(": "):
            answer = left.pop(0)[1] if left and left[0][0] in new else ""
            os.write(terminal, f"{answer}\n".encode())
            new = ""
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    os.close(terminal)
    assert not left, (left, told)
    return code, told


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # Linux: the other side is closed
        return b""
