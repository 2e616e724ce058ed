"""Which command a text is, if any: a known word behind the prefix, at the start, after a mention of the bot."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

WORDS: Mapping[str, tuple[str, ...]] = {
    "help": ("帮助",),
    "status": ("状态",),
    "reset": ("new", "重置"),
    "stop": ("停止",),
    "resume": ("恢复",),
    "model": ("模型",),
    "persona": ("人格",),
    "memory": ("记忆",),
    "why": ("为什么",),
    "sid": (),
}
"""Commands and what else they are called."""
MOST_CHARACTERS = 1000
"""What a command is longer than this is not read."""
MOST_WORDS = 20
_COMMANDS = {word: name for name, others in WORDS.items() for word in (name, *others)}
_SPACE = " \t\r\n\f\v\u00a0\u2002-\u200d\u2028\u2029\u2060\u3000\ufeff"
_INVISIBLE = re.compile(rf"[{_SPACE}]+")
_BETWEEN = re.compile(rf"[{_SPACE},，:：]*")
_WORD = re.compile(rf"([^@{_SPACE}]+)(?:@([^{_SPACE}]*))?(?:[{_SPACE}]+|$)")


@dataclass(frozen=True, slots=True)
class Command:
    """A command. name: a key of `WORDS`; words: what stands behind it; chinese: it was called by its Chinese name."""

    name: str
    words: tuple[str, ...] = ()
    chinese: bool = False

    @property
    def text(self) -> str:
        """The words behind the command on one line."""
        return " ".join(self.words)


def may_be_command(text: str) -> bool:
    """Tell whether a text holds the word of a command somewhere: most don't, and then nothing else has to be asked."""
    folded = text[:MOST_CHARACTERS].casefold()
    return any(word in folded for word in _COMMANDS)


def parse(text: str, prefix: str = "/", names: Collection[str] = ()) -> Command | None:
    """Return the command that `text` is, None for anything else.

    names: what the bot is called; `/help@name` with another name is another bot's.
    """
    rest = _without_mentions(text[:MOST_CHARACTERS], names)
    for begin in (prefix, "／") if prefix == "/" else (prefix,):
        if rest.startswith(begin):
            return _command(rest[len(begin) :], names)
    return None


def _command(rest: str, names: Collection[str]) -> Command | None:
    found = _WORD.match(rest)
    if found is None:
        return None
    word, called = found[1].casefold(), found[2]
    name = _COMMANDS.get(word)
    if name is None or (called is not None and called.casefold() not in {own.casefold() for own in names if own}):
        return None
    words = [one for one in _INVISIBLE.split(rest[found.end() :]) if one][:MOST_WORDS]
    return Command(name, tuple(words), chinese=not word.isascii())


def _without_mentions(text: str, names: Collection[str]) -> str:
    rest = _stripped(text)
    for _ in range(2):  # some platforms put the quoted author's mention, the bot's, in front once more
        if not rest.startswith(("@", "＠")):
            break
        own = next((name for name in sorted(names, key=len, reverse=True) if _begins(rest[1:], name)), None)
        if own is None:
            break
        rest = _BETWEEN.sub("", rest[1 + len(own) :], count=1)
    return rest


def _begins(text: str, name: str) -> bool:
    """Tell whether `text` begins with `name` as a whole word."""
    head, after = text[: len(name)], text[len(name) : len(name) + 1]
    return bool(name) and head.casefold() == name.casefold() and not (after.isalnum() or after in ("_", "@"))


def _stripped(text: str) -> str:
    found = _INVISIBLE.match(text)
    return text[found.end() :] if found else text
