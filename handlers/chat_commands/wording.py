"""What the commands say, in English and Chinese, and how what people wrote is quoted in it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

EN, ZH = "en", "zh"
_HAN, _KANA = re.compile(r"[\u3400-\u9fff]"), re.compile(r"[\u3040-\u30ff]")
_NOT_SHOWN = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]+")

_FOLDER = Path(__file__).parent / "texts"


@cache
def texts(language: str) -> Mapping[str, str]:
    """Return all texts of a language by key; `texts/*.toml` holds them."""
    found: dict[str, str] = tomllib.loads((_FOLDER / f"{language}.toml").read_text("utf-8"))
    return found


def say(language: str, key: str, **values: object) -> str:
    """Return the text `key` with its values filled in; what people wrote goes through `shown` before."""
    return texts(language)[key].format(**values)


def language_of(said: Iterable[str]) -> str | None:
    """Return zh when one of these texts is Chinese, en when they have letters of another script, else None."""
    letters = False
    for text in said:
        if _HAN.search(text) and not _KANA.search(text):
            return ZH
        letters = letters or any(map(str.isalpha, text))
    return EN if letters else None


def shown(text: object, most: int = 60) -> str:
    """Return what somebody wrote, on one line, cut, and so that it mentions nobody and hides nothing."""
    line = _NOT_SHOWN.sub(" ", str(text)).strip().replace("@", "＠").replace("[CQ:", "［CQ:")
    return line if len(line) <= most else f"{line[: most - 1]}…"


def listed(language: str, names: Iterable[str], most: int = 30) -> str:
    """Return names with commas between them, at most so many and the number of the others."""
    every = [shown(name) for name in names]
    more = say(language, "more", count=len(every) - most) if len(every) > most else ""
    return ", ".join(every[:most]) + more


def duration(language: str, seconds: float) -> str:
    """Return a time in words, rounded to its two largest units: `1 h 5 min`."""
    left, parts = max(1, round(seconds)), []
    for size, en, zh in ((86400, "d", "天"), (3600, "h", "小时"), (60, "min", "分钟"), (1, "s", "秒")):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {zh if language == ZH else en}")
    return " ".join(parts[:2])
