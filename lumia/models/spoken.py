"""How a line of a chat tells a model whom it answers: `(replying to Ann) I agree`.

Platforms know which message another one quotes; in a prompt a few words before the text say it. `spoken` writes them
and `read` reads them, so the offline model can follow a chat of several people. What people write can't pass for it.
"""

from __future__ import annotations

import re

_OPENING = "(replying to "
_MARK = re.compile(rf"{re.escape(_OPENING)}([^()\n]{{1,80}})\) ?")
_IN_NAMES = str.maketrans("()", "[]")


def spoken(text: str, to: str = "") -> str:
    """Return a line's content; to: the name of the one it answers, "" for nobody."""
    own = text.replace(_OPENING, _OPENING.replace("(", "[")) if _OPENING in text else text
    name = " ".join(to.translate(_IN_NAMES).split())[:80]
    return f"{_OPENING}{name}) {own}" if name else own


def read(content: str) -> tuple[str, str]:
    """Return (whom it answers, what is said); "" for a line that answers nobody in particular."""
    found = _MARK.match(content)
    return (found[1], content[found.end() :]) if found else ("", content)
