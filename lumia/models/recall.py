"""What was said in a chat, and finding it again: by patterns for names, homes and likes, else by shared words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from lumia.models.messages import Message
from lumia.models.phrases import LANGUAGES, Language
from lumia.models.words import cjk, fold, pattern, words

MAX_MESSAGES = 300
MAX_LENGTH = 2000
_VALUE_LENGTH = 120
_COVERAGE = 0.34
_KANA = re.compile(r"[\u3040-\u30ff]")
_LATIN = r"[^\W\d_]+(?:'[^\W\d_]+)?"
_SENTENCE = r"(?<=[.!?;])\s+|(?<=[。！？；])|\n+"
_CONJUNCTION = "and|but|und|aber|y|pero|et|mais"
_CLAUSE = (
    rf"(?:[,，;；]\s*(?:(?:{_CONJUNCTION})\s+)?|\s+(?:{_CONJUNCTION})\s+)"
    r"(?=(?:i|i'm|my|ich|mein\w*|me|mi|vivo|soy|je|j'\w+|mon|ma)\b|[我私僕俺])|[,，、]\s*(?=[我私僕俺])"
)
_NAME_ENDS = r"[,，、(（]|\s(?:and|und|y|et|by the way|but|aber|pero|mais)\s"
_EDGES = " \t.,!?;:。！？；：、~…\"'“”„«»「」¿¡"
_TAILS = (
    r"(?:\s+(?:now|too|any ?more|as well|very much|a lot|jetzt|auch|ahora|también|aussi|maintenant))+$"
    "|[了啊呀吧哦呢嘛]+$"
)
_ME = r"\b(?:i|i'm|my|mine|me|mein\w*|ich|mir|mi|mis|yo|mon|ma|mes|je|moi)\b|\bj'|[我私僕俺]"
_WHEN = r"\b(?:when|what time|which day|wann|cu[aá]ndo|quand)\b|什么时候|几点|哪天|几号|いつ|何時|何日"
_TIME = (
    r"\d|\b(?:mon|tues?|wednes|thurs?|fri|satur|sun)day|\b(?:to(?:day|morrow|night)|noon|midnight|morning|evening|week|"
    r"montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag|heute|morgen|mittag|abend|"
    r"lunes|martes|mi[eé]rcoles|jueves|viernes|s[aá]bado|domingo|hoy|mañana|"
    r"lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|demain|aujourd'hui|midi|soir)\b|[今明后昨]天|[周期曜][一二三四五六日月火水木金土]|点|明日|今日|時"
)
_TELL_ME = r"^(?:please )?(?:tell me|sag mir|dime|dis-moi|do you remember)\b|告诉我|教えて"
_TAGGED = re.compile(r"\s*(?:\[(?P<tag>[A-Z][A-Z ]{1,30})\](?:\n|\Z)|Who wrote the last message: )")
_MYSELF = frozenset({"i", "me", "ich", "yo", "je", "j'ai", "我", "私", "僕", "俺"})


@dataclass(frozen=True)
class Line:
    """One sentence of the chat. `speaker` is None for people without a name; `told` marks a system line.

    day: when it was said, of a line out of the memory ("" for one of the chat); own: the one who asks now said it.
    """

    speaker: str | None
    text: str
    language: Language
    asks: bool
    told: bool = False
    day: str = ""
    own: bool = False


@dataclass(frozen=True)
class Fact:
    """A name, home, origin, like or dislike of someone, and the line that says so."""

    who: str
    what: str
    value: str
    line: Line


def language_of(text: str, default: str = "en") -> Language:
    """Return the language of `text`: by script, else by its small words, else `default`."""
    runs = pattern(_LATIN).findall(text.replace("\u2019", "'"))
    latin = [run.casefold() for run in runs if run.isascii() or not cjk().search(run)]
    hits = {code: sum(word in marks for word in latin) for code, marks in _marks().items()}
    best = max(hits, key=lambda code: hits[code])
    signs = 0 if text.isascii() else len(cjk().findall(text))
    if signs and not (hits[best] >= 2 and len(latin) * 2 >= signs):
        return LANGUAGES["ja" if _KANA.search(text) else "zh"]
    return LANGUAGES[best if hits[best] else default]


@cache
def _marks() -> dict[str, frozenset[str]]:
    latin = (language for language in LANGUAGES.values() if language.marks)
    return {
        language.code: frozenset(
            f"{language.marks} {_plain(language.greetings, language.thanks, language.helps)}".split()
        )
        for language in latin
    }


def _plain(*sources: str) -> str:
    return re.sub(r"[^\w\s|]|\bhi\b", "", "|".join(sources)).replace("|", " ")


def lines_of(messages: Sequence[Message]) -> list[Line]:
    """Return what people (and system lines) said, oldest first, as sentences; the bot's own words are left out.

    A system message that holds lines of the memory is read as those, and nothing else in it is.
    """
    return [line for message in messages[-MAX_MESSAGES:] if message.role != "assistant" for line in _lines(message)]


def _lines(message: Message) -> Iterator[Line]:
    from lumia.models import remembered

    if message.role == "system" and (found := remembered.lines_of(message.content)):
        for one in found:
            if not one.by_bot:
                speaker = one.name or None
                for line in _sentences(Message("user", one.text, speaker)):
                    yield replace(line, day=one.day, own=one.by_asker, told=speaker is None)
        return
    yield from _sentences(replace(message, content=_of_block(message.content)) if message.role == "system" else message)


def _of_block(text: str) -> str:
    """Return what a tagged system message tells: hints and summaries without their heading, nothing of other blocks."""
    found = _TAGGED.match(text)
    if found is None:
        return text
    if found["tag"] == "HINT":
        return "\n".join(one for line in text.splitlines()[1:] if (one := _quoted(line)))
    return "\n".join(text.splitlines()[2:]) if found["tag"] == "EARLIER" else ""


def _quoted(line: str) -> str:
    try:
        said = json.loads(line.strip().removeprefix("- "))
    except ValueError:
        return ""
    return said if isinstance(said, str) else ""


def _sentences(message: Message) -> Iterator[Line]:
    text = message.content[:MAX_LENGTH].replace("\u2019", "'")
    language = language_of(text)
    for sentence in filter(None, map(str.strip, pattern(_SENTENCE).split(text))):
        told = message.role == "system"
        yield Line(message.name, sentence, language, is_question(sentence, language), told)


def is_question(text: str, language: Language) -> bool:
    """Tell whether `text` asks something: by its sign, else by how its language opens or ends a question."""
    bare = text.strip()
    if bare.endswith(("?", "？")) or pattern(_TELL_ME).search(bare):
        return True
    return not bare.endswith(("!", "！")) and bool(pattern(language.question).match(bare.rstrip(_EDGES)))


def remembered(text: str, language: Language) -> str:
    """Return `text` without a leading greeting or "remember that"."""
    text = pattern(rf"(?:{language.greetings})[\s,!.，！。、~]+").sub("", text, count=1) if text else text
    return pattern(language.remember).sub("", text, count=1)


def facts_of(lines: Iterable[Line]) -> list[Fact]:
    """Return the facts in `lines`, oldest first."""
    return [fact for line in lines if not line.asks for fact in _facts(line)]


def _facts(line: Line) -> Iterator[Fact]:
    for clause in clauses_of(line):
        if fact := _fact(clause, line):
            yield fact


def clauses_of(line: Line) -> list[str]:
    """Return the parts of a sentence that may each state something of the speaker ("I live in Rome and my …")."""
    parts = (part.strip(_EDGES) for part in pattern(_CLAUSE).split(remembered(line.text, line.language)))
    return [part for part in parts if part]


def _fact(clause: str, line: Line) -> Fact | None:
    for what, source in line.language.tells:
        found = pattern(rf"(?:^|.*[\s,，、:：])(?:{source})$").match(clause)
        if found and (value := _value(found["v"], what)):
            who = found.groupdict().get("p") or line.speaker or ""
            return Fact(fold(who), what, value, line)
    return None


def _value(raw: str, what: str) -> str:
    value = pattern(_TAILS).sub("", raw.strip(_EDGES)).strip(_EDGES)
    if what == "name":
        value = pattern(_NAME_ENDS).split(value)[0].strip(_EDGES)
        return value if len(value.split()) <= 4 else ""
    return value[:_VALUE_LENGTH]


def newest(facts: Sequence[Fact], who: str, what: str) -> Fact | None:
    """Return the newest `what` of `who`, or None."""
    return next((fact for fact in reversed(facts) if (fact.who, fact.what) == (who, what)), None)


def likes(facts: Sequence[Fact], who: str) -> list[str]:
    """Return what `who` likes, oldest first, without what they later said they don't."""
    liked: dict[str, str] = {}
    for fact in facts:
        if fact.who == who and fact.what in ("like", "dislike"):
            for known in [known for known in liked if _about(known, fact.value)]:
                del liked[known]
            if fact.what == "like":
                liked[fact.value] = fact.value
    return list(liked)


def who_likes(facts: Sequence[Fact], thing: str) -> list[Fact]:
    """Return the newest fact of each person who likes `thing`."""
    latest = {fact.who: fact for fact in facts if fact.what in ("like", "dislike") and _about(fact.value, thing)}
    return [fact for fact in latest.values() if fact.what == "like"]


def who_lives(facts: Sequence[Fact], place: str) -> list[Fact]:
    """Return the newest fact of each person whose last told home is `place`."""
    latest = {fact.who: fact for fact in facts if fact.what == "home"}
    return [fact for fact in latest.values() if _about(fact.value, place)]


def _about(value: str, thing: str) -> bool:
    value, thing = fold(value.strip(_EDGES)), fold(thing.strip(_EDGES))
    return bool(set(words(value)) & set(words(thing))) or (bool(thing) and (thing in value or value in thing))


def said_by(lines: Sequence[Line], speaker: str | None, about: str) -> Line | None:
    """Return the newest line of `speaker` about `about`: the one that shares most words with it (any, if empty)."""
    own = [line for line in lines if line.speaker == speaker and not line.told]
    stated = [line for line in own if not line.asks]
    wanted = set(words(about))
    if not wanted:
        return next(reversed(stated or own), None)
    return _best(stated, wanted) or _best(own, wanted)


def speaker_named(lines: Sequence[Line], name: str, asker: str | None) -> tuple[bool, str | None]:
    """Return (known, speaker) for a name as a question spells it; `I` is the one who asks."""
    wanted = fold(name)
    if wanted in _MYSELF:
        return True, asker
    names = {fold(line.speaker): line.speaker for line in reversed(lines) if line.speaker}
    near = sorted((known for known in names if known in wanted or wanted in known), key=lambda known: known != wanted)
    return (True, names[near[0]]) if near else (False, None)


def recall(lines: Sequence[Line], question: str, asker: str | None) -> Line | None:
    """Return the newest statement that shares most words with `question`, or None.

    A question about oneself (`my`, `I`) is answered from one's own lines, then from those of others that aren't about
    themselves.
    """
    wanted = set(words(question))
    told = [line for line in lines if not line.asks]
    if not pattern(_ME).search(question):
        return _best(told, wanted, question)
    own = [line for line in told if line.speaker == asker and not line.told]
    others = [line for line in told if line not in own and (line.told or not pattern(_ME).search(line.text))]
    return _best(own, wanted, question) or _best(others, wanted, question)


def _best(lines: Iterable[Line], wanted: set[str], question: str = "") -> Line | None:
    wants_time = bool(pattern(_WHEN).search(question))
    best, top = None, _COVERAGE
    for line in lines:
        speaker = set(words(line.speaker or ""))
        shared = wanted & {*words(line.text), *speaker}
        score = len(shared) / len(wanted) if wanted else 0.0
        if shared & speaker and shared - speaker:  # "Ann's sister": Ann's own words about a sister before another's
            score += 0.3
        if shared and wants_time and pattern(_TIME).search(line.text):
            score += 0.3
        if score >= top:
            best, top = line, score
    return best
