"""What a check of `lumia doctor` says."""

from __future__ import annotations

from dataclasses import dataclass

OK, RISK, FAIL = "ok", "risk", "fail"
_SIGNS = {OK: "✓", RISK: "!", FAIL: "✗"}


@dataclass(frozen=True)
class Finding:
    """One line. level: ok, risk (the bot runs, something may be lost) or fail (a start fails). fix: the way out."""

    level: str
    check: str
    message: str
    fix: str = ""

    @property
    def line(self) -> str:
        """Return `✓ check: message` or `✗ check: message → way out`, always one line."""
        text = f"{_SIGNS[self.level]} {self.check}: {self.message}" + (f" → {self.fix}" if self.fix else "")
        return " ".join(text.split())

    def as_dict(self) -> dict[str, str]:
        """Return one entry of `lumia doctor --json`."""
        return {"check": self.check, "level": self.level, "message": self.message, "fix": self.fix}


def ok(check: str, message: str) -> Finding:
    """All is well."""
    return Finding(OK, check, message)


def risk(check: str, message: str, fix: str) -> Finding:
    """The bot runs, but something may be lost or slow."""
    return Finding(RISK, check, message, fix)


def fail(check: str, message: str, fix: str) -> Finding:
    """A start fails, or the bot can't do its work."""
    return Finding(FAIL, check, message, fix)
