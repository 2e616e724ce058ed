"""Persona loader: files in `config/personas` say who the bot is; a group has its own by setting or by command.

It has no handlers. Whoever makes a prompt asks the service `persona`; a changed file holds from the next message on.
"""

from __future__ import annotations

from collections.abc import Iterator

import lumia

from .library import DEFAULT, FOLDER, Library
from .persona import PersonaError
from .service import NAME, Personas

_MOST_FINDINGS = 20
_FIX = f"mend or remove the file; docs/personas.md says what {FOLDER.as_posix()} holds"


def on_load() -> None:
    """Offer the service `persona`, with the default persona read: so that it outlives an edit that breaks it."""
    library = Library(lumia.runtime.current().root)
    lumia.services.provide("persona", Personas(library))
    for name in _configured():
        try:
            library.get(name)
        except PersonaError:
            continue  # told when a chat asks for it, and by `lumia doctor`


@lumia.checks.check("personas")
def check() -> Iterator[lumia.checks.Finding]:
    """Tell `lumia doctor` which files can't be used, with line and reason, and which chosen personas are missing."""
    library = Library(lumia.runtime.current().root)
    wrong = [lumia.checks.risk(problem, _FIX) for problem in library.problems()]
    for key, value in lumia.config.get(NAME).groups.items():
        if not isinstance(value, str):
            what = f'config/{NAME}.toml: groups."{key}" is {value!r}, no name'
            wrong.append(lumia.checks.risk(what, "write the name of a persona, in quotation marks"))
    for name, where in _configured().items():
        try:
            library.get(name)
        except PersonaError as error:
            if not error.line:
                fix = f"name one of: {', '.join(library.names()[:10])}"
                wrong.append(lumia.checks.risk(f"config/{NAME}.toml: {where}: {error}; the default stands in", fix))
    yield from wrong[:_MOST_FINDINGS]
    if len(wrong) > _MOST_FINDINGS:
        yield lumia.checks.risk(f"{len(wrong) - _MOST_FINDINGS} more findings of this kind", _FIX)
    if not wrong:
        count = len(library.names())
        yield lumia.checks.ok(f"{count} persona{'' if count == 1 else 's'}, by default {_default()!r}")


def _default() -> str:
    return lumia.config.get(NAME).default or DEFAULT


def _configured() -> dict[str, str]:
    """Return the personas the settings name, with the key that does."""
    groups = lumia.config.get(NAME).groups
    named = {value: f'groups."{key}"' for key, value in groups.items() if isinstance(value, str) and value}
    return {**named, _default(): "default"}
