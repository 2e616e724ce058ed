"""A chat's scope in the store, `platform:account:kind:id` (`Message.scope`), taken apart again."""

from __future__ import annotations

import re
from dataclasses import dataclass

import lumia

_SCOPE = re.compile(r"([^:]+):(.*?):(group|private):(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Place:
    """A chat as one account of a platform sees it. kind: group or private."""

    platform: str
    account: str
    kind: str
    id: str

    @property
    def lane(self) -> str:
        """The lane in which adapters start the chat's messages; "" for one of no account."""
        return lumia.payloads.lane(self.platform, self.account, self.kind, self.id) if self.account else ""

    def __str__(self) -> str:
        return f"{self.kind} {self.id} on {self.platform}"


def place_of(scope: str) -> Place | None:
    """Return the chat that a scope names, None when it names none."""
    found = _SCOPE.fullmatch(scope)
    return Place(*found.groups()) if found else None
