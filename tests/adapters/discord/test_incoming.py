"""Discord's messages as `msg` payloads, and what discord.py makes of the same ones."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.discord import incoming, markup
from adapters.discord.guilds import Guild
from lumia.errors import PayloadError
from tests.peers.discord import ADMINS, APPLICATION, ME
from tests.peers.discord_world import channel, member, role

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it imports audioop for voice
    import discord
    from discord.state import ConnectionState

RECORDED = json.loads(Path(__file__).with_name("messages.json").read_text(encoding="utf-8"))
CASES: list[dict[str, Any]] = RECORDED["messages"]
TALK = [case for case in CASES if case["expect"] is not None]
GUILD = Guild.created(RECORDED["guild"], ME["id"])


def read(payload: dict[str, Any]) -> dict[str, Any]:
    guild = GUILD if payload.get("guild_id") else None
    return incoming.message(payload, account="main", me=ME["id"], guild=guild)


def named(case: dict[str, Any]) -> str:
    return str(case["name"])


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_message_is_read_as_it_was_meant(case: dict[str, Any]) -> None:
    if case["expect"] is None:
        assert incoming.ignored(case["payload"])
        return
    assert not incoming.ignored(case["payload"])
    msg = read(case["payload"])
    assert {key: msg.get(key) for key in case["expect"]} == case["expect"]
    assert (msg["platform"], msg["account"], msg["message_id"]) == ("discord", "main", case["payload"]["id"])


class Connection(ConnectionState):
    """What discord.py keeps of a connection, without one."""

    def __init__(self) -> None:
        async def nothing(*args: Any, **kwargs: Any) -> None:
            """Nobody listens."""

        http = type("Http", (), {"token": None})()
        super().__init__(
            dispatch=lambda *args: None, handlers={}, hooks={}, http=http, intents=discord.Intents.all(),
            member_cache_flags=discord.MemberCacheFlags.none(),
        )  # fmt: skip
        self.user = discord.ClientUser(state=self, data=ME)  # type: ignore[arg-type]
        self.application_id = int(APPLICATION)


def as_discord_py(payload: dict[str, Any]) -> discord.Message:
    state = Connection()
    guild = discord.Guild(data=RECORDED["guild"], state=state)
    where: Any = guild.get_channel_or_thread(int(payload["channel_id"]))
    if where is None:
        dm = {"id": payload["channel_id"], "type": 1, "recipients": [payload["author"]]}
        where = discord.DMChannel(me=state.user, state=state, data=dm)  # type: ignore[arg-type]
    data = {**payload, "embeds": [], "mention_roles": payload["mention_roles"]}
    return discord.Message(state=state, channel=where, data=data)  # type: ignore[arg-type]


@pytest.mark.parametrize("case", TALK, ids=named)
def test_discord_py_reads_the_same(case: dict[str, Any]) -> None:
    theirs, ours = as_discord_py(case["payload"]), read(case["payload"])
    assert str(theirs.id) == ours["message_id"]
    assert str(theirs.author.id) == ours["sender"]["id"]
    assert theirs.author.display_name == ours["sender"].get("card", ours["sender"]["name"])
    assert str(theirs.channel.id) == ours["chat"]["id"]
    assert (theirs.guild is None) == (ours["chat"]["kind"] == "private")
    assert {str(user.id) for user in theirs.mentions} == {mention["id"] for mention in ours["mentions"]}
    assert theirs.created_at.timestamp() == pytest.approx(incoming.born(ours["message_id"]), abs=0.001)
    assert [file.url for file in theirs.attachments] == [file["url"] for file in ours["media"]][
        : len(theirs.attachments)
    ]
    replied = theirs.reference is not None and theirs.type is discord.MessageType.reply
    assert (str(theirs.reference.message_id) if replied and theirs.reference else None) == ours.get("reply_to")
    assert isinstance(theirs.channel, discord.Thread) == ("thread" in ours)
    assert theirs.is_system() is False


OTHERWISE = {
    "names an unknown channel": "it has no name for it, we have its id",
    "custom emoji": "it leaves emoji as they are",
    "animated emoji": "the same",
    "a moment": "it leaves moments as they are",
    "a slash command's name": "it leaves commands as they are",
}


@pytest.mark.parametrize("case", [case for case in TALK if case["name"] not in OTHERWISE], ids=named)
def test_discord_py_shows_the_same_text(case: dict[str, Any]) -> None:
    payload = case["payload"]
    names = incoming._names(payload, GUILD if payload.get("guild_id") else None)
    ours = markup.text_of(markup.segments(payload["content"], names))
    theirs = as_discord_py(payload).clean_content
    assert theirs.replace("@\u200b", "@") == ours.replace("@\u200b", "@")


class TestGuilds:
    def test_the_bots_roles_are_its_own_and_the_one_made_for_it(self) -> None:
        data = {"id": "1", "roles": [role("5", "made", bot=ME["id"]), role("6", "given"), role("7", "other")],
                "members": [member(who=ME, roles=("6",))]}  # fmt: skip
        assert sorted(Guild.created({**data, "members": []}, ME["id"]).mine) == ["5"]
        assert Guild.created(data, ME["id"]).mine == ["6"]

    def test_changes_are_taken_in_and_a_kept_guild_is_the_same(self) -> None:
        guild = Guild.kept(json.loads(json.dumps(GUILD.as_dict())))
        assert guild == GUILD
        assert guild.apply("CHANNEL_CREATE", channel("77", "new", guild=guild.id), ME["id"])
        assert not guild.apply("CHANNEL_UPDATE", channel("77", "new", guild=guild.id), ME["id"])
        assert guild.channel_names()["77"] == "new"
        assert guild.apply("THREAD_CREATE", channel("78", "side", type=11, guild=guild.id), ME["id"])
        assert guild.is_thread("78")
        assert guild.apply("CHANNEL_DELETE", {"id": "77", "guild_id": guild.id}, ME["id"])
        assert guild.apply("GUILD_ROLE_UPDATE", {"role": role(ADMINS, "mods", permissions=8)}, ME["id"])
        assert (guild.role_names()[ADMINS], guild.rank("5", [ADMINS])) == ("mods", "admin")
        assert guild.apply("GUILD_ROLE_DELETE", {"role_id": ADMINS}, ME["id"])
        assert guild.rank("5", [ADMINS]) == "member"
        assert guild.apply("GUILD_MEMBER_UPDATE", member(who=ME, roles=("9",)), ME["id"])
        assert guild.mine == ["9"]
        assert guild.apply("GUILD_UPDATE", {"name": "Park", "owner_id": "5"}, ME["id"])
        assert (guild.name, guild.rank("5", [])) == ("Park", "owner")


NUMBER = st.integers(1, 10**18).map(str)
NAMED = st.text("abcdefg", min_size=1, max_size=8)
SEGMENT = st.one_of(
    st.builds(
        lambda text: {"type": "text", "data": {"text": text}},
        st.text(min_size=1).filter(lambda text: not set(text) & set("<>@")),
    ),
    st.builds(lambda id, name: {"type": "mention", "data": {"id": id, "name": name}}, NUMBER, NAMED),
    st.builds(lambda id, name: {"type": "discord.role", "data": {"id": id, "name": name}}, NUMBER, NAMED),
    st.builds(lambda id, name: {"type": "discord.channel", "data": {"id": id, "name": name}}, NUMBER, NAMED),
    st.builds(lambda id, name: {"type": "emoji", "data": {"id": id, "name": name}}, NUMBER, NAMED),
    st.builds(lambda id, name: {"type": "emoji", "data": {"id": id, "name": name, "animated": True}}, NUMBER, NAMED),
    st.builds(lambda id, name: {"type": "discord.command", "data": {"id": id, "name": name}}, NUMBER, NAMED),
    st.builds(lambda at: {"type": "discord.time", "data": {"unix": str(at)}}, st.integers(-(10**10), 10**10)),
    st.builds(
        lambda at, style: {"type": "discord.time", "data": {"unix": str(at), "style": style}},
        st.integers(0, 10**10),
        st.sampled_from("tTdDfFR"),
    ),
    st.sampled_from([{"type": "mention_all", "data": {}}, {"type": "mention_all", "data": {"name": "here"}}]),
)


def _merged(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for part in parts:
        if made and part["type"] == made[-1]["type"] == "text":
            made[-1] = {"type": "text", "data": {"text": made[-1]["data"]["text"] + part["data"]["text"]}}
        else:
            made.append(part)
    return made


def _names(parts: list[dict[str, Any]]) -> markup.Names:
    def of(type: str) -> dict[str, str]:
        return {part["data"]["id"]: part["data"]["name"] for part in parts if part["type"] == type}

    return markup.Names(of("mention"), of("discord.role"), of("discord.channel"), everyone=True)


class TestMarkup:
    @settings(suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(SEGMENT, max_size=6))
    def test_segments_survive_the_way_to_discord_and_back(self, parts: list[dict[str, Any]]) -> None:
        wanted = _merged(parts)
        names = _names(wanted)
        same = {
            (kind, id): name for kind in ("users", "roles", "channels") for id, name in getattr(names, kind).items()
        }
        kinds = {"mention": "users", "discord.role": "roles", "discord.channel": "channels"}
        for part in wanted:  # one id has one name
            if part["type"] in kinds:
                part["data"]["name"] = same[kinds[part["type"]], part["data"]["id"]]
        text = "".join(markup.content(part, markup.Allowed()) or "" for part in wanted)
        assert markup.segments(text, names) == wanted

    @given(st.text(), st.booleans())
    def test_text_survives_the_way_through_segments(self, text: str, everyone: bool) -> None:
        parts = markup.segments(text, markup.Names(everyone=everyone))
        assert "".join(markup.content(part, markup.Allowed()) or "" for part in parts) == text

    def test_only_segments_ping(self) -> None:
        allowed = markup.Allowed()
        said = [{"type": "text", "data": {"text": "<@5> @everyone"}}, {"type": "mention", "data": {"id": "7"}}]
        assert "".join(markup.content(part, allowed) or "" for part in said) == "<@5> @everyone<@7>"
        assert allowed.as_dict() == {"parse": [], "users": ["7"], "replied_user": False}


def test_an_invitation_to_an_activity_is_no_sign_of_a_missing_intent() -> None:
    empty = {"id": "5", "channel_id": "6", "guild_id": "8", "author": {"id": "7"}, "content": "", "mentions": []}
    assert incoming.is_blank(empty) and incoming.is_hidden(empty, "1")
    for more in (
        {"activity": {"type": 3}},
        {"application": {"id": "9"}},
        {"guild_id": None},
        {"mentions": [{"id": "1"}]},
    ):
        assert incoming.is_blank({**empty, **more}) and not incoming.is_hidden({**empty, **more}, "1"), more


def test_a_thread_that_nobody_told_of_is_one_all_the_same() -> None:
    said = {"id": "5", "channel_id": "6", "guild_id": "8", "author": {"id": "7", "username": "ann"}, "content": "hi"}
    guild = Guild.created({"id": "8", "channels": [], "threads": [], "roles": []}, "1")
    for channel_type, thread in ((11, "6"), (0, None)):
        found = incoming.message({**said, "channel_type": channel_type}, account="main", me="1", guild=guild)
        assert found.get("thread") == thread


KEYS = (
    "attachments", "author", "channel_id", "content", "guild_id", "id", "member", "mention_roles", "mentions",
    "message_reference", "message_snapshots", "poll", "sticker_items", "type",
)  # fmt: skip
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=20,
)


@given(ANYTHING.filter(lambda value: isinstance(value, dict)))
def test_nonsense_raises_nothing_but_ordinary_errors(data: Any) -> None:
    try:
        if not incoming.ignored(data):
            read({"id": "5", "channel_id": "6", "author": {"id": "7"}, **data})
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, PayloadError):
        return
