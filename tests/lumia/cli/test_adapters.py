"""`lumia adapters`: what is configured and how it fares, whether it works, and adding an account."""

from __future__ import annotations

import stat

import pytest

from tests.lumia.cli.conftest import Cli

TOY = """
import lumia
from lumia import adapters


@lumia.event.consumer_re("msg.send, dest=100.toy.*")
def send(src: str, content: lumia.Box) -> None:
    adapters.dispatch("toy", src, content)


@lumia.event.consumer("toy.send", retry=adapters.RETRY)
def deliver(content: lumia.Box) -> None:
    with adapters.delivering(content) as out:
        if out.chat == "blocked":
            raise lumia.errors.RejectedError("the bot was blocked by the user")
        out.part(0, lambda: {"message_id": "m1"})


@adapters.check
def check(account: str) -> adapters.Checked:
    token = lumia.config.get("toy").accounts[account]["token"]
    if token == "good":
        return adapters.Checked(True, "@toy_bot")
    return adapters.Checked(False, detail=f"the token {token} is refused; take a new one")
"""
SCHEMA = """
[accounts]
type = "table"
default = {}
description = "The accounts"

[accounts.fields.enabled]
type = "bool"
default = true

[accounts.fields.token]
type = "str"
default = ""
secret = true
description = "The token that the platform gave you"

[accounts.fields.token_env]
type = "str"
default = ""

[accounts.fields.owner]
type = "str"
default = ""
description = "Chat id of the bot's owner"

[accounts.fields.sizes]
type = "list[int]"
default = []
"""
MANIFEST = {
    "adapter": {"platform": "toy", "pid": 100, "capabilities": ["send"]},
    "config_schema": "config-schema.toml",
}
ACCOUNTS = """# My accounts.
[accounts.main]
token = "good"  # from the shop
owner = "7"

[accounts.spare]
token = "bad"
enabled = false
"""


def toy(cli: Cli, accounts: str = ACCOUNTS) -> Cli:
    (cli.plugin("toy", TOY, **MANIFEST) / "config-schema.toml").write_text(SCHEMA)
    if accounts:
        (cli.root / "config" / "toy.toml").write_text(accounts)
        (cli.root / "config" / "toy.toml").chmod(0o600)
    return cli


def test_accounts_of_a_bot_that_is_not_running_are_those_of_its_files(cli: Cli) -> None:
    done = toy(cli)("adapters", "--json")
    assert done.code == 0
    unknown = {"since": None, "lag": None, "detail": ""}
    assert [one for one in done.json if one["adapter"] == "toy"] == [
        {"adapter": "toy", "account": "main", "state": "unseen", "last_event": None, "sends": {}, **unknown},
        {"adapter": "toy", "account": "spare", "state": "disabled", "last_event": None, "sends": {}, **unknown},
    ]
    assert "not running" in done.err


def test_the_table_has_a_line_per_account(cli: Cli) -> None:
    lines = toy(cli)("adapters").out.splitlines()
    assert lines[0].split() == ["ADAPTER", "ACCOUNT", "STATE", "SINCE", "LAST", "EVENT", "LAG", "SENDS", "DETAIL"]
    assert ["toy", "spare", "disabled"] in [line.split()[:3] for line in lines]


def test_the_files_are_only_read(cli: Cli) -> None:
    toy(cli, accounts="")("adapters")
    assert not (cli.root / "config" / "toy.toml").exists()


def test_good_credentials_are_told_with_who_the_account_is(cli: Cli) -> None:
    done = toy(cli)("adapters", "test", "toy", "--no-probe")
    assert (done.code, done.out) == (0, "toy/main\tok\t@toy_bot\ntoy/spare\tdisabled\n")


def test_bad_credentials_are_an_error_without_the_secret(cli: Cli) -> None:
    done = toy(cli, '[accounts.main]\ntoken = "n0t-a-good-one"\n')("adapters", "test", "toy/main")
    assert done.code == 1
    assert "toy/main: the token *** is refused; take a new one" in done.err


def test_an_owner_is_not_asked_for_where_there_is_no_such_setting(cli: Cli) -> None:
    toy(cli, '[accounts.main]\ntoken = "good"\n')
    schema = cli.root / "plugins" / "toy" / "config-schema.toml"
    schema.write_text(SCHEMA.replace("[accounts.fields.owner]", "[accounts.fields.nick]"))
    done = cli("adapters", "test", "toy")
    assert (done.code, done.out) == (0, "toy/main\tok\t@toy_bot\n")
    assert "owner" not in done.err


def test_an_account_without_its_owner_is_told_where_to_name_one(cli: Cli) -> None:
    done = toy(cli, '[accounts.main]\ntoken = "good"\n')("adapters", "test", "toy")
    assert "nobody is named as `owner` in [accounts.main] of config/toy.toml" in done.err


def test_the_probe_goes_to_the_owner_and_its_receipt_is_told(bot: Cli) -> None:
    done = toy(bot)("adapters", "test", "toy/main")
    assert done.code == 0, done.err
    assert "toy/main\tsent\tmessage m1 to private 7" in done.out


def test_a_probe_that_is_refused_says_why(bot: Cli) -> None:
    done = toy(bot, ACCOUNTS.replace('"7"', '"group-blocked"'))("adapters", "test", "toy/main")
    assert done.code == 1
    assert "the probe to group blocked is rejected: RejectedError: the bot was blocked by the user" in done.err


@pytest.mark.parametrize(
    "words, said",
    [("toy/nobody", "toy has no account 'nobody'"), ("tory", "no adapter is called 'tory'; there are ")],
)
def test_what_is_not_there_is_wrong_usage(cli: Cli, words: str, said: str) -> None:
    done = toy(cli)("adapters", "test", words)
    assert done.code == 2
    assert said in done.err


def test_an_account_is_added_and_the_file_keeps_its_comments(cli: Cli) -> None:
    done = toy(cli)("adapters", "add", "toy", "--account", "new", "--set", "token=t0k", "--set", "sizes=1,2")
    assert done.code == 0, done.err
    file = cli.root / "config" / "toy.toml"
    text = file.read_text()
    assert text.startswith("# My accounts.") and "# from the shop" in text
    assert '[accounts.new]\ntoken = "t0k"\nsizes = [1, 2]\n' in text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "lumia adapters test toy/new" in done.err and "Name an `owner`" in done.err
    assert "t0k" not in done.out + done.err


def test_an_account_in_a_file_that_is_new_is_for_its_owner_only(cli: Cli) -> None:
    assert toy(cli, accounts="")("adapters", "add", "toy", "--set", "token=t0k").code == 0
    assert stat.S_IMODE((cli.root / "config" / "toy.toml").stat().st_mode) == 0o600
    assert [one["account"] for one in cli("adapters", "--json").json if one["adapter"] == "toy"] == ["main"]


@pytest.mark.parametrize(
    "words, said",
    [
        ("toy --account main --set token=x", "toy has an account 'main' already"),
        ("toy --account a/b --set token=x", "'a/b' is no name"),
        ("toy --account new", "there is no terminal to ask on; give the settings, such as --set token="),
        ("toy --account new --set tokn=x", "'tokn' is no KEY=VALUE of an account; keys are enabled, token"),
        ("toy --account new --set sizes=big", "sizes is list of int"),
        ("tory", "no adapter is called 'tory'"),
    ],
)
def test_an_account_that_can_not_be_added_says_why(cli: Cli, words: str, said: str) -> None:
    done = toy(cli)("adapters", "add", *words.split())
    assert done.code == 2
    assert said in " ".join(done.err.replace("│", " ").split())
    assert (cli.root / "config" / "toy.toml").read_text().count("[accounts.") == 2
