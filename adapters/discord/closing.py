"""What to do after a Gateway connection has ended (topics/opcodes-and-status-codes.mdx)."""

from __future__ import annotations

from dataclasses import dataclass

OURS = 4000
"""The code this side closes with: anything but 1000 and 1001 leaves the session resumable."""

RESUME, IDENTIFY, REFUSED = "resume", "identify", "refused"
_PORTAL = "https://discord.com/developers/applications, your application, Bot"
_REFUSALS = {
    4004: f"Discord refuses the token: reset it at {_PORTAL}, Reset Token, and paste the new one",
    4010: "the shard's number is wrong: check shards in config/discord.toml",
    4011: "the bot is in too many servers for this many connections: raise shards in config/discord.toml",
    4012: "Discord no longer speaks this version of the Gateway: update Lumia",
    4013: "the intents are no valid number: check intents in config/discord.toml (37377 is the default)",
    4014: (
        f"an intent is not switched on: enable Message Content Intent (and others you ask for) at {_PORTAL}, "
        "Privileged Gateway Intents, or lower intents in config/discord.toml"
    ),
}
_FRESH = (4007, 4009)


@dataclass(frozen=True)
class Next:
    """How to go on. step: resume, identify or refused. why: for people. wait: seconds before it, at least."""

    step: str
    why: str
    wait: float = 0.0


def after(code: int | None, reason: str = "") -> Next:
    """Return how to go on after a close code; None: the connection was cut."""
    told = f": {reason}" if reason else ""
    if code in _REFUSALS:
        return Next(REFUSED, f"{_REFUSALS[code]} (code {code}{told})")
    if code in _FRESH:
        return Next(IDENTIFY, f"Discord ended the session with {code}{told}")
    return Next(RESUME, "the connection was cut" if code is None else f"the connection ended with {code}{told}")
