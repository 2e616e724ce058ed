"""What the operator configured, resolved for one message.

`config/heartflow.toml` holds the values for everyone; `[overrides.platform.<name>]`, `[overrides.group.<id>]` and
`[overrides.sender.<id>]` change them for some. The narrowest table that sets a key wins: sender, then group, then
platform, then the value for everyone. Ids may be qualified (`"qq:12"`), which beats the bare id. Blacklists add up:
nobody is freed by a narrower table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import lumia

from .filter import Limits
from .message import Message

log = logging.getLogger(__name__)

T = TypeVar("T")
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
    trigger_threshold: float | None = Field(None, ge=0, le=1)
    persona: str | None = None
    daily_tokens: int | None = Field(None, ge=0, le=10**12)
    daily_cost: float | None = Field(None, ge=0, le=10**6)


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
    trigger_threshold: float

    def answers(self, message: Message) -> bool:
        """Tell whether `message` is answered without asking whether the bot is meant."""
        local = self.reply_in_groups == "auto" and message.local
        return message.addressed or local or self.reply_in_groups == "always"


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
        bots=frozenset(map(str, config.bots)),
    )
    return Settings(limits, value("reply_in_groups"), value("persona"), value("trigger_threshold"))


def parse(raw: Mapping[str, Any]) -> Overrides:
    """Return the typed override tables.

    Raises `lumia.errors.ConfigValueError` naming file, key, value and what is allowed.
    """
    try:
        return Overrides.model_validate(raw)
    except ValidationError as error:
        raise lumia.errors.ConfigValueError(_explained(error)) from error


class LastValid(Generic[T]):
    """What a setting means that more than its schema must hold for: the newest valid value.

    A hand-made mistake in a running bot is logged once and changes nothing until it is mended (spec §8, DESIGN §10).
    read: gives the meaning of a value, or raises `lumia.errors.ConfigValueError`. first: in force until one is valid.
    """

    def __init__(self, read: Callable[[Any], T], first: T) -> None:
        self._read, self._good = read, first
        self._seen: Any = None

    def of(self, raw: Any) -> T:
        """Return what `raw` means, or the last valid value when it is wrong."""
        if raw != self._seen:
            self._seen = raw
            try:
                self._good = self._read(raw)
            except lumia.errors.ConfigValueError as error:
                log.warning("%s; the last valid value stays in force", error)
        return self._good


class LastGood(LastValid[Overrides]):
    """The parsed overrides of the newest valid configuration."""

    def __init__(self) -> None:
        super().__init__(parse, Overrides())


def _explained(error: ValidationError) -> str:
    found = error.errors()[0]
    key = ".".join(("overrides", *map(str, found["loc"])))
    return (
        f"config/heartflow.toml: {key} = {found['input']!r} is wrong: {found['msg']}; an override table is named "
        f"platform, group or sender and may set {', '.join(Override.model_fields)}"
    )
