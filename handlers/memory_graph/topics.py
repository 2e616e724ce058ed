"""What a text is about, without a model: the people and names in it, then its longest or rarest words.

Weights say how sure that is: 1 for a known person, 0.9 for what is written like a name, 0.5 and less for plain
words. Two names said together are associated at once, two plain words only when it happens again (`graph.link`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from . import texts

__all__ = ["MOST", "names", "names_in", "readable", "topics_of"]

MOST = 8
"""Topics of one text."""
PERSON, NAME, TERM = 1.0, 0.9, 0.5
_CAPITALS = re.compile(
    r"(?<![\w'’])[A-ZÀ-ÞΑ-ΩА-Я][\w'’-]*(?:\s+(?:(?:of|the|de|la|von|van|and|&)\s+)?[A-ZÀ-ÞΑ-ΩА-Я][\w'’-]*)*"
)
_QUOTED = re.compile(r"[「『《〈“\"]([^」』》〉”\"\n]{2,40})[」』》〉”\"]")
_KATAKANA = re.compile(r"[ァ-ヺー]{3,20}")
_SENTENCE = re.compile(r"(?:^|[.!?。！？…\n:]\s*[\"'“]?)$")
# What splits a run of Chinese into pieces: particles, pronouns, common verbs and adverbs of one or two signs.
_GLUE = re.compile(
    r"[的了吗呢吧啊呀哦嗯哈么着过得地是在有和与跟及或但而就都也还又很太最再才只被把给让对从到向为因所以这那哪几个些们你我他她它您咱谁"
    r"不没别无会能可要想说去来看做用打上下里中今明昨天年月日时候点分后前]+"
)
_HAN_RUN = re.compile(r"[\u4e00-\u9fff]{2,}")
_COMMON = """
about above actually after again almost already also although always amazing another anyone anything around
awesome because been before being believe between both can't cannot certainly come could couldn't definitely
didn't doesn't doing done don't during each either else enough even ever every everyone everything exactly
excited feel feeling few first from getting give glad going gonna good great guess haha happen hard hate have
having hello here hey hope however instead into it's just keep kind know last later least less let's like little
look looking lots love made make many maybe mean might mine more most much must myself need never next nice
nothing often okay once only other others our ours over own perfect please pretty probably quite rather really
right same say seem seems several shall should since some someone something sometimes soon sorry still stuff
such super sure take talk tell than thank thanks that that's their theirs them then there these they they're
thing things think this those though thought through time today together tomorrow tonight too totally tried try
trying under until upon used very wait want was way week well went were what when where which while whole will
wish with within without wonderful won't would wouldn't wow yeah year yes yesterday yet you your yours yourself
"""
_PLAIN = frozenset(texts.stem(word) for word in _COMMON.split())


def names(text: str) -> list[str]:
    """Return what is written like a name, in order: capitalised words inside a sentence, quoted titles, katakana."""
    plain = unicodedata.normalize("NFKC", text)
    found = [(match.start(1), match[1].strip()) for match in _QUOTED.finditer(plain)]
    found += [(match.start(), match[0]) for match in _KATAKANA.finditer(plain)]
    for match in _CAPITALS.finditer(plain):
        name = re.sub(r"['’]s$", "", match[0])
        opens = _SENTENCE.search(plain[: match.start()]) is not None
        if opens and " " not in name:
            continue  # the first word of a sentence is written like that anyway
        head, _, rest = name.partition(" ")
        if opens and texts.stem(head.casefold()) in _PLAIN:
            name = rest
        if len(name) > 1 and texts.stem(name.casefold()) not in _PLAIN:
            found.append((match.start(), name))
    return list(dict.fromkeys(name for _, name in sorted(found)))


def topics_of(text: str, people: Iterable[str] = (), *, most: int = MOST) -> list[tuple[str, float]]:
    """Return the topics of a text as (name, weight in (0, 1]), the main one first and none twice.

    people: names of those known where it was said; of them, who is named in the text becomes a topic.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    found: dict[str, tuple[str, float]] = {}

    def add(name: str, weight: float) -> None:
        key = " ".join(name.casefold().split())
        if key and key not in found:
            found[key] = name, weight

    for person in people:
        if len(person) > 1 and names_in(folded, [person]):
            add(person, PERSON)
    for name in names(text):
        add(name, NAME)
    spoken = {texts.stem(word) for _, (name, _) in found.items() for word in texts.words(name)}
    words = [word for word in _words(folded) if texts.stem(word) not in spoken]
    for word in sorted(dict.fromkeys(words), key=lambda one: (-_specific(one), one)):
        add(readable(word), TERM)
    return sorted(found.values(), key=lambda one: -one[1])[:most]


def names_in(folded: str, people: Iterable[str]) -> list[str]:
    """Return those of `people` who are named in a folded text; alphabetic names only as whole words."""
    found = []
    for person in people:
        name = unicodedata.normalize("NFKC", person).casefold().strip()
        if not name:
            continue
        edge = r"(?<![^\W_])" if name[0].isascii() and name[0].isalnum() else ""
        close = r"(?![^\W_])" if name[-1].isascii() and name[-1].isalnum() else ""
        # Latin letters beside Chinese or Japanese ones are at a word's edge, too.
        if re.search(
            edge.replace("[^\\W_]", "[a-z0-9]") + re.escape(name) + close.replace("[^\\W_]", "[a-z0-9]"), folded
        ):
            found.append(person)
    return found


def readable(word: str) -> str:
    """Return a folded word as a topic's name: without the English plural, otherwise as it is written."""
    if not word.isascii() or not word.isalpha() or len(word) <= 4:
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _words(folded: str) -> list[str]:
    found = []
    for word in texts.words(folded):
        if _HAN_RUN.search(word):
            found += [piece[:4] for piece in _GLUE.split(word) if len(piece) >= 2 and _HAN_RUN.fullmatch(piece)]
        elif word.isalpha() and len(word) >= 4 and texts.stem(word) not in _PLAIN:
            found.append(word)
    return found


def _specific(word: str) -> float:
    return len(word) * (2.0 if not word.isascii() else 1.0)
