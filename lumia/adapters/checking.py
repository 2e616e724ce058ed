"""`@lumia.adapters.check`: asks a platform whether an account's credentials are good (`lumia adapters test`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lumia.marks import F, Mark, put

KIND = "adapter_check"


@dataclass(frozen=True)
class Checked:
    """What the platform said. identity: who the account is there. detail: what is wrong and the way out, or a note."""

    ok: bool
    identity: str = ""
    detail: str = ""


def check(fn: F) -> F:
    """Mark the one function `(account: str) -> Checked` of an adapter that asks the platform who an account is."""
    return put(Mark(KIND, "account"), fn)


Check = Callable[[str], Checked]
