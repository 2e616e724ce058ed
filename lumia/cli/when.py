"""Moments as people write them on a command line: `2h`, `yesterday 14:00`, `2026-11-22T10:30Z`."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta

from lumia.errors import WhenError

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_AGO = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_EPOCH = re.compile(r"@\d+(?:\.\d+)?")
_CLOCK = re.compile(r"\d{1,2}:\d{2}(?::\d{2})?")
_DAYS = {"today": 0, "yesterday": 1}
_HELP = "write `2h` or `1d12h` (ago), `14:30`, `yesterday 14:00`, `2026-11-22T10:30`, or `@` and seconds since 1970"


def parse_when(text: str, now: float) -> float:
    """Return the moment `text` names as seconds since 1970.

    A duration (`90s`, `30m`, `2h`, `3d`, `1w`, `1d12h`, also with ` ago`) counts back from `now`; `now`, `today` and
    `yesterday` (their midnight, or with a time of day), a time of day alone (today), an ISO 8601 date or date and time,
    and `@` with seconds since 1970 are taken, too. Without an offset they are in this machine's time zone.

    Raises `WhenError` for anything else.
    """
    words = " ".join(text.lower().split())
    try:
        found = _parsed(words, text.strip(), now)
    except (ValueError, OverflowError, OSError):
        found = None
    if found is None or found < 0:
        shown = text if len(text) <= 40 else f"{text[:40]}…"
        raise WhenError(f"{shown!r} is no time: {_HELP}")
    return found


def _parsed(words: str, text: str, now: float) -> float | None:
    if words == "now":
        return now
    if _EPOCH.fullmatch(words):
        return float(words[1:])
    ago = words.removesuffix(" ago")
    if _AGO.fullmatch(ago):
        return now - sum(float(number) * UNITS[unit] for number, unit in _PART.findall(ago))
    day, _, clock = words.partition(" ")
    if day in _DAYS:
        return _on_day(_DAYS[day], clock or "0:00", now)
    return _on_day(0, words, now) if _CLOCK.fullmatch(words) else datetime.fromisoformat(text).timestamp()


def _on_day(back: int, clock: str, now: float) -> float | None:
    """Return a time of day `back` days before the one of `now`."""
    if not _CLOCK.fullmatch(clock):
        return None
    day: date = datetime.fromtimestamp(now, UTC).astimezone().date() - timedelta(days=back)
    return datetime.combine(day, time.fromisoformat(clock.rjust(len(clock) + clock.index(":") % 2, "0"))).timestamp()
