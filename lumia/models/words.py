"""Words of a text in any script, as the offline model compares them: folded, stemmed a little, CJK as bigrams."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache

HAN_KANA = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_OR_WORD = r"+|[^\W_]+(?:'[^\W_]+)?"
_ENDINGS = ("ing", "es", "en", "ed", "s", "n")
_COMMON = """
a an and are about at be been but by can could did do does for from had has have he her hers him his how i if in is it
its i'm i've it's me mine my no not of on or our please she should so tell that the their them there they this to us
was we were what what's when when's where where's which who who's whom whose why will with would you your know
remember again really

ich du er sie es wir ihr mein meine meinen meinem dein deine der die das den dem ein eine einen ist sind war bin bist
hat hast habe wie was wo wer wann warum und oder nicht zu mit von fur auf im am uber heisst weisst noch

yo tu el la los las un una unos mi mis su sus es son era soy eres ha hay que como donde cuando quien cual por para con
de del al en y o no se lo le me te a sobre

je il elle nous vous ils le les une mon ma mes ton ta tes ses est sont etait suis au aux du des et ou ne pas qui quoi
quel quelle quand comment pourquoi sur dans avec ce cette c'est qu'est d'un d'une s'appelle
"""
COMMON = frozenset(_COMMON.split())
CJK_COMMON = (
    "什么时候|什么地方|为什么|什么|甚么|怎么样|怎么|哪里|哪儿|哪个|哪天|几点|几号|多少|谁|吗|呢|吧|啊|是不是|"
    "是|的|了|我们|我|你|您|他|她|它|在|有|请问|告诉|知道|记得|"
    "いつ|どこ|だれ|誰|なに|何時|何|なぜ|どう|です|ですか|ます|ました|でした|ください|教えて|"
    "私|僕|俺|あなた|は|が|を|に|の|で|と|も|か|よ|ね"
)


@cache
def cjk(more: str = "") -> re.Pattern[str]:
    """Return the pattern of one CJK character, or (`more`) what goes on from it.

    Not through `pattern`: to ignore case costs a step per character of these ranges.
    """
    return re.compile(rf"[{HAN_KANA}]{more}")


@cache
def pattern(source: str) -> re.Pattern[str]:
    """Return `source` compiled, ignoring case. Compiling waits for the first use: most chats need few languages."""
    return re.compile(source, re.IGNORECASE)


def words(text: str) -> list[str]:
    """Return the telling words of `text` in order: no common ones, Latin ones stemmed, CJK runs as bigrams."""
    return list(_telling(text))


def _telling(text: str) -> Iterator[str]:
    for run in cjk(_OR_WORD).findall(fold(text)):
        if not run.isascii() and cjk().match(run):
            for piece in pattern(CJK_COMMON).split(run):
                yield from bigrams(piece)
        elif run not in COMMON:
            yield stem(run)


def fold(text: str) -> str:
    """Return `text` in lower case without accents and width variants."""
    folded = unicodedata.normalize("NFKD", text.replace("\u2019", "'").casefold())
    if folded.isascii():
        return folded
    # Voicing marks of kana are combining characters too, but they make another syllable: put them back together.
    kept = (char for char in folded if not unicodedata.combining(char) or char in "\u3099\u309a")
    return unicodedata.normalize("NFC", "".join(kept))


def stem(word: str) -> str:
    """Return `word` without its commonest endings: enough for `meetings` to meet `meeting`."""
    word = word.removesuffix("'s")
    for _ in range(2):
        ending = next((end for end in _ENDINGS if word.endswith(end) and len(word) - len(end) >= 4), "")
        word = word.removesuffix(ending)
    return word


def bigrams(run: str) -> list[str]:
    """Return the pairs of neighbouring characters, or the character itself when it is alone."""
    return [run[i : i + 2] for i in range(len(run) - 1)] or ([run] if run else [])
