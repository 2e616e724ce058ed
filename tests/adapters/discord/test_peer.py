"""discord.py, which nobody here wrote, talks to our Discord: it behaves like the one it stands for."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from tests.peers.discord import ME, TOKEN, Discord, Fault

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it imports audioop for voice
    import discord

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:discord")
Act = Callable[["Listener"], Awaitable[None]]


class Listener(discord.Client):
    """A bot that keeps what it sees."""

    def __init__(self) -> None:
        intents = discord.Intents(guilds=True, guild_messages=True, dm_messages=True, message_content=True)
        super().__init__(intents=intents, guild_ready_timeout=0.05)
        self.seen: asyncio.Queue[discord.Message] = asyncio.Queue()
        self.resumed = asyncio.Event()

    async def on_message(self, message: discord.Message) -> None:
        if message.author.id != int(ME["id"]):
            await self.seen.put(message)

    async def on_resumed(self) -> None:
        self.resumed.set()


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Discord]:
    with Discord() as running:
        monkeypatch.setattr(discord.http.Route, "BASE", running.rest.url)
        socket = discord.gateway.DiscordWebSocket
        monkeypatch.setattr(socket, "DEFAULT_GATEWAY", type(socket.DEFAULT_GATEWAY)(running.gateway.url))
        yield running


def with_client(act: Act) -> None:
    async def run() -> None:
        async with asyncio.timeout(15), Listener() as client:
            await client.login(TOKEN)
            task = asyncio.create_task(client.connect())
            try:
                await client.wait_until_ready()
                await act(client)
            finally:
                task.cancel()
                await asyncio.wait([task])

    asyncio.run(run())


def test_it_logs_in_and_knows_the_server(peer: Discord) -> None:
    async def act(client: Listener) -> None:
        assert client.user is not None
        assert client.user.name == "lumia-bot"
        guild = client.get_guild(int(peer.guild))
        assert guild is not None
        assert [channel.name for channel in guild.text_channels] == ["general"]
        assert [thread.name for thread in guild.threads] == ["bombes"]
        assert client.application is not None
        assert client.application.name == "Lumia"

    with_client(act)
    assert peer.gateway.identifies[0]["intents"] == 37377


def test_it_reads_messages_of_the_stream(peer: Discord) -> None:
    async def act(client: Listener) -> None:
        peer.say(f"hello <@{ME['id']}>", mentions=[ME])
        peer.say("psst", channel=peer.dm)
        first, second = await client.seen.get(), await client.seen.get()
        assert (first.author.display_name, first.clean_content) == ("Ada Lovelace", "hello @Lumia")
        assert first.mentions == [client.user]
        assert (second.content, second.guild) == ("psst", None)

    with_client(act)


def test_its_messages_edits_and_deletions_arrive(peer: Discord) -> None:
    async def act(client: Listener) -> None:
        channel = client.get_channel(int(peer.channel))
        assert isinstance(channel, discord.TextChannel)
        sent = await channel.send("one", file=discord.File(fp=_bytes(b"\x00\r\nabc\r\n"), filename="a.bin"))
        assert sent.attachments[0].size == 8
        assert (await sent.edit(content="two")).content == "two"
        await sent.reply("three")
        await sent.delete()
        with pytest.raises(discord.NotFound, match="10008"):
            await sent.edit(content="four")

    with_client(act)
    assert peer.rest.posted(peer.channel) == ["three"]
    assert peer.rest.requests("POST", "messages")[0].files == (("a.bin", b"\x00\r\nabc\r\n"),)


def test_it_waits_where_a_bucket_is_empty_and_where_a_429_says_so(peer: Discord) -> None:
    peer.rest.limit("POST", "/messages", 2, 0.3)
    peer.rest.script("POST", "/messages", Fault.limited(0.1))

    async def act(client: Listener) -> None:
        channel: Any = client.get_channel(int(peer.channel))
        for number in range(4):
            await channel.send(str(number))

    with_client(act)
    assert peer.rest.posted(peer.channel) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("how", ["reconnect", "cut", "code"])
def test_it_resumes_and_misses_nothing(peer: Discord, how: str) -> None:
    async def act(client: Listener) -> None:
        peer.say("before")
        await client.seen.get()
        if how == "reconnect":
            peer.gateway.reconnect()
        elif how == "cut":
            peer.gateway.cut()
        else:
            await asyncio.to_thread(peer.gateway.end, 4000)
        peer.say("meanwhile")
        assert (await client.seen.get()).content == "meanwhile"
        await client.resumed.wait()

    with_client(act)
    assert len(peer.gateway.identifies) == 1


def test_a_wrong_token_and_a_missing_intent_are_what_it_says_they_are(peer: Discord) -> None:
    async def login() -> None:
        client = Listener()
        async with client:
            await client.start("wrong")

    with pytest.raises(discord.LoginFailure):
        asyncio.run(login())
    peer.gateway.granted = 0

    async def start() -> None:
        async with Listener() as client:
            await client.start(TOKEN)

    with pytest.raises(discord.PrivilegedIntentsRequired):
        asyncio.run(start())


def _bytes(data: bytes) -> Any:
    import io

    return io.BytesIO(data)
