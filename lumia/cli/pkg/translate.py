"""The short forms of spec §13.2, pacman's: one capital letter says what to do, a small one which variant of it.

`pkg -Ss weather` is `pkg search weather`. The operation may stand among options: `pkg --json -Q` is `pkg -Q --json`.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Sequence

from lumia.errors import LumiaError

OPERATIONS = {
    "-S": "install",
    "-Ss": "search",
    "-Si": "info",
    "-Sc": "clean",
    "-R": "remove",
    "-U": "upgrade",
    "-Q": "list",
    "-Ql": "files",
    "-Qu": "outdated",
    "-V": "--version",
}
ELSEWHERE = {
    "-Su": "pkg -U",
    "-Sy": "pkg -S NAME",
    "-Syu": "pkg -U",
    "-Scc": "pkg -Sc",
    "-Sl": "pkg -Ss",
    "-Rn": "pkg -R NAME --purge",
    "-Rs": "pkg -R NAME",
    "-Rns": "pkg -R NAME --purge",
    "-Qi": "pkg -Si NAME",
    "-Qk": "pkg verify",
    "-Qs": "pkg -Q",
    "-I": "pkg -S NAME",
}
"""What fingers used to other package managers type, and what it is here."""
WORDS = {
    "add": "install",
    "uninstall": "remove",
    "delete": "remove",
    "rm": "remove",
    "update": "upgrade",
    "ls": "list",
    "show": "info",
    "find": "search",
}
"""What others call a command, and what it is here; the nearest spelling of `uninstall` is its opposite."""
_OPERATION = re.compile(r"-[A-Z][A-Za-z]*")


class UnknownOperationError(LumiaError):
    """A short form that `pkg` doesn't know; a mistake in usage."""


def as_command(args: Sequence[str]) -> list[str]:
    """Return `args` with a short form turned into its command, put first; `help COMMAND` is `COMMAND --help`.

    Raises `UnknownOperationError` for a short form there is none of, for two at once, and for another tool's command.
    """
    if args and args[0] == "help":
        return [*args[1:], "--help"]
    if args and args[0] in WORDS:
        raise UnknownOperationError(f"there is no command {args[0]}; here it is `pkg {WORDS[args[0]]}`")
    head = list(itertools.takewhile(lambda arg: arg.startswith("-") and arg != "--", args))
    found = [arg for arg in head if _OPERATION.fullmatch(arg)]
    if not found:
        return list(args)
    if len(found) > 1:
        raise UnknownOperationError(f"{found[0]} and {found[1]} are two operations; name one, see `pkg --help`")
    if found[0] not in OPERATIONS:
        raise UnknownOperationError(f"there is no {found[0]}; {_meant(found[0])}")
    place = head.index(found[0])
    return [OPERATIONS[found[0]], *args[:place], *args[place + 1 :]]


def _meant(operation: str) -> str:
    if operation in ELSEWHERE:
        return f"here it is `{ELSEWHERE[operation]}`"
    close = difflib.get_close_matches(operation, OPERATIONS, n=1, cutoff=0.6)
    return f"did you mean {close[0]}? `pkg --help` lists what there is" if close else "see `pkg --help`"
