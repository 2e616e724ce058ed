"""Text cut into words for the index and for a search.

`registry-worker/src/terms.ts` cuts the same way; both are tested with `registry-worker/test/vectors/terms.json`.
Chinese and Japanese put no spaces between words, so runs of them are indexed by every character and every two
neighbours, and searched by two neighbours.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_DENSE = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7a3\U00020000-\U0002fa1f]+")
_MOST_WORDS = 12
_MOST_PARTS = 12


def _folded(text: str) -> str:
    bare = "".join(char for char in unicodedata.normalize("NFKD", text) if unicodedata.category(char) != "Mn")
    return unicodedata.normalize("NFC", bare).lower()


def _words(text: str) -> Iterator[str]:
    word = ""
    for char in _folded(text):
        if unicodedata.category(char)[0] in "LN":
            word += char
        elif word:
            yield word
            word = ""
    if word:
        yield word


def _runs(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the runs of a text and whether each is of a script without spaces."""
    for word in _words(text):
        end = 0
        for match in _DENSE.finditer(word):
            if match.start() > end:
                yield word[end : match.start()], False
            yield match[0], True
            end = match.end()
        if end < len(word):
            yield word[end:], False


def _pairs(text: str) -> list[str]:
    return [text[at : at + 2] for at in range(len(text) - 1)]


def indexed(text: str) -> str:
    """Return the words of `text` for the index, separated by blanks."""
    found: list[str] = []
    for run, dense in _runs(text):
        found += [*run, *_pairs(run)] if dense else [run]
    return " ".join(found)


def indexed_name(name: str) -> str:
    """Return a plugin's name for the index: its parts, and all of them in one, as people write it."""
    return f"{indexed(name)} {name.replace('-', '')}" if "-" in name else indexed(name)


def asked(text: str) -> str | None:
    """Return the FTS5 query for what somebody typed; None when there is no word in it."""
    wanted: list[str] = []
    for run, dense in _runs(text):
        wanted += [f'"{part}"' for part in _pairs(run) or [run]] if dense else [f'"{run}"*']
    return " ".join(wanted[:_MOST_WORDS]) or None


def asked_by_parts(text: str) -> str | None:
    """Return the FTS5 query over three-letter parts: any of those of `text`; None when it has none."""
    parts = dict.fromkeys(run[at : at + 3] for run, _ in _runs(text) for at in range(len(run) - 2))
    return " OR ".join(f'"{part}"' for part in list(parts)[:_MOST_PARTS]) or None


def as_name(text: str) -> str:
    """Return the name that `text` would be: lower case, with hyphens."""
    return re.sub(r"[\s_.-]+", "-", _folded(text).strip())
