"""The service `persona`: who the bot is in a chat, which personas there are, and choosing one.

    persona = lumia.services.get("persona")
    persona.of("qq", "group", "42").prompt

What `of` gives is recorded with the step, so that a replay sees the prompt that was used.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import asdict
from difflib import get_close_matches
from typing import Any

import lumia

from .library import DEFAULT, Library, key_of, shipped
from .persona import Persona, PersonaError

log = logging.getLogger("lumia.personas")

NAME = "persona-loader"
CHOSEN = "chosen"
"""Store key, scoped to `platform:kind:chat`: the persona chosen in the chat."""
_LISTED = 10


class Personas:
    """The personas of this bot as other plugins see them; safe in threads."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._told: set[str] = set()

    def of(self, platform: str, kind: str, chat_id: str) -> Persona:
        """Return the persona of a chat: the one chosen in it, else that of the group in the settings, else the default.

        One that is missing is passed over; the trace (`persona_missing`) and the log tell of it.
        """
        return Persona(**self._recorded(f"{platform}:{kind}:{chat_id}", platform, kind, chat_id)["persona"])

    def hint(self, platform: str, kind: str, chat_id: str) -> str:
        """Return the hint of a chat's persona alone: what the record of a step that needs no prompt then holds."""
        found = self._recorded(f"hint {platform}:{kind}:{chat_id}", platform, kind, chat_id, hint=True)
        return str(found["persona"]["hint"])

    def names(self) -> tuple[str, ...]:
        """Return what personas can be chosen, sorted."""
        return tuple(lumia.recorded("persona", "names", lambda: list(self._library.usable())))

    def chosen(self, platform: str, kind: str, chat_id: str) -> str:
        """Return the persona that was chosen in a chat by command, "" when none was."""
        return str(_store().get(CHOSEN, "", scope=_scope(platform, kind, chat_id)) or "")

    def choose(self, platform: str, kind: str, chat_id: str, name: str | None) -> Persona:
        """Choose a chat's persona, None for that of the settings again; return the one that holds from now on.

        It commits with the running step and outlives restarts. Raises `PersonaError` for one that isn't there.
        """
        if name is None:
            _store().delete(CHOSEN, scope=_scope(platform, kind, chat_id))
            return Persona(**self._found(platform, kind, chat_id)["persona"])
        found = lumia.recorded("persona", f"named {name[:80]}", self._named, name)
        if "error" in found:
            raise PersonaError(found["error"])
        persona = Persona(**found["persona"])
        _store().set(CHOSEN, persona.name, scope=_scope(platform, kind, chat_id))
        return persona

    def _recorded(self, what: str, *chat: str, hint: bool = False) -> dict[str, Any]:
        found: dict[str, Any] = lumia.recorded("persona", what, self._found, *chat, hint=hint)
        if found["missing"]:
            lumia.annotate(persona_missing=found["missing"])
        return found

    def _found(self, platform: str, kind: str, chat_id: str, hint: bool = False) -> dict[str, Any]:
        missing = []
        persona = None
        for name in self._wanted(platform, kind, chat_id):
            try:
                persona = self._library.get(name)
                break
            except PersonaError as error:
                missing.append(str(error))
                self._tell(f"{platform}:{kind}:{chat_id}", str(error))
        shown = asdict(persona or shipped())
        return {"persona": {**shown, "prompt": ""} if hint else shown, "missing": missing}

    def _wanted(self, platform: str, kind: str, chat_id: str) -> Iterator[str]:
        """Yield the names to try, in order."""
        if chosen := self.chosen(platform, kind, chat_id):
            yield chosen
        config = lumia.config.get(NAME)
        if kind == "group" and (named := of_group(config.groups, platform, chat_id)):
            yield named
        yield config.default or DEFAULT

    def _named(self, name: str) -> dict[str, Any]:
        try:
            return {"persona": asdict(self._library.get(name))}
        except PersonaError as error:
            return {"error": f"{error}; {self._known(name)}"}

    def _known(self, name: str) -> str:
        names = [one for one in self._library.usable() if key_of(one) != key_of(name)]
        if near := get_close_matches(key_of(name), {key_of(one): one for one in names}, 1):
            return f"did you mean {next(one for one in names if key_of(one) == near[0])!r}?"
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        return f"there are {', '.join(names[:_LISTED])}{more}"

    def _tell(self, chat: str, why: str) -> None:
        text = f"{why}; {chat} has the next one of its settings"
        if text not in self._told and len(self._told) < 1000:
            self._told.add(text)
            log.warning("%s", text)


def of_group(groups: dict[str, Any], platform: str, chat_id: str) -> str:
    """Return the persona the settings name for a group, the qualified id before the bare one; "" for none."""
    named = groups.get(f"{platform}:{chat_id}", groups.get(chat_id, ""))
    return named if isinstance(named, str) else ""


def _scope(platform: str, kind: str, chat_id: str) -> str:
    return lumia.payloads.clean_text(f"{platform}:{kind}:{chat_id}")


def _store() -> Any:
    return lumia.store.of(NAME)
