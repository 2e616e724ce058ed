"""What the operator configured, resolved for one message.

`config/heartflow.toml` holds the values for everyone; `[overrides.platform.<name>]`, `[overrides.group.<id>]` and
`[overrides.sender.<id>]` change them for some. The narrowest table that sets a key wins: sender, then group, then
platform, then the value for everyone. Ids may be qualified (`"qq:12"`), which beats the bare id. Blacklists add up:
nobody is freed by a narrower table.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import lumia

from .filter import Limits
from .message import Message

log = logging.getLogger(__name__)

LOCAL_PLATFORMS = frozenset({"console", "webhook"})
"""Where whoever writes is there for the bot, so that `reply_in_groups = "auto"` answers everything."""

GroupReply = Literal["auto", "always", "mention"]


class Override(BaseModel):
    """One override table; what it leaves out is inherited."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True, allow_inf_nan=False)

    min_reply_interval: float | None = Field(None, ge=0, le=86400)
    rate_limit: int | None = Field(None, ge=0, le=1000)
    rate_window: float | None = Field(None, ge=1, le=86400)
    handled_types: frozenset[str] | None = None
    blacklist: frozenset[str] = frozenset()
    reply_in_groups: GroupReply | None = None
    persona: str | None = None


class Overrides(BaseModel):
    """All override tables, by platform name, group id and sender id."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    platform: dict[str, Override] = {}
    group: dict[str, Override] = {}
    sender: dict[str, Override] = {}

    def matching(self, message: Message) -> Iterator[Override]:
        """Yield the tables that apply to `message`, narrowest first."""
        places = [(self.sender, message.keys(message.sender_id))]
        if not message.private:
            places.append((self.group, message.keys(message.chat_id)))
        places.append((self.platform, (message.platform,)))
        for tables, keys in places:
            yield from (tables[key] for key in keys if key in tables)


@dataclass(frozen=True, slots=True)
class Settings:
    """The values that hold for one message."""

    limits: Limits
    reply_in_groups: GroupReply
    persona: str

    def answers(self, message: Message, *, engaged: bool) -> bool:
        """Tell whether the plain responder answers `message`; `engaged` is the mention L0 found."""
        if engaged or message.addressed:
            return True
        local = self.reply_in_groups == "auto" and message.platform in LOCAL_PLATFORMS
        return local or self.reply_in_groups == "always"


def resolve(config: Any, overrides: Overrides, message: Message) -> Settings:
    """Return the settings for `message` from the plugin's `config` and its `overrides`."""
    tables = list(overrides.matching(message))

    def value(name: str) -> Any:
        return next((got for table in tables if (got := getattr(table, name)) is not None), getattr(config, name))

    banned = frozenset(map(str, config.blacklist)).union(*(table.blacklist for table in tables))
    limits = Limits(
        min_reply_interval=value("min_reply_interval"),
        rate_limit=value("rate_limit"),
        rate_window=value("rate_window"),
        handled_types=frozenset(value("handled_types")),
        blacklist=banned,
    )
    return Settings(limits, value("reply_in_groups"), value("persona"))


def parse(raw: Mapping[str, Any]) -> Overrides:
    """Return the typed override tables.

    Raises `lumia.errors.ConfigValueError` naming file, key, value and what is allowed.
    """
    try:
        return Overrides.model_validate(raw)
    except ValidationError as error:
        raise lumia.errors.ConfigValueError(_explained(error)) from error


class LastGood:
    """The parsed overrides of the newest valid configuration.

    A hand-made mistake in a running bot is logged once and changes nothing until it is mended (spec §8, DESIGN §10).
    """

    def __init__(self) -> None:
        self._seen: Mapping[str, Any] | None = None
        self._good = Overrides()

    def of(self, raw: Mapping[str, Any]) -> Overrides:
        """Return the overrides in `raw`, or the last valid ones when `raw` is wrong."""
        if raw != self._seen:
            self._seen = raw
            try:
                self._good = parse(raw)
            except lumia.errors.ConfigValueError as error:
                log.warning("%s; the last valid overrides stay in force", error)
        return self._good


def _explained(error: ValidationError) -> str:
    found = error.errors()[0]
    key = ".".join(("overrides", *map(str, found["loc"])))
    return (
        f"config/heartflow.toml: {key} = {found['input']!r} is wrong: {found['msg']}; an override table is named "
        f"platform, group or sender and may set {', '.join(Override.model_fields)}"
    )
