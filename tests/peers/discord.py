"""A Discord on loopback: Gateway, REST API and the sender of interactions, with faults on demand.

    with Discord() as discord:
        config = {"discord": {"accounts": {"main": discord.settings}}}
        …
        discord.say("hello")                                  # somebody writes in the server's channel
        discord.gateway.reconnect()                           # op 7; also invalidate, end(4009), cut, ack = False
        discord.rest.script("POST", "/messages", Fault.limited(0.3), Fault(cut="after"))
        discord.rest.limit("POST", "/messages", 2, 0.5)       # a bucket of two messages per half second and channel
        discord.rest.posted(discord.channel)                  # what the bot wrote
        discord.interact(url, discord.command("ask", "why?")) # a signed post, as Discord sends it

It behaves as tests assert of it: sessions are resumed with everything that was missed, a nonce is taken once, an
interaction's token is good once its answer was read. tests/adapters/discord/test_peer.py holds it against discord.py.
"""

from __future__ import annotations

import json
import time
from types import TracebackType
from typing import Any, Self

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.peers import discord_world as world
from tests.peers.discord_gateway import Gateway
from tests.peers.discord_http import Fault
from tests.peers.discord_rest import Rest
from tests.peers.discord_world import snowflake

__all__ = ["ADA", "APPLICATION", "ME", "TOKEN", "Discord", "Fault"]

TOKEN = "MTIzNDU2Nzg5MDEyMzQ1Njc4.G1aBcD.not-a-real-token-of-anybody-0123456789"
APPLICATION = "1100000000000000001"
ME = world.user("1100000000000000002", "lumia-bot", shown="Lumia", bot=True)
ADA = world.user("200000000000000001", "ada", shown="Ada Lovelace")
GUILD, CHANNEL, THREAD, DM = "300000000000000001", "300000000000000002", "300000000000000003", "300000000000000004"
BOT_ROLE, ADMINS = "300000000000000005", "300000000000000006"


class Discord:
    """One application's bot, one server with a channel and a thread, and one person, Ada."""

    guild, channel, thread, dm = GUILD, CHANNEL, THREAD, DM

    def __init__(self) -> None:
        self.gateway = Gateway(TOKEN, ME, APPLICATION)
        self.rest = Rest(TOKEN, ME, APPLICATION)
        self.rest.gateway_url = self.gateway.url
        self.rest.channels = {CHANNEL: "guild", THREAD: "guild", DM: "dm"}
        self.rest.made = self._echo
        self._key = Ed25519PrivateKey.generate()
        self.gateway.guilds = [
            world.guild(
                GUILD, "Bletchley", owner="9", threads=[world.channel(THREAD, "bombes", type=11, parent=CHANNEL)],
                channels=[world.channel(CHANNEL, "general")],
                roles=[world.role(BOT_ROLE, "Lumia", bot=ME["id"]), world.role(ADMINS, "admins", permissions=8)],
                members=[world.member(who=ME, roles=(BOT_ROLE,))],
            )
        ]  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.gateway.close()
        self.rest.close()

    @property
    def public_key(self) -> str:
        """The application's key, in hex."""
        return self._key.public_key().public_bytes_raw().hex()

    @property
    def settings(self) -> dict[str, Any]:
        """What config/discord.toml says in [accounts.<name>]."""
        return {
            "token": TOKEN, "public_key": self.public_key, "application_id": APPLICATION, "api_url": self.rest.url,
            "owner": ADA["id"],
        }  # fmt: skip

    def say(
        self, text: str, *, channel: str = CHANNEL, by: dict[str, Any] = ADA, only: int | None = None, **more: Any
    ) -> dict[str, Any]:
        """Let somebody write a message; a direct one in `dm`. only: of its frame no more than so many bytes arrive."""
        where = {"guild_id": "" if channel == DM else GUILD, **more}
        said = world.message(by, channel, text, **where)
        self.gateway.dispatch("MESSAGE_CREATE", said, only=only)
        return said

    def _echo(self, made: dict[str, Any]) -> None:
        """Tell the bot of its own message, as Discord does."""
        where = {"guild_id": GUILD} if made["channel_id"] in (CHANNEL, THREAD) else {}
        self.gateway.dispatch("MESSAGE_CREATE", {**made, **where})

    def command(self, name: str, text: str = "", *, channel: str = CHANNEL, **more: Any) -> dict[str, Any]:
        """Return a slash command of Ada's with one text option, as Discord posts it."""
        options = [{"type": 3, "name": "text", "value": text}] if text else []
        data = {"id": snowflake(), "name": name, "type": 1, "options": options}
        return self.interaction(2, data, channel=channel, **more)

    def interaction(self, type: int, data: Any = None, *, channel: str = CHANNEL, **more: Any) -> dict[str, Any]:
        """Return an interaction and know its token from now on."""
        id = snowflake()
        made: dict[str, Any] = {
            "id": id, "application_id": APPLICATION, "type": type, "token": f"aW50ZXJh{id}-secret", "version": 1,
            "channel_id": channel, "locale": "en-US", "entitlements": [], "context": 1 if channel == DM else 0,
            "authorizing_integration_owners": {}, "attachment_size_limit": 10485760, "app_permissions": "0",
        }  # fmt: skip
        if data is not None:
            made["data"] = data
        if channel == DM:
            made |= {"user": ADA, "channel": {"id": DM, "type": 1}}
        else:
            kind = {"id": channel, "name": "general", "type": 11 if channel == THREAD else 0}
            made |= {
                "guild_id": GUILD,
                "channel": kind,
                "member": {**world.member(who=ADA, nick="Countess"), "permissions": "8"},
            }
        made |= more
        self.rest.interactions[made["token"]] = {"id": id, "channel_id": channel}
        return made

    def sign(self, body: bytes, timestamp: str) -> str:
        """Return the signature of a post, in hex."""
        return self._key.sign(timestamp.encode() + body).hex()

    def interact(self, url: str, data: dict[str, Any], *, signature: str | None = None) -> httpx.Response:
        """Post an interaction to the bot; what it answers counts as its first answer."""
        body, timestamp = json.dumps(data).encode(), str(int(time.time()))
        headers = {
            "Content-Type": "application/json", "User-Agent": "Discord-Interactions/1.0 (+https://discord.com)",
            "X-Signature-Ed25519": self.sign(body, timestamp) if signature is None else signature,
            "X-Signature-Timestamp": timestamp,
        }  # fmt: skip
        answer = httpx.post(url, content=body, headers=headers, timeout=5, trust_env=False)
        known = self.rest.interactions.get(data.get("token", ""))
        if answer.status_code == 200 and known is not None:
            known["answer"] = answer.json()
        return answer
