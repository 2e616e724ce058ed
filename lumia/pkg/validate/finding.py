"""What the validator reports: one finding, at one place of a plugin (spec §14.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lumia.pkg.validate.rules import RULES

Severity = Literal["error", "warning"]


@dataclass(frozen=True, order=True)
class Place:
    """A place that has to do with a finding. file: POSIX path from the plugin's folder; line: from 1."""

    file: str
    line: int
    text: str = ""


@dataclass(frozen=True, order=True)
class Finding:
    """One thing that is wrong.

    file: POSIX path from the plugin's folder. line, column: from 1. rule: `LUM101`, or a code of ruff. message: what is
    wrong and the way out. severity: an error makes the check fail. link: an address that explains a foreign rule.
    """

    file: str
    line: int
    column: int
    rule: str
    message: str
    severity: Severity = "error"
    related: tuple[Place, ...] = ()
    link: str = ""

    @property
    def page(self) -> str:
        """Return where the rule is explained: a page of Lumia's documentation, or the address of a foreign rule."""
        return f"docs/rules/{self.rule}.md" if self.rule in RULES else self.link


def finding(
    rule: str, file: str, line: int, message: str, *, column: int = 1, related: tuple[Place, ...] = ()
) -> Finding:
    """Return a finding of one of Lumia's rules, with the severity of that rule."""
    return Finding(file, line, column, rule, message, RULES[rule].severity, related)
