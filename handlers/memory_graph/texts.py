"""Words of a text, for the lexical index and for naming topics: language-neutral, without a model or a dictionary file.

Latin and other alphabetic words are folded, freed of possessives and lightly stemmed; Chinese, Japanese and other
text written without spaces becomes single characters and character bigrams (the usual choice for it where no
segmenter is at hand: Nie & Ren 1999, "Chinese information retrieval: using characters or words?"). Katakana and
Thai-like runs are handled as bigrams, too.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import lru_cache

__all__ = ["QUESTION_WORDS", "folded", "is_question", "query_terms", "stem", "terms", "words"]

_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff々〆"
_KANA = "\u3041-\u3096\u30a1-\u30fa\u30fc"
_UNSPACED = f"{_HAN}{_KANA}\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff"
_RUN = re.compile(rf"(?P<unspaced>[{_UNSPACED}]+)|(?P<word>[^\W_{_UNSPACED}]+(?:['’ʼ][^\W_{_UNSPACED}]+)*)")
_KANJI = re.compile(f"[{_HAN}]")
_LATIN = re.compile(r"[a-z]+")
_CONTRACTION = re.compile(r"(?:n['’ʼ]t|['’ʼ](?:s|m|d|re|ve|ll))$")

# Verb forms no suffix rule reaches, each with its stem; only forms that aren't another common word.
_FORMS = """
news:news went:go gone:go goes:go did:do done:do does:do doing:do was:be were:be been:be being:be is:be are:be am:be
had:have has:have having:have made:make making:make took:take taken:take taking:take got:get gotten:get
getting:get gave:give given:give giving:give came:come coming:come saw:see seen:see bought:buy brought:bring
thought:think taught:teach caught:catch sought:seek fought:fight told:tell said:say met:meet kept:keep
slept:sleep felt:feel left:leave lost:lose sent:send spent:spend built:build won:win began:begin begun:begin
ran:run running:run swam:swim swum:swim sang:sing sung:sing drank:drink drove:drive driven:drive driving:drive
wrote:write written:write writing:write rode:ride ridden:ride riding:ride ate:eat eaten:eat chose:choose
chosen:choose choosing:choose broke:break broken:break spoke:speak spoken:speak stole:steal stolen:steal
woke:wake woken:wake flew:fly flown:fly grew:grow grown:grow knew:know known:know threw:throw thrown:throw
drew:draw drawn:draw wore:wear worn:wear became:become becoming:become found:find held:hold heard:hear paid:pay
sold:sell stood:stand understood:understand fell:fall fallen:fall forgot:forget forgotten:forget led:lead
read:read shot:shoot taught:teach hung:hang stuck:stick struck:strike children:child kids:kid men:man
women:woman people:person feet:foot teeth:tooth mice:mouse lives:life wives:wife knives:knife leaves:leaf
better:good best:good worse:bad worst:bad using:use used:use lying:lie dying:die tying:tie
"""
_IRREGULAR = dict(pair.split(":") for pair in _FORMS.split())

# Asking words carry no content: they are left out of a query (not of what is indexed).
_ASKED_BY = """
what when where who whom whose which why how do be have
什么 甚么 怎么 怎样 如何 为什么 为何 哪里 哪儿 哪个 哪些 哪 谁 几 多少 吗 呢
何 誰 どこ いつ なぜ どう どの どれ どんな
"""
QUESTION_WORDS = frozenset(_ASKED_BY.split())
_ASKING = re.compile(
    r"什么时候|什么|甚么|怎么样|怎么|怎样|如何|为什么|为何|哪里|哪儿|哪个|哪些|哪位|哪|谁|几点|多少|是不是|有没有|吗|呢|"
    r"なんの|なにを|なに|何|誰|だれ|どこ|いつ|なぜ|どうして|どうやって|どう|どの|どれ|どんな|ですか|ますか|ましたか|でしたか"
)
_QUESTION_MARKS = ("?", "？", "؟", ";")


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Return a folded word without its commonest English endings: plural, past, -ing, -ly; all but a–z as it is."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 3 or not _LATIN.fullmatch(word):
        return word
    if word.endswith(("ies", "ied")) and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ingly", "edly", "ing", "ed"):
        root = word[: -len(ending)]
        if word.endswith(ending) and len(root) >= 3 and re.search("[aeiouy]", root):
            if root[-1] == root[-2] and root[-1] not in "lsz":
                root = root[:-1]
            word = root
            break
    if word.endswith("ly") and len(word) > 5:
        word = word[:-2]
    if word.endswith("i") and len(word) > 3:
        word = word[:-1] + "y"
    if word.endswith("e") and len(word) > 3:
        word = word[:-1]
    return word


def folded(text: str) -> str:
    """Return a text as it is compared: compatible forms made one, case folded."""
    return unicodedata.normalize("NFKC", text).casefold()


def words(text: str) -> list[str]:
    """The folded runs of a text in order: alphabetic words without possessive or contraction, and runs of unspaced
    script as a whole."""
    found = []
    for match in _RUN.finditer(folded(text)):
        word = match["word"]
        if word is None:
            found.append(match["unspaced"])
        elif (bare := _CONTRACTION.sub("", word)) != "":
            found.append(bare.replace("'", "").replace("’", "").replace("ʼ", ""))
    return [word for word in found if word]


def _of_run(run: str) -> list[str]:
    if not re.match(f"[{_UNSPACED}]", run):
        return [stem(run)]
    singles = [sign for sign in run if _KANJI.match(sign)]
    pairs = [run[at : at + 2] for at in range(len(run) - 1)]
    return singles + pairs if len(run) > 1 else [run]


def terms(text: str) -> Counter[str]:
    """The index terms of a text with how often each occurs."""
    return Counter(term for run in words(text) for term in _of_run(run))


def query_terms(text: str) -> Counter[str]:
    """The index terms of a query: those of its text without the words that only ask."""
    plain = _ASKING.sub(" ", folded(text))
    found = terms(plain)
    kept = Counter({term: count for term, count in found.items() if term not in QUESTION_WORDS})
    return kept or found or terms(text)


def is_question(text: str) -> bool:
    """True if the last sentence of a text asks."""
    return text.rstrip(" \t\n\"'»”」』)）~～!！").endswith(_QUESTION_MARKS)
