"""`lumia dead …` as an operator types it; the letters are real, made by a bot in this process on a real broker."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import lumia
from lumia.cli.app import build
from lumia.errors import LumiaError
from lumia.opening import load_plugins
from lumia.runtime import Runtime, open_bot
from tasks.backend import worker_name
from tasks.transport import RedisTransport, connect
from tests.support.workers import bot_root, write_plugin

CODE = """
import lumia

broken = [True]


@lumia.pipe.on("order", priv=2, retry=1)
def pays(content: lumia.Box) -> None:
    if broken[0]:
        raise RuntimeError(f"the till is shut for {content.into()['who']}")
    lumia.utils.next()


@lumia.pipe.on("order", priv=1)
def ships(content: lumia.Box) -> None:
    lumia.store.append("shipped", content.into()["who"])


@lumia.event.consumer("news", retry=1)
def reads(content: lumia.Box) -> None:
    raise ValueError("can't read")
"""


class Shop:
    """A bot whose steps are executed in this process, and the command line beside it."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.transport: Any = runtime.transport

    def lumia(self, *words: str, input: str | None = None) -> Result:
        return CliRunner().invoke(build(words), words, input=input)

    def json(self, *words: str) -> Any:
        return json.loads(self.lumia(*words, "--json").stdout)

    def order(self, who: str, **more: object) -> str:
        run = lumia.pipe.start("order", lumia.Box.any({"who": who, **more}), key=f"web:shop:group-{who}")
        self.work()
        return run

    def work(self) -> None:
        while (message := self.transport.redis.rpop("default:3")) is not None:
            run, step, seq = json.loads(json.loads(message)["body"])[0]
            self.runtime.executor.process(self.transport.claim(run, step, seq))

    def mend(self) -> None:
        handler = self.runtime.handlers["shop.pays"]
        handler.fn.__globals__["broken"][0] = False

    @property
    def shipped(self) -> list[str]:
        return lumia.store.of("shop").items("shipped")


@pytest.fixture
def shop(tmp_path: Path, valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    root = bot_root(tmp_path / "bot")
    write_plugin(root, "shop", CODE)
    monkeypatch.setenv("LUMIA_ROOT", str(root))
    monkeypatch.setenv("LUMIA_REDIS_URL", valkey_url)
    monkeypatch.setenv("SHOP_API_KEY", "swordfish-1234")
    transport = RedisTransport(connect(valkey_url), worker=worker_name())
    transport.redis.flushdb()
    runtime = open_bot(root, transport=transport)
    transport.limits = runtime.limits
    plugins = load_plugins(runtime, "all")
    runtime.use_routes(transport.publish(runtime.install(plugins)))
    with runtime.activated():
        yield Shop(runtime)
    runtime.close()


def test_letters_are_listed_newest_first_and_filtered(shop: Shop) -> None:
    ann, bob = shop.order("ann"), shop.order("bob")
    lumia.event.start("news", lumia.Box.any(1))
    shop.work()
    listed = shop.lumia("dead", "list")
    assert listed.exit_code == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()][::2] == ["LETTER", f"{bob}.0"]
    assert listed.stdout.splitlines()[3].startswith(f"{ann}.0 ")
    assert "the till is shut for bob" in listed.stdout and "group-ann" in listed.stdout
    assert [one["letter"] for one in shop.json("dead", "list", "--group", "group-ann")] == [f"{ann}.0"]
    assert [one["handler"] for one in shop.json("dead", "list", "--handler", "*.reads")] == ["shop.reads"]
    assert len(shop.json("dead", "list", "--id", "order", "--since", "1h", "--limit", "1")) == 1
    assert shop.json("dead", "list", "--until", "1h") == shop.json("dead", "list", "--error", "nothing like it") == []


def test_a_letter_is_shown_with_its_tries_its_error_and_its_box_without_secrets(shop: Shop) -> None:
    run = shop.order("ann", password="hunter2", note="key swordfish-1234")
    shown = shop.lumia("dead", "show", run)
    assert shown.exit_code == 0
    assert re.search(r"^try 1  \d{4}-.* failed  .*RuntimeError: the till is shut for ann$", shown.stdout, re.MULTILINE)
    assert "retry    shop.pays → shop.ships" in shown.stdout and "Traceback (most recent call last)" in shown.stdout
    assert '"who": "ann"' in shown.stdout and "hunter2" not in shown.stdout and "swordfish" not in shown.stdout
    as_json = shop.json("dead", "show", run[:18])
    assert as_json["box"] == {"who": "ann", "password": "***", "note": "key ***"}
    assert as_json["left"] == ["shop.pays", "shop.ships"] and as_json["retryable"]
    assert [one["attempt"] for one in as_json["history"]] == [1]


def test_no_try_of_a_letter_shows_a_secret_as_json(shop: Shop) -> None:
    shop.order("swordfish-1234")
    (letter,) = shop.json("dead", "list")
    assert letter["history"][0]["error"] == letter["error"] == "RuntimeError: the till is shut for ***"


def test_a_letter_whose_retry_fails_is_found_by_the_name_it_had_first(shop: Shop) -> None:
    run = shop.order("ann")
    for _ in range(2):
        assert shop.lumia("dead", "retry", f"{run}.0").exit_code == 0
        shop.work()
    (letter,) = shop.json("dead", "list")
    assert letter["run_id"] != run and letter["first_letter"] == f"{run}.0"
    assert f"retry of {run}.0" in shop.lumia("dead", "show", run[:18]).stdout
    shop.mend()
    assert shop.lumia("dead", "retry", run).exit_code == 0
    shop.work()
    assert shop.shipped == ["ann"]
    with pytest.raises(LumiaError, match="what became of one that was retried"):
        raise shop.lumia("dead", "show", run).exception or AssertionError


def test_a_name_that_fits_none_or_several_is_an_error(shop: Shop) -> None:
    ann, _ = shop.order("ann"), shop.order("bob")
    for name, why in (("zzz", "no dead letter"), (ann[:4], "fits several")):
        with pytest.raises(LumiaError, match=why):
            raise shop.lumia("dead", "show", name).exception or AssertionError


def test_a_retried_letter_goes_on_and_is_gone(shop: Shop) -> None:
    run = shop.order("ann")
    shop.mend()
    done = shop.lumia("dead", "retry", run)
    letter, again = done.stdout.split()
    assert (done.exit_code, letter) == (0, f"{run}.0")
    shop.work()
    assert lumia.runs.wait(again, 5).outcome == "done" and shop.shipped == ["ann"]
    assert shop.json("dead", "list") == []


def test_many_are_retried_oldest_first_when_it_is_confirmed(shop: Shop) -> None:
    for who in ("ann", "bob", "cay"):
        shop.order(who)
    shop.mend()
    refused = shop.lumia("dead", "retry", "--id", "order")
    assert refused.exit_code == 2 and "add --yes" in refused.output and len(shop.json("dead", "list")) == 3
    done = shop.json("dead", "retry", "--error", "till", "--yes")
    assert len(done) == 3 and all(one["run"] for one in done)
    shop.work()
    assert shop.shipped == ["ann", "bob", "cay"]


def test_it_has_to_be_said_which_letters_are_meant(shop: Shop) -> None:
    run = shop.order("ann")
    for words in (["retry"], ["drop"], ["retry", run, "--all"], ["drop", run, "--id", "order"]):
        assert shop.lumia("dead", *words).exit_code == 2, words
    assert shop.lumia("dead", "drop", "--id", "other", "--yes").exit_code == 1
    assert len(shop.json("dead", "list")) == 1


def test_dropped_letters_are_gone_and_the_journal_has_the_reason(shop: Shop) -> None:
    run = shop.order("ann")
    shop.order("bob")
    assert shop.lumia("dead", "drop", run, "--reason", "a test order").stdout == f"{run}.0\n"
    assert shop.lumia("dead", "drop", "--all", "--yes").exit_code == 0
    assert shop.json("dead", "list") == [] and shop.shipped == []
    told = [entry.reason for entry in lumia.runs.tail("0", 0, 1000) if entry.outcome == "dropped"]
    assert told == ["a test order", "dropped by hand"]


@pytest.mark.parametrize("words", ["list", "show", "retry", "drop"])
def test_every_command_shows_an_example(shop: Shop, words: str) -> None:
    shown = shop.lumia("dead", words, "--help")
    assert f"Example: lumia dead {words}" in " ".join(shown.stdout.split())


def test_a_trace_tells_that_its_letter_was_retried_and_by_which_run(shop: Shop) -> None:
    run = shop.order("ann")
    shop.mend()
    again = shop.lumia("dead", "retry", run).stdout.split()[1]
    shop.work()
    shown = shop.lumia("trace", run).stdout
    assert f"; retried as run {again}" in shown.splitlines()[0]
    assert re.search(rf"^dead letter at shop.pays retried [-\d]+ [:\d]+: as run {again}$", shown, re.MULTILINE)
    assert f"goes on from the dead letter of run {run}" in shop.lumia("trace", again).stdout


@pytest.mark.parametrize(
    "words, option",
    [
        (("dead", "list", "--since", "nonsense"), "--since"),
        (("dead", "list", "--since", "1h", "--until", "2h"), "--since"),
        (("dead", "retry"), "LETTER"),
        (("effects", "list", "nonsense"), "RUN"),
        (("effects", "settle", "01m7zv0k3q8r2s5t6v7w8x", "charge", "--failed"), "STEP:KEY"),
        (("effects", "settle", "01m7zv0k3q8r2s5t6v7w8x", "0:charge"), "--done"),
        (("effects", "settle", "01m7zv0k3q8r2s5t6v7w8x", "0:charge", "--done", "{"), "--done"),
    ],
)
def test_wrong_usage_names_the_option_and_shows_an_example(shop: Shop, words: tuple[str, ...], option: str) -> None:
    done = shop.lumia(*words)
    assert done.exit_code == 2
    assert f"Invalid value for {option}" in done.output and re.search("e\\.g\\.|such as", done.output)


@pytest.mark.parametrize("command, rest", [("list", ()), ("settle", ("0:charge", "--failed"))])
def test_effects_of_a_run_that_is_not_known_are_not_found(shop: Shop, command: str, rest: tuple[str, ...]) -> None:
    with pytest.raises(LumiaError, match="lumia runs"):
        raise shop.lumia("effects", command, "01m7zv0k3q8r2s5t6v7w8x", *rest).exception or AssertionError


def test_an_export_holds_secrets_unless_they_are_taken_out(shop: Shop, tmp_path: Path) -> None:
    run = shop.order("ann", password="hunter2")
    for name, options in (("whole", ()), ("clean", ("--redact",))):
        file = tmp_path / f"{name}.jsonl.gz"
        assert shop.lumia("journal", "export", str(file), run, *options).exit_code == 0
        assert ("hunter2" in gzip.decompress(file.read_bytes()).decode()) is (name == "whole")
    assert shop.lumia("journal", "import", str(tmp_path / "clean.jsonl.gz")).exit_code == 0
    assert run in shop.lumia("trace", run, "--file", "clean").stdout
