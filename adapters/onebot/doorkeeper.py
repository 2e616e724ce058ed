"""Who may connect or report, and how many were turned away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import lumia

from . import accounts
from .accounts import Account
from .incoming import NAME
from .link import ROLES

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection


@dataclass(frozen=True)
class Visitor:
    """What the handshake of a reverse connection says."""

    self_id: str
    role: str
    token: str

    @classmethod
    def of(cls, connection: HTTPConnection, path_role: str) -> Visitor:
        """Read the headers; the role they name counts more than the path, since both roles may use one path."""
        role = connection.headers.get("x-client-role", "").strip().lower()
        scheme, _, bearer = connection.headers.get("authorization", "").strip().partition(" ")
        token = bearer.strip() if scheme.lower() == "bearer" else ""
        return cls(
            self_id=connection.headers.get("x-self-id", "").strip(),
            role=role if role in ROLES else path_role,
            token=token or connection.query_params.get("access_token", ""),
        )


@dataclass(frozen=True)
class Refusal:
    """Why somebody may not. status: of HTTP."""

    status: int
    why: str


def admit(visitor: Visitor, *, local: bool) -> Account | Refusal:
    """Return the account of a reverse connection, or why it has none.

    local: it comes straight from this machine. Nobody else may come without a token.
    """
    if not (visitor.self_id.isascii() and visitor.self_id.isdecimal() and len(visitor.self_id) < 20):
        return Refusal(400, "X-Self-ID names no QQ number")
    found = accounts.admitted(visitor.token, visitor.self_id)
    if isinstance(found, Account):
        if found.token or local:
            return found
        return Refusal(403, f"set access_token of [accounts.{found.name}]: without one only this machine may connect")
    if found != "token":
        return Refusal(403, found)
    if not visitor.token:
        return Refusal(401, f"no account in {accounts.FILE} takes connections without an access token")
    return Refusal(403, f"no account in {accounts.FILE} has this access token")


refusals = lumia.adapters.Refusals(NAME)
