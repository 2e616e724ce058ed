"""What a line of a chat shows at no cost: it asks, it wants something done, it names somebody, it speaks to them.

Rules for Chinese, English and Japanese, and for questions in German, Spanish and French. They are meant for lines of a
chat: without capital letters, without question marks, in two languages at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from lumia.models import cues
from lumia.models.recall import is_question, language_of
from lumia.models.words import cjk, pattern

LONGEST = 600
"""Characters of a text that are looked at: its beginning and its end."""
SHORT = 9.0
"""Units (`units`) below which a question to everybody says too little to be one of facts."""


def asks(text: str) -> bool:
    """Tell whether `text` asks something."""
    bare = spaced(pattern(cues.URL).sub(" ", head_and_tail(text)).replace("\u2019", "'"))
    if pattern(cues.MARK).search(bare) or pattern(cues.EN_ASKS).search(bare):
        return True
    language = language_of(bare)
    dense = bool(cjk().search(bare))
    if dense and pattern(cues.ZH_ASKS).search(pattern(cues.EMBEDDED).sub(" ", bare)):
        return True
    if language.code == "ja":
        return bool(pattern(cues.JA_ASKS).search(bare))
    return language.code not in ("en", "zh") and is_question(bare, language)


def wants(text: str) -> bool:
    """Tell whether `text`, without the name before it, opens with something to be done, or says please."""
    whole = text[:LONGEST]
    bare = pattern(rf"\A[\s,，:：!！~～。.]*(?:(?:{cues.GREETINGS}|{cues.BEFORE_WISHES})[\s,，]*)*").sub("", whole)
    opening = pattern(rf"(?:{cues.WANTS_EN})\b|(?:{cues.WANTS_ZH})").match(bare)
    return bool(opening) or bool(pattern(rf"\b(?:please|pls|plz)\b|{cues.WANTS_JA}").search(whole))


def names(text: str, named: Iterable[str]) -> bool:
    """Tell whether `text` holds one of the names, as a word of its own where its script has such."""
    anywhere, _ = _patterns(frozenset(named))
    return bool(anywhere.search(head_and_tail(text)))


def called(text: str, named: Iterable[str]) -> str | None:
    """Return what `text` says to the one of that name: the text without it; None when it isn't spoken to them.

    A name at the beginning or at the end, between commas or before a "you" calls someone; within a sentence it is
    talked about.
    """
    whole = head_and_tail(text)
    for form in _patterns(frozenset(named))[1]:
        if found := form.match(whole):
            return found["rest"].strip()
    return None


def calls_someone(text: str, people: Iterable[str], own: Iterable[str]) -> bool:
    """Tell whether `text` calls one of `people`, or anyone with an at sign whose name isn't in `own`."""
    whom = mentioned(text)
    return bool(whom and not names(whom, own)) or bool(called_by(text, people, own))


def mentioned(text: str) -> str:
    """Return whom `text` names with an at sign, "" when it is nobody."""
    found = pattern(cues.AT_SOMEONE).search(head_and_tail(text))
    return found["who"] if found else ""


def called_by(text: str, people: Iterable[str], own: Iterable[str]) -> str:
    """Return which of `people` the text calls by name, "" when it is none; a name of `own` calls nobody else."""
    taken = {name.casefold() for name in own}
    for person in dict.fromkeys(people):
        short = {name for name in _short_names(person) if name.casefold() not in taken}
        if called(text, short) is not None:
            return person
    return ""


def bare(text: str) -> str:
    """Return what `text` says itself: without links, pictures in brackets, and what it quotes."""
    whole = pattern(cues.URL).sub(" ", head_and_tail(text))
    return pattern(rf"{cues.MEDIA}|(?m:{cues.QUOTED})").sub(" ", whole).strip()


def units(text: str) -> float:
    """Return how much a line says: one for each character of Chinese, about two for each word of an alphabet."""
    whole = head_and_tail(text)
    dense = 0 if whole.isascii() else len(cjk().findall(whole))
    return dense + 1.8 * len(pattern(r"[a-zà-ÿ0-9][\w'.-]*").findall(cjk().sub(" ", whole)))


def head_and_tail(text: str) -> str:
    """Return at most `LONGEST` characters of a text: its first half's and its last half's."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} {text[-LONGEST // 2 :]}"


def spaced(text: str) -> str:
    """Return a text with a space wherever Latin letters touch Chinese or Japanese ones, so that words can be seen."""
    if text.isascii():
        return text
    return pattern(cues.SEAM).sub(" ", text)


def _short_names(name: str) -> set[str]:
    """Return how people call someone: by the whole name, its first word, and each of its Chinese ones."""
    parts = [part for part in pattern(r"[\W_]+").split(name) if part]
    return {part for part in (name, *parts[:1], *filter(cjk().match, parts)) if len(part) >= 2}


@lru_cache(128)  # the members of a group come and go
def _patterns(named: frozenset[str]) -> tuple[re.Pattern[str], tuple[re.Pattern[str], ...]]:
    """Return the pattern that finds one of the names, and those that find one being called."""
    source = "|".join(_source(name) for name in sorted(filter(str.strip, named), key=lambda one: (-len(one), one)))
    if not source:
        return re.compile(r"(?!)"), ()
    forms = (form.replace("{names}", source) for form in cues.CALLS)
    flags = re.IGNORECASE | re.DOTALL
    return re.compile(source, flags), tuple(re.compile(form, flags) for form in forms)


def _source(name: str) -> str:
    """Return the pattern of a name; Latin ones stand alone, and `Lumia 950` is a telephone."""
    bare = name.strip()
    before = r"(?<![A-Za-z0-9_])" if bare[0].isascii() and bare[0].isalnum() else ""
    after = r"(?![A-Za-z0-9_])(?!\s?\d{3,4}\b)" if bare[-1].isascii() and bare[-1].isalnum() else ""
    return f"{before}{re.escape(bare)}{after}"
