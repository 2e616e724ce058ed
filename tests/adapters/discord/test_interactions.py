"""Slash commands, buttons and forms: signed, stored before they are answered, and replied to by their token."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lumia
from adapters.discord import interactions
from lumia.adapters import sends
from lumia.errors import BackendUnavailableError
from tests.adapters.discord.conftest import DISCORD, Start, answer
from tests.peers.discord import ADA, APPLICATION, GUILD, Discord, Fault
from tests.support.gateway import Served, served
from tests.support.wait import until


@pytest.fixture
def site(start: Start) -> Iterator[Served]:
    with start(gateway=False) as running:
        yield running


def path(site: Served, account: str = "main") -> str:
    return f"{site.url}/discord/{account}/interactions"


def first_answer(discord: Discord, data: dict[str, Any]) -> str:
    known = discord.rest.interactions[data["token"]]
    until(lambda: known.get("original"), what="the first answer")
    return str(known["original"]["content"])


class TestTheSignature:
    def test_a_ping_is_answered(self, site: Served, discord: Discord) -> None:
        answered = discord.interact(path(site), discord.interaction(1))
        assert (answered.status_code, answered.json()) == (200, {"type": 1})

    @pytest.mark.parametrize("signature", ["", "00", "zz" * 64, "00" * 64, "00" * 65, "é" * 3])
    def test_a_wrong_one_is_refused_and_nothing_is_stored(self, site: Served, discord: Discord, signature: str) -> None:
        before = site.bot.transport.cursor()
        raw = {b"X-Signature-Ed25519": signature.encode(), b"X-Signature-Timestamp": b"1"}
        answered = httpx.post(path(site), content=b"{", headers=raw, trust_env=False)
        assert answered.status_code == 401
        assert discord.interact(path(site), discord.command("ask"), signature="0" * 128).status_code == 401
        until(lambda: lumia.store.of("discord").get("refused", 0, scope="main"))
        assert site.bot.transport.cursor() == before

    def test_it_covers_timestamp_and_body(self, discord: Discord) -> None:
        good = discord.sign(b"{}", "5")
        assert interactions.signed(discord.public_key, good, "5", b"{}")
        assert not interactions.signed(discord.public_key, good, "6", b"{}")
        assert not interactions.signed(discord.public_key, good, "5", b"{} ")
        assert not interactions.signed("00" * 32, good, "5", b"{}")
        assert not interactions.signed("no key", good, "5", b"{}")

    @given(signature=st.text(max_size=140), timestamp=st.text(max_size=12), body=st.binary(max_size=40))
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_nothing_else_passes_and_nothing_raises(
        self, discord: Discord, signature: str, timestamp: str, body: bytes
    ) -> None:
        assert not interactions.signed(discord.public_key, signature, timestamp, body)

    def test_no_account_or_one_without_a_key_is_not_found(self, site: Served, discord: Discord) -> None:
        assert discord.interact(path(site, "other"), discord.interaction(1)).status_code == 404

    def test_what_is_signed_and_no_interaction_is_a_400(self, site: Served, discord: Discord) -> None:
        for body in (b"no json", b"[]", b"\xff", b'{"type": 2}', b'{"type": 2, "id": "x", "data": []}'):
            head = {"X-Signature-Ed25519": discord.sign(body, "9"), "X-Signature-Timestamp": "9"}
            assert httpx.post(path(site), content=body, headers=head, trust_env=False).status_code == 400


class TestAnswers:
    def test_a_command_is_answered_in_place_and_what_follows_follows(self, discord: Discord, start: Start) -> None:
        @lumia.pipe.on("msg")
        def twice(content: lumia.Box[dict[str, Any]]) -> None:
            msg = content.into()
            for text in ("first", "second"):
                said = {"text": text, "reply_to": msg["message_id"]}
                lumia.event.start(lumia.payloads.reply_to(msg), lumia.Box.any(said, meta={"account": "main"}))

        with start(twice, gateway=False) as site:
            asked = discord.command("ask", "why is the sky blue?")
            answered = discord.interact(path(site), asked)
            assert answered.json() == {"type": 5}
            assert first_answer(discord, asked) == "first"
            known = discord.rest.interactions[asked["token"]]
            until(lambda: known.get("followups"))
            assert [made["content"] for made in known["followups"]] == ["second"]
        assert not discord.rest.posted(discord.channel)[2:]

    def test_a_reply_that_names_no_message_finds_its_command(self, site: Served, discord: Discord) -> None:
        asked = discord.command("ask", "why?")
        discord.interact(path(site), asked)
        assert first_answer(discord, asked) == "you said: /ask why?"

    @pytest.mark.parametrize("left_out", ["channel_id", "application_id", "token"])
    def test_what_discord_leaves_out_costs_no_message(self, site: Served, discord: Discord, left_out: str) -> None:
        asked = discord.command("ask", "why?")
        asked["channel"] = {"id": discord.channel}
        posted = {key: value for key, value in asked.items() if key != left_out}
        assert discord.interact(path(site), posted).json() == {"type": 5}
        if left_out == "channel_id":
            assert first_answer(discord, asked) == "you said: /ask why?"
        else:
            until(lambda: "you said: /ask why?" in discord.rest.posted(discord.channel))

    def test_in_direct_messages_and_threads(self, site: Served, discord: Discord) -> None:
        for channel in (discord.dm, discord.thread):
            asked = discord.command("ask", "quote", channel=channel)
            discord.interact(path(site), asked)
            assert first_answer(discord, asked) == "you said: /ask quote"

    def test_a_button_a_form_and_a_menu_say_something(self, site: Served, discord: Discord) -> None:
        text = {"type": 1, "components": [{"type": 4, "custom_id": "a", "value": "tea"}]}
        label = {"type": 18, "component": {"type": 4, "custom_id": "b", "value": "please"}}
        for asked, wanted in (
            (discord.interaction(3, {"custom_id": "again", "component_type": 2}), "again"),
            (discord.interaction(3, {"custom_id": "pick", "component_type": 3, "values": ["red", "blue"]}), "red blue"),
            (discord.interaction(5, {"custom_id": "form", "components": [text, label]}), "tea\nplease"),
        ):
            assert discord.interact(path(site), asked).json() == {"type": 5}
            assert first_answer(discord, asked) == f"you said: {wanted}"

    def test_autocomplete_gets_no_choices_and_the_unknown_a_word(self, site: Served, discord: Discord) -> None:
        assert discord.interact(path(site), discord.interaction(4, {"name": "ask"})).json() == {
            "type": 8, "data": {"choices": []},
        }  # fmt: skip
        told = discord.interact(path(site), discord.interaction(99, {})).json()
        assert (told["type"], told["data"]["flags"]) == (4, 64)

    def test_the_same_interaction_again_is_one_run(self, site: Served, discord: Discord) -> None:
        asked = discord.command("ask", "once")
        discord.interact(path(site), asked)
        assert discord.interact(path(site), asked).json() == {"type": 5}
        first_answer(discord, asked)
        assert not discord.rest.interactions[asked["token"]].get("followups")

    def test_an_answer_quicker_than_discord_reads_ours_is_tried_again(self, site: Served, discord: Discord) -> None:
        discord.rest.script("PATCH", "@original", Fault.error(404, 10015))
        asked = discord.command("ask", "quick")
        discord.interact(path(site), asked)
        assert first_answer(discord, asked) == "you said: /ask quick"

    def test_a_cut_connection_makes_one_answer(self, site: Served, discord: Discord) -> None:
        discord.rest.script("PATCH", "@original", Fault(cut="after"), Fault.error(500))
        asked = discord.command("ask", "once")
        discord.interact(path(site), asked)
        until(lambda: len(discord.rest.requests("PATCH")) == 3)
        known = discord.rest.interactions[asked["token"]]
        assert not known.get("followups")

    def test_a_follow_up_of_which_nobody_knows_whether_it_arrived_is_held(self, discord: Discord, start: Start) -> None:
        with start(gateway=False) as site:
            discord.rest.script("POST", "/webhooks/", Fault(cut="after"))
            asked = discord.command("ask", "x" * 3000)
            discord.interact(path(site), asked)
            until(lambda: site.bot.dead)
            assert sends.counts("discord", "main") == {"held": 1}
        assert len(discord.rest.interactions[asked["token"]]["followups"]) == 1

    def test_when_its_time_is_over_the_reply_is_an_ordinary_message(self, site: Served, discord: Discord) -> None:
        asked = discord.command("ask", "late quote")
        id = str((int((time.time() - 14 * 60) * 1000) - 1_420_070_400_000) << 22)
        discord.rest.interactions[asked["token"]] |= {"id": id, "expired": True}
        discord.interact(path(site), {**asked, "id": id})
        until(lambda: discord.rest.posted(discord.channel) == ["you said: /ask late quote"])
        (sent,) = discord.rest.requests("POST", "/channels/")
        assert "message_reference" not in sent.body

    def test_an_account_without_a_token_serves_interactions_alone(self, discord: Discord) -> None:
        account = {**discord.settings, "token": ""}
        with served(DISCORD, answer, config={"discord": {"accounts": {"main": account}}}) as site:
            asked = discord.command("ask", "why?")
            discord.interact(path(site), asked)
            assert first_answer(discord, asked) == "you said: /ask why?"
            until(lambda: [one.state for one in lumia.adapters.accounts() if one.account == "main"] == ["listening"])
        assert discord.gateway.connections == 0

    def test_by_the_gateway_they_are_answered_by_rest(self, discord: Discord, start: Start) -> None:
        with start():
            asked = discord.command("ask", "by the gateway")
            discord.gateway.dispatch("INTERACTION_CREATE", asked)
            assert first_answer(discord, asked) == "you said: /ask by the gateway"
        assert discord.rest.interactions[asked["token"]]["answer"] == {"type": 5}


def test_what_the_broker_did_not_take_is_not_answered(
    site: Served, discord: Discord, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: Any, **kwargs: Any) -> None:
        raise BackendUnavailableError("the broker is away")

    with monkeypatch.context() as patched:
        patched.setattr(site.bot.transport, "write", away)
        asked = discord.command("ask", "why?")
        answered = discord.interact(path(site), asked)
        assert answered.status_code == 503
        assert "Retry-After" in answered.headers
    discord.interact(path(site), asked)
    assert first_answer(discord, asked) == "you said: /ask why?"


def test_a_token_is_in_no_box_log_or_journal(discord: Discord, start: Start, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    raw: list[dict[str, Any]] = []

    @lumia.event.consumer("msg.discord")
    def look(content: lumia.Box[dict[str, Any]]) -> None:
        raw.append(content.into())

    with start(look, answer, gateway=False) as site:
        discord.rest.script("PATCH", "@original", Fault.error(500), Fault.error(403, 50013))
        asked = discord.command("ask", "why?")
        discord.interact(path(site), asked)
        until(lambda: site.bot.dead)
        journal = str(site.bot.transport.tail("0", 0.0, 1000))
        told = caplog.text + json.dumps(raw) + journal + str(site.bot.dead)
    assert "-secret" not in told
    assert raw[0]["data"]["name"] == "ask"


def test_commands_of_the_settings_are_registered_once(discord: Discord) -> None:
    commands = {"ask": {"description": "Ask me", "option": "text", "required": True}, "BAD": {"description": "x"}}
    config = {"discord": {"accounts": {"main": discord.settings}, "commands": commands}}
    for _ in range(2):
        with served(DISCORD, answer, config=config):
            until(lambda: discord.rest.commands)
    option = {"type": 3, "name": "text", "description": "text", "required": True}
    assert discord.rest.commands == [{"type": 1, "name": "ask", "description": "Ask me", "options": [option]}]


class TestReading:
    @pytest.mark.parametrize(
        "data, text",
        [
            ({"name": "help"}, "/help"),
            ({"name": "roll", "options": [{"name": "sides", "type": 4, "value": 6}]}, "/roll 6"),
            ({"name": "lamp", "options": [{"name": "on", "type": 5, "value": True}]}, "/lamp true"),
            (
                {"name": "role", "options": [{"name": "add", "type": 1, "options": [{"name": "to", "value": "ada"}]}]},
                "/role add ada",
            ),
            (
                {
                    "name": "Translate",
                    "type": 3,
                    "target_id": "5",
                    "resolved": {"messages": {"5": {"content": "Hallo"}}},
                },
                "/Translate Hallo",
            ),
            (
                {"name": "Wave", "type": 2, "target_id": ADA["id"], "resolved": {"users": {ADA["id"]: ADA}}},
                "/Wave @Ada Lovelace",
            ),
        ],
    )
    def test_a_command_reads_as_somebody_would_write_it(self, data: dict[str, Any], text: str) -> None:
        assert interactions.said({"type": 2, "data": data}) == text

    def test_it_becomes_a_message_to_the_bot(self, discord: Discord) -> None:
        asked = discord.command("ask", "why?", channel=discord.thread)
        msg = interactions.read(asked, "main")
        assert msg["sender"] == {"id": ADA["id"], "name": "Ada Lovelace", "card": "Countess", "role": "admin"}
        assert msg["chat"] == {"kind": "group", "id": discord.thread, "name": "general"}
        assert (msg["thread"], msg["mentions_bot"], msg["text"]) == (discord.thread, True, "/ask why?")
        assert msg["message_id"] == f"interaction-{asked['id']}"
        assert (asked["application_id"], asked["guild_id"]) == (APPLICATION, GUILD)
