"""Payloads, destinations and the schema files made of them (DESIGN §10)."""

from __future__ import annotations

import contextlib
import fnmatch
import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped,unused-ignore]

from lumia import payloads
from lumia.errors import PayloadError
from lumia.payloads import Destination, destination, parse_destination, text_of, validate

ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
any_text = st.text(st.characters(), max_size=60)
kinds = st.sampled_from(["group", "private"])
platforms = st.from_regex(r"[a-z0-9_]{1,12}", fullmatch=True)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)


def message(**changes: Any) -> dict[str, Any]:
    base = {
        "platform": "console",
        "account": "local",
        "chat": {"kind": "group", "id": "lab"},
        "sender": {"id": "ada", "name": "Ada"},
        "message_id": "m1",
        "text": "hello",
        "time": 1.5,
    }
    return {**base, **changes}


ORIGIN = {name: message()[name] for name in ("platform", "account", "chat", "sender")} | {"run_id": "r1"}


class TestDestinations:
    def test_a_destination_reads_like_the_specification(self) -> None:
        assert destination(3, "qq", "group", "12") == "msg.send, dest=3.qq.group-12"

    @given(st.integers(0, 999_999_999), platforms, kinds, ids)
    def test_every_id_comes_back_unchanged(self, pid: int, platform: str, kind: str, id: str) -> None:
        assert parse_destination(destination(pid, platform, kind, id)) == Destination(pid, platform, kind, id)

    @given(ids)
    def test_the_specifications_split_finds_the_whole_id(self, id: str) -> None:
        assert unquote(destination(3, "qq", "group", id).split("-")[1]) == id

    @given(ids, ids)
    def test_two_ids_never_share_a_destination(self, one: str, other: str) -> None:
        assert (destination(3, "qq", "group", one) == destination(3, "qq", "group", other)) == (one == other)

    @given(ids)
    def test_an_id_never_acts_as_a_wildcard(self, id: str) -> None:
        assert "*" not in destination(1, "console", "group", id)

    @given(ids)
    def test_a_destination_can_be_the_id_of_a_run(self, id: str) -> None:
        assert destination(3, "qq", "group", id).isprintable()

    @given(platforms, ids, kinds, ids, ids)
    def test_lanes_and_deduplication_keys_fit_and_tell_chats_apart(
        self, platform: str, account: str, kind: str, id: str, message_id: str
    ) -> None:
        lane = payloads.lane(platform, account, kind, id[:20])
        key = payloads.dedup_key(lane, message_id * 10)
        assert key.isprintable()
        assert len(key) <= max(512, len(lane) + 33)
        assert key != payloads.dedup_key(lane, message_id * 10 + "x")
        assert lane != payloads.lane(platform, account, kind, id[:20] + ":")

    def test_a_telegram_group_keeps_its_sign(self) -> None:
        sent = destination(4, "telegram", "group", "-100123")
        assert sent == "msg.send, dest=4.telegram.group-%2D100123"
        assert parse_destination(sent).id == "-100123"

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "msg.send",
            "msg.send, dest=3.qq.group-",
            "msg.send, dest=3.qq.channel-1",
            "msg.send, dest=qq.group-1",
            "msg.send, dest=4.telegram.group--100",
            "msg.send, dest=4.telegram.group-100%",
            "msg.send, dest=4.telegram.group-%FF",
            "msg.send, dest=4.telegram.group-\ud800",
        ],
    )
    def test_what_is_no_destination_is_refused(self, text: str) -> None:
        with pytest.raises(PayloadError):
            parse_destination(text)

    @given(any_text)
    def test_any_text_is_read_one_way_or_refused(self, text: str) -> None:
        try:
            parsed = parse_destination(f"msg.send, dest=1.console.group-{text}")
        except PayloadError:
            return
        assert parse_destination(str(parsed)) == parsed

    @pytest.mark.parametrize("parts", [("3", "q.q", "group", "1"), (3, "qq", "channel", "1"), (3, "qq", "group", "")])
    def test_parts_that_fit_no_destination_are_refused(self, parts: tuple[Any, ...]) -> None:
        with pytest.raises(PayloadError):
            destination(*parts)


class TestValidation:
    def test_a_message_gets_its_defaults_and_no_empty_options(self) -> None:
        checked = validate("msg", message())
        assert checked["mentions_bot"] is False
        assert checked["segments"] == []
        assert "reply_to" not in checked
        assert "card" not in checked["sender"]

    @pytest.mark.parametrize(
        "changes, path",
        [
            ({"chat": {"kind": "channel", "id": "1"}}, "chat.kind"),
            ({"sender": {}}, "sender.id"),
            ({"text": 3}, "text"),
            ({"segments": [{"data": {}}]}, "segments.0.type"),
            ({"time": float("nan")}, "time"),
            ({"message_id": "a\x00b"}, "message_id"),
            ({"message_id": "\ud800"}, "message_id"),
            ({"chat": {"kind": "group", "id": "-" * 200}}, "chat.id"),
            ({"txet": "typo"}, "txet"),
        ],
    )
    def test_an_error_names_the_field(self, changes: dict[str, Any], path: str) -> None:
        with pytest.raises(PayloadError, match=rf"^msg: {path}: "):
            validate("msg", message(**changes))

    @given(any_text)
    def test_text_is_made_storable_instead_of_refused(self, text: str) -> None:
        cleaned = validate("msg", message(text=text))["text"]
        assert "\x00" not in cleaned
        cleaned.encode("utf-8")

    @given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")))
    def test_clean_text_stays_as_it_is(self, text: str) -> None:
        assert payloads.clean_text(text) == text

    def test_only_the_broken_character_is_replaced(self) -> None:
        assert payloads.clean_text("a\ud800b\x00c\U0001f600") == "a\ufffdb\ufffdc\U0001f600"

    @given(st.sampled_from(sorted(payloads.MODELS)), anything)
    def test_rubbish_is_refused_with_a_payload_error(self, kind: str, value: Any) -> None:
        try:
            checked = validate(kind, value)
        except PayloadError:
            return
        assert validate(kind, checked) == checked

    def test_a_bare_string_can_be_sent(self) -> None:
        assert validate("msg.send, dest=3.qq.group-1", "hello") == {"text": "hello"}

    def test_sending_nothing_is_refused(self) -> None:
        with pytest.raises(PayloadError, match="text or segments"):
            validate("msg.send", {"reply_to": "m1"})

    def test_a_relation_keeps_the_name_from(self) -> None:
        update = {"from": "ada", "to": "self", "type": "friend", "weight_delta": 0.05, "origin": ORIGIN}
        assert validate("relation.update", update) == {**update, "origin": {**ORIGIN}}

    def test_an_importance_out_of_range_is_refused(self) -> None:
        with pytest.raises(PayloadError, match="importance"):
            validate("memory.update", {"topic": "tea", "importance": 1.5, "origin": ORIGIN})

    def test_a_polish_request_carries_thought_and_message(self) -> None:
        checked = validate("reply.polish", {"reply_bias": {"intent": "greet"}, "msg": message()})
        assert checked["msg"]["message_id"] == "m1"
        assert checked["reply_bias"]["key_points"] == []

    def test_an_unknown_payload_lists_the_known_ones(self) -> None:
        with pytest.raises(PayloadError, match=r"msg\.send"):
            validate("massage", {})


class TestTextOf:
    @pytest.mark.parametrize(
        "value, text",
        [
            ("hi", "hi"),
            ({"text": "hi"}, "hi"),
            ({"text": ""}, ""),
            (
                {"segments": [{"type": "text", "data": {"text": "hi "}}, {"type": "mention", "data": {"id": "7"}}]},
                "hi @7",
            ),
            ({"segments": [{"type": "reply", "data": {"id": "1"}}, {"type": "image", "data": {}}]}, "[image]"),
            ({"segments": ["rubbish"]}, "[segment]"),
        ],
    )
    def test_the_text_of_every_shape(self, value: Any, text: str) -> None:
        assert text_of(value) == text

    @given(anything)
    def test_rubbish_has_a_text_or_is_refused(self, value: Any) -> None:
        with contextlib.suppress(PayloadError):
            text_of(value).encode("utf-8")


class TestSchemas:
    def test_the_schema_files_are_current(self) -> None:
        assert payloads.outdated() == []

    def test_a_changed_or_leftover_file_is_noticed(self, tmp_path: Path) -> None:
        for kind in payloads.MODELS:
            (tmp_path / f"{kind}.json").write_text(payloads.schema_text(kind))
        assert payloads.outdated(tmp_path) == []
        (tmp_path / "msg.json").write_text("{}")
        (tmp_path / "old.json").write_text("{}")
        assert {path.name for path in payloads.outdated(tmp_path)} == {"msg.json", "old.json"}

    def test_the_command_checks_and_writes_them(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(payloads, "SCHEMA_DIR", tmp_path)
        assert payloads.main(["--check"]) == 1
        assert "msg.json is not current; run `python -m lumia.payloads`" in capsys.readouterr().err
        assert payloads.main([]) == 0
        assert payloads.main(["--check"]) == 0

    @pytest.mark.parametrize("kind", sorted(payloads.MODELS))
    def test_a_schema_file_is_a_valid_schema(self, kind: str) -> None:
        Draft202012Validator.check_schema(json.loads(payloads.schema_text(kind)))

    @given(anything)
    def test_schema_and_model_agree_on_what_a_message_is(self, value: Any) -> None:
        schema = Draft202012Validator(json.loads(payloads.schema_text("msg")))
        assert schema.is_valid(message())
        assert not schema.is_valid(value)


def test_every_platform_has_its_own_number() -> None:
    assert len(set(payloads.PIDS.values())) == len(payloads.PIDS)
    assert fnmatch.fnmatchcase(destination(payloads.PIDS["console"], "console", "group", "x"), "msg.send, dest=1.*")


def test_a_message_is_answered_in_its_own_chat() -> None:
    msg = {"platform": "qq", "chat": {"kind": "group", "id": "a-b"}}
    assert payloads.reply_to(msg) == "msg.send, dest=3.qq.group-a%2Db"
    with pytest.raises(PayloadError, match="pass its pid"):
        payloads.reply_to({"platform": "matrix", "chat": {"kind": "private", "id": "x"}})
    assert payloads.reply_to({"platform": "matrix", "chat": {"kind": "private", "id": "x"}}, 100).startswith("msg.send")
