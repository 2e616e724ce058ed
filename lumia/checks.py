"""What a plugin tells `lumia doctor`: a function marked with `@lumia.checks.check(name)` returns its findings.

::

    @lumia.checks.check("weather")
    def key() -> lumia.checks.Finding:
        if "WEATHER_KEY" in os.environ:
            return lumia.checks.ok("the key is set")
        return lumia.checks.risk("no key, so nobody learns the weather", "set WEATHER_KEY")

It runs in a process of its own, with the plugins imported but not started and without a broker. What it raises is a
finding, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lumia.marks import marker

if TYPE_CHECKING:
    from collections.abc import Callable

    from lumia.marks import F
    from lumia.plugin import PluginSet

OK, RISK, FAIL = "ok", "risk", "fail"
KIND = "check"


@dataclass(frozen=True)
class Finding:
    """One thing found out. level: ok, risk (the bot runs all the same) or fail (it can't do its work); fix: way out."""

    level: str
    message: str
    fix: str = ""


def ok(message: str) -> Finding:
    """All is well."""
    return Finding(OK, message)


def risk(message: str, fix: str) -> Finding:
    """The bot runs, but something is missing, slow or may be lost."""
    return Finding(RISK, message, fix)


def fail(message: str, fix: str) -> Finding:
    """The bot can't do its work."""
    return Finding(FAIL, message, fix)


def check(name: str) -> Callable[[F], F]:
    """Mark a function without parameters that returns a `Finding`, several, or None; `name` stands before its lines."""
    return marker(KIND, name)


def findings(plugins: PluginSet) -> Iterator[tuple[str, Finding]]:
    """Run the checks of loaded plugins and yield (name, finding) each."""
    for handler in plugins.handlers(KIND):
        try:
            found = list(_each(handler.fn()))
        except Exception as error:
            why = str(error) or type(error).__name__
            found = [risk(f"{handler.name} can't be checked: {why}", "see docs/plugins.md")]
        yield from ((handler.mark.id, one) for one in found)


def _each(returned: Any) -> Iterator[Finding]:
    if isinstance(returned, Finding):
        yield returned
    elif isinstance(returned, Iterable):
        yield from (one for one in returned if isinstance(one, Finding))
