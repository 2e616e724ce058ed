"""Who does what when: commitments brought to one form, so that variants of the same one have the same hash.

"Let's meet on Friday" and "we are meeting this Friday evening", said by one person in one week, meet in one commitment.
Days are understood in English, Chinese, Japanese, German, Spanish and French; the hour is left out on purpose.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo

from . import texts

_WEEKDAYS = (
    "monday mon montag lunes lundi 星期一 周一 礼拜一 月曜日 月曜",
    "tuesday tue tues dienstag martes mardi 星期二 周二 礼拜二 火曜日 火曜",
    "wednesday wed mittwoch miércoles mercredi 星期三 周三 礼拜三 水曜日 水曜",
    "thursday thu thur thurs donnerstag jueves jeudi 星期四 周四 礼拜四 木曜日 木曜",
    "friday fri freitag viernes vendredi 星期五 周五 礼拜五 金曜日 金曜",
    "saturday sat samstag sonnabend sábado samedi 星期六 周六 礼拜六 土曜日 土曜",
    "sunday sun sonntag domingo dimanche 星期日 星期天 周日 周天 礼拜天 日曜日 日曜",
)
_NEAR = {
    0: "today tonight heute hoy aujourd'hui 今天 今晚 今日",
    1: "tomorrow mañana demain 明天 明晚 明日",
    2: "übermorgen 后天 後天 明後日 あさって",
}
_MONTH_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec"
_MONTHS = _MONTH_NAMES.split()
_NEXT = re.compile(r"(?:\b(?:next|nächst\w+|próxim\w+|prochain\w*)\b|下(?:个|一个)?|来週)\s*$", re.IGNORECASE)
_NEXT_AFTER = re.compile(r"\s+(?:prochain\w*|que viene)\b", re.IGNORECASE)
_ISO = re.compile(r"\b(\d{4})-(\d{1,2})-(\d{1,2})\b")
_CHINESE = re.compile(r"(\d{1,2})\s*月\s*(\d{1,2})\s*[日号號]")
_MONTH = "|".join(_MONTHS)
_NAMED = re.compile(rf"\b(?:({_MONTH})[a-z]*\.?\s+(\d{{1,2}})|(\d{{1,2}})\.?\s+({_MONTH})[a-z]*)\b")
_IN_DAYS = re.compile(r"\b(?:in|en|dans)\s+(\d{1,3})\s+(?:days?|tagen?|días|jours)\b|(\d{1,3})\s*(?:天|日)后")
_FILLER_WORDS = """
a an the i we you he she they it me us my our your let's lets let will shall would can could should is are be am do
to at on in for of and or this that next coming evening morning afternoon night noon still please up with about so
going gonna plan planned have has had remember don't forget not by o'clock pm am um uhr le la el los las un una
der die das ein eine wir ich im nous je à au y de en
我 你 您 他 她 们 的 了 吗 呢 吧 在 要 和 跟 一 起 上 下 早 晚 中 午 点 今 明 后 天 日
一起 早上 晚上 中午 上午 下午 我们 你们
は が を に で と の も ます
"""
_FILLERS = frozenset(texts.stem(word) for word in _FILLER_WORDS.split())
_NO_WORDS = re.compile("[我你您他她们的了吗呢吧和跟はがを]+")


@dataclass(frozen=True)
class Commitment:
    """Something somebody means to do. who: ids of those concerned, any order. what: in their words.

    when: a day as YYYY-MM-DD, or a word for a day that `normalised` resolves against the moment it was said.
    """

    who: tuple[str, ...]
    what: str
    when: str

    def normalised(self, said_at: float, zone: tzinfo | None = None) -> Normalised:
        """Return the one form of it; said_at: seconds since 1970, zone: the bot's time zone."""
        days = days_in(self.when, said_at, zone)
        when = days[0].isoformat() if days else " ".join(texts.words(self.when))
        return Normalised(tuple(sorted(set(self.who))), content_words(self.what), when)


@dataclass(frozen=True)
class Normalised:
    """A commitment in its one form: who sorted, what as sorted stems without fillers and times, when as a day."""

    who: tuple[str, ...]
    what: tuple[str, ...]
    when: str

    @property
    def digest(self) -> str:
        """Return `sha256:…` over who, what and when."""
        return _digest("|".join((",".join(self.who), " ".join(self.what), self.when)))

    def keys(self) -> set[str]:
        """Return what a message may be looked up by: a hash for each person, each telling word and the day.

        The words of a commitment vary more than its day and its people, so one shared word is enough. A commitment
        without people concerns everyone.
        """
        return {_key(who, word, self.when) for who in self.who or ("",) for word in self.what}


def keys_of(text: str, sender: str, said_at: float, zone: tzinfo | None = None) -> set[str]:
    """Return the hashes under which commitments that `text` may be about are kept; none when it names no day."""
    days = {day.isoformat() for day in days_in(text, said_at, zone)}
    words = content_words(text)
    return {_key(who, word, day) for who in {sender, ""} for word in words for day in days}


def content_words(text: str) -> tuple[str, ...]:
    """Return the stems that carry what `text` is about, sorted: no fillers, no days, no hours."""
    plain = text
    for found in reversed(list(_mentions(text))):
        plain = f"{plain[: found.start()]} {plain[found.end() :]}"
    telling = texts.terms(_NO_WORDS.sub(" ", plain))
    return tuple(sorted(term for term in telling if term not in _FILLERS and not term.isdigit()))


def days_in(text: str, said_at: float, zone: tzinfo | None = None) -> list[date]:
    """Return the days `text` names, in its order, seen from the moment it was said.

    A weekday is its next coming; "next Friday" may be that or the one a week later, so both are given.
    """
    today = datetime.fromtimestamp(said_at, UTC).astimezone(zone).date()  # None is the machine's own zone
    days: list[date] = []
    for found in _mentions(text):
        for day in _days(text, found, today):
            if day not in days:
                days.append(day)
    return days


def _table() -> dict[str, int | tuple[int]]:
    table: dict[str, int | tuple[int]] = {}
    for number, names in enumerate(_WEEKDAYS):
        table.update(dict.fromkeys(names.split(), (number,)))
    for ahead, names in _NEAR.items():
        table.update(dict.fromkeys(names.split(), ahead))
    return table


_WORDS = _table()
_LATIN = "|".join(sorted((name for name in _WORDS if name[0] < "\u3000"), key=len, reverse=True))
_CJK = "|".join(sorted((name for name in _WORDS if name[0] >= "\u3000"), key=len, reverse=True))
_WORD = re.compile(rf"\b(?:{_LATIN})\b|(?:{_CJK})", re.IGNORECASE)


def _mentions(text: str) -> Iterator[re.Match[str]]:
    """Yield what names a day in `text`, from its start, without overlaps."""
    found = [match for pattern in (_ISO, _CHINESE, _IN_DAYS, _WORD) for match in pattern.finditer(text)]
    found += list(_NAMED.finditer(text.casefold())) if len(text.casefold()) == len(text) else []
    end = -1
    for match in sorted(found, key=lambda match: (match.start(), -match.end())):
        if match.start() >= end:
            end = match.end()
            yield match


def _days(text: str, found: re.Match[str], today: date) -> Iterator[date]:
    if found.re is _WORD:
        meant = _WORDS[found[0].casefold()]
        if isinstance(meant, int):
            yield today + timedelta(meant)
            return
        coming = today + timedelta((meant[0] - today.weekday()) % 7)
        yield coming
        if _NEXT.search(text[: found.start()]) or _NEXT_AFTER.match(text[found.end() :]):
            yield coming + timedelta(7)
    elif found.re is _IN_DAYS:
        yield today + timedelta(int(found[1] or found[2]))
    elif found.re is _ISO:
        yield from _valid(int(found[1]), int(found[2]), int(found[3]))
    else:
        month, day = _month_and_day(found)
        yield from (one for one in _valid(today.year, month, day) if one >= today)
        if not any(one >= today for one in _valid(today.year, month, day)):
            yield from _valid(today.year + 1, month, day)


def _month_and_day(found: re.Match[str]) -> tuple[int, int]:
    if found.re is _CHINESE:
        return int(found[1]), int(found[2])
    return _MONTHS.index(found[1] or found[4]) + 1, int(found[2] or found[3])


def _valid(year: int, month: int, day: int) -> Iterator[date]:
    try:
        yield date(year, month, day)
    except ValueError:
        return


def _key(who: str, word: str, when: str) -> str:
    return _digest(f"{who}|{word}|{when}")[7:23]


def _digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()}"
