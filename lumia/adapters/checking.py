"""Whether an account is configured well: by its settings alone, and in the platform's own view.

`@lumia.adapters.settings` judges the table of an account, before `lumia adapters add` writes it, and wherever else the
adapter calls it. `@lumia.adapters.check` asks the platform whether the credentials are good (`lumia adapters test`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lumia.marks import F, Mark, put

KIND = "adapter_check"
SETTINGS = "adapter_settings"


@dataclass(frozen=True)
class Checked:
    """What the platform said. identity: who the account is there. detail: what is wrong and the way out, or a note."""

    ok: bool
    identity: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Fault:
    """A setting that can't work. key: which, "" for the account's name; what: a clause about the account; fix: way out.

    fatal: the account is not served with it.
    """

    account: str
    key: str
    what: str
    fix: str
    fatal: bool = True


def check(fn: F) -> F:
    """Mark the one function `(account: str) -> Checked` of an adapter that asks the platform who an account is."""
    return put(Mark(KIND, "account"), fn)


def settings(fn: F) -> F:
    """Mark the one function `(account: str, table: Mapping) -> Iterable[Fault]` of an adapter that judges settings.

    It looks at nothing but the table, which may lack any key, and the environment variables that it names.
    """
    return put(Mark(SETTINGS, "account"), fn)


Check = Callable[[str], Checked]
Judge = Callable[[str, Mapping[str, Any]], Iterable[Fault]]
