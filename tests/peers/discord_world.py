"""The people, servers and messages of a made-up Discord, in the shapes of its documentation."""

from __future__ import annotations

import datetime as dt
import itertools
import time
from typing import Any

EPOCH_MS = 1_420_070_400_000
_count = itertools.count()


def snowflake(at: float | None = None) -> str:
    """Return a new id; at: seconds since 1970, now unless given."""
    ms = int((time.time() if at is None else at) * 1000) - EPOCH_MS
    return str((ms << 22) | (next(_count) & 0x3FFFFF))


def user(id: str, username: str, *, shown: str | None = None, bot: bool = False) -> dict[str, Any]:
    """Return a user object."""
    made: dict[str, Any] = {
        "id": id, "username": username, "discriminator": "0", "global_name": shown, "avatar": None, "public_flags": 0,
    }  # fmt: skip
    return {**made, "bot": True} if bot else made


def member(
    *, nick: str | None = None, roles: tuple[str, ...] = (), who: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return a member object; a message's has no user in it."""
    made: dict[str, Any] = {
        "nick": nick, "roles": list(roles), "joined_at": "2024-03-01T12:00:00.000000+00:00", "deaf": False,
        "mute": False, "flags": 0, "avatar": None, "banner": None, "pending": False, "premium_since": None,
        "communication_disabled_until": None,
    }  # fmt: skip
    return {**made, "user": who} if who else made


def role(id: str, name: str, *, permissions: int = 0, bot: str = "") -> dict[str, Any]:
    """Return a role object; bot: the bot it was made for."""
    made: dict[str, Any] = {
        "id": id, "name": name, "permissions": str(permissions), "position": 1, "color": 0, "hoist": False,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
        "managed": bool(bot), "mentionable": True, "flags": 0, "icon": None, "unicode_emoji": None,
    }  # fmt: skip
    return {**made, "tags": {"bot_id": bot}} if bot else made


def channel(id: str, name: str, *, type: int = 0, guild: str = "", parent: str | None = None) -> dict[str, Any]:
    """Return a channel or thread object."""
    made: dict[str, Any] = {
        "id": id, "name": name, "type": type, "position": 0, "permission_overwrites": [], "parent_id": parent,
        "nsfw": False, "topic": None, "last_message_id": None, "rate_limit_per_user": 0, "flags": 0,
    }  # fmt: skip
    if type in (10, 11, 12):
        made |= {
            "owner_id": "1", "message_count": 1, "member_count": 1,
            "thread_metadata": {"archived": False, "auto_archive_duration": 1440, "locked": False,
                                "archive_timestamp": "2024-03-01T12:00:00.000000+00:00"},
        }  # fmt: skip
    return {**made, "guild_id": guild} if guild else made


def guild(
    id: str,
    name: str,
    *,
    owner: str,
    channels: list[dict[str, Any]],
    roles: list[dict[str, Any]],
    members: list[dict[str, Any]],
    threads: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Return a guild as GUILD_CREATE brings it."""
    everyone = role(id, "@everyone")
    return {
        "id": id, "name": name, "owner_id": owner, "channels": channels, "roles": [everyone, *roles],
        "members": members, "threads": threads or [], "emojis": [], "stickers": [], "features": [], "voice_states": [],
        "presences": [], "stage_instances": [], "guild_scheduled_events": [], "soundboard_sounds": [],
        "member_count": len(members), "large": False, "unavailable": False, "joined_at": "2024-03-01T12:00:00+00:00",
        "icon": None, "splash": None, "banner": None, "description": None, "afk_channel_id": None, "afk_timeout": 300,
        "verification_level": 0, "default_message_notifications": 0, "explicit_content_filter": 0, "mfa_level": 0,
        "nsfw_level": 0, "premium_tier": 0, "premium_subscription_count": 0, "preferred_locale": "en-US",
        "system_channel_id": None, "system_channel_flags": 0, "rules_channel_id": None, "application_id": None,
        "public_updates_channel_id": None, "vanity_url_code": None, "max_members": 1000,
        "premium_progress_bar_enabled": False, "safety_alerts_channel_id": None, "discovery_splash": None,
    }  # fmt: skip


def message(
    author: dict[str, Any], channel_id: str, content: str, *, id: str | None = None, guild_id: str = "", **more: Any
) -> dict[str, Any]:
    """Return a message object as MESSAGE_CREATE brings it; more: any of its other fields."""
    made: dict[str, Any] = {
        "id": id or snowflake(), "channel_id": channel_id, "author": author, "content": content, "type": 0,
        "timestamp": dt.datetime.now(dt.UTC).isoformat(), "edited_timestamp": None, "tts": False, "pinned": False,
        "mention_everyone": False, "mentions": [], "mention_roles": [], "attachments": [], "embeds": [],
        "components": [], "flags": 0, "channel_type": 0 if guild_id else 1,
    }  # fmt: skip
    if guild_id:
        made |= {"guild_id": guild_id, "member": member()}
    return {**made, **more}
