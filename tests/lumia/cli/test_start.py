"""`lumia start`: JSON in, a run started, its result out."""

from __future__ import annotations

import json

import pytest

from lumia.cli.start import closest
from tests.lumia.cli.conftest import INLINE, Cli

ORDERS = """
import lumia

@lumia.pipe.on("orders", priv=20)
def check(content: lumia.Box) -> None:
    order = content.into()
    if order.get("item") == 13:
        return lumia.utils.stop("unlucky")
    if order.get("item") == 0:
        raise ValueError("no such item")
    lumia.utils.next()

@lumia.pipe.on("orders", priv=10)
def confirm(content: lumia.Box) -> None:
    reply = lumia.Box.any(f"ordered {content.into()['item']}")
    lumia.event.start(id="msg.send, dest=1.console.private-ann", content=reply)

@lumia.event.consumer("stock.low")
def note(content: lumia.Box) -> None:
    pass

@lumia.event.interceptor("stock.secret")
def hush(content: lumia.Box) -> None:
    lumia.utils.intercept("not for everyone")
"""


@pytest.fixture
def shop(bot: Cli) -> Cli:
    bot.plugin("shop", ORDERS)
    return bot


def test_it_prints_the_run_id_alone_on_stdout(shop: Cli) -> None:
    done = shop("start", "orders", '{"item": 1}')
    assert (done.code, len(done.out.split()), done.err) == (0, 1, "")


def test_json_without_wait_is_the_run_id(shop: Cli) -> None:
    assert list(shop("start", "orders", '{"item": 1}', "--json").json) == ["run_id"]


def test_waiting_prints_the_replies_on_stdout_and_the_steps_on_stderr(shop: Cli) -> None:
    done = shop("start", "orders", '{"item": 7}', "--wait")
    assert (done.code, done.out) == (0, "ordered 7\n")
    assert "shop.check: next" in done.err
    assert "shop.confirm: " in done.err


def test_waiting_with_json_has_the_fixed_shape(shop: Cli) -> None:
    result = shop("start", "orders", '{"item": 7}', "--wait", "--json").json
    assert list(result) == ["run_id", "outcome", "replies", "steps", "ms"]
    assert (result["outcome"], result["replies"]) == ("done", ["ordered 7"])
    assert [list(step) for step in result["steps"]] == [["handler", "outcome", "reason", "ms"]] * len(result["steps"])
    assert [step["handler"] for step in result["steps"]][:2] == ["shop.check", "shop.confirm"]


def test_a_run_that_stops_with_a_reason_is_a_success(shop: Cli) -> None:
    done = shop("start", "orders", '{"item": 13}', "--wait", "--json")
    assert (done.code, done.json["outcome"], done.json["steps"][0]["reason"]) == (0, "stopped", "unlucky")


def test_a_run_that_fails_ends_the_command_with_one(shop: Cli) -> None:
    shop.configure(f"{INLINE}[worker]\nmax_losses = 1\n")
    code = ORDERS.replace('"orders", priv=20', '"orders", priv=20, retry=1')
    (shop.root / "plugins" / "shop" / "plugin.py").write_text(code)
    done = shop("start", "orders", '{"item": 0}', "--wait", "--json")
    assert (done.code, done.json["outcome"]) == (1, "failed")


def test_an_event_is_started_with_event(shop: Cli) -> None:
    done = shop("start", "stock.low", "3", "--event", "--wait", "--json")
    assert (done.code, [step["handler"] for step in done.json["steps"]]) == (0, ["shop.note"])


def test_a_blocked_event_ends_the_command_with_one(shop: Cli) -> None:
    done = shop("start", "stock.secret", "--event", "--wait", "--json")
    assert (done.code, done.json["outcome"]) == (1, "blocked")


def test_the_body_comes_from_stdin_for_a_dash(shop: Cli) -> None:
    assert shop("start", "orders", "-", "--wait", stdin='{"item": 5}').out == "ordered 5\n"


@pytest.mark.parametrize(
    "body, says",
    [
        ("{bad", "line 1 column 2"),
        ("hello", "text needs quotes of its own"),
        ('{"a": NaN}', "NaN is no JSON value"),
        ("", "line 1 column 1"),
        ("[1e999]", "1e999 is too large for a number"),
        ("[-1e999]", "-1e999 is too large for a number"),
        ("7" * 5000, "is too long a number (5000 digits)"),
    ],
)
def test_a_body_that_is_not_json_is_a_usage_error_with_its_place(shop: Cli, body: str, says: str) -> None:
    done = shop("start", "orders", body)
    assert (done.code, done.out) == (2, "")
    assert says in done.err


def test_bytes_that_are_no_text_are_a_usage_error(shop: Cli) -> None:
    done = shop("start", "orders", "-", stdin=b'"\xff"')
    assert (done.code, "byte 1 is not UTF-8" in done.err) == (2, True)


def test_a_body_nested_too_deeply_is_a_usage_error(shop: Cli) -> None:
    for depth in (950, 200_000):
        done = shop("start", "orders", "-", stdin="[" * depth + "]" * depth)
        assert (done.code, "nested too deeply" in done.err) == (2, True)


@pytest.mark.parametrize("wrong", [("--timeout", "0"), ("--timeout", "nan"), ("--timeout", "inf"), ("--key", "a\x01")])
def test_a_time_that_is_none_and_a_key_that_is_no_name_are_usage_errors(shop: Cli, wrong: tuple[str, str]) -> None:
    done = shop("start", "orders", "--wait", *wrong)
    assert (done.code, done.out, wrong[0] in done.err) == (2, "", True)


def test_a_body_over_the_limit_is_one_clear_line(shop: Cli) -> None:
    done = shop("start", "orders", "-", stdin=json.dumps("x" * 10 * 1024 * 1024))
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "1048576" in done.err.replace(",", "").replace("_", "")


def test_an_unknown_id_names_the_closest_ones(shop: Cli) -> None:
    done = shop("start", "order")
    assert (done.code, done.out) == (1, "")
    assert "error: nothing handles 'order' as a pipeline; the closest: orders" in done.err


def test_an_event_started_as_a_pipeline_is_told_so(shop: Cli) -> None:
    assert "add --event" in shop("start", "stock.low").err
    assert "leave --event out" in shop("start", "orders", "--event").err


def test_a_run_that_does_not_end_in_time_ends_the_command_with_one(shop: Cli) -> None:
    shop.plugin(
        "slow", "import lumia\n\n@lumia.pipe.on('slow')\ndef again(content: lumia.Box) -> None:\n    raise OSError\n"
    )
    done = shop("start", "slow", "--wait", "--timeout", "0.1", "--json")
    assert (done.code, done.json["outcome"]) == (1, None)
    assert done.err.splitlines()[-1].startswith("error: ")


def test_a_bot_that_does_not_run_is_one_line_with_the_way_out(cli: Cli) -> None:
    done = cli("start", "msg", "1")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert "lumia up" in done.err


def test_the_closest_ids_come_best_first() -> None:
    assert closest("msgs", ["reply.polish", "msg", "msg.qq", "cron.1h"])[0] == "msg"
