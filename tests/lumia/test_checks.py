"""Checks that plugins contribute to `lumia doctor`."""

from __future__ import annotations

from pathlib import Path

import pytest

from lumia import checks
from lumia.checks import Finding, findings
from lumia.errors import RegistrationError
from tests.support.plugins import PluginBot

CODE = """
import lumia

@lumia.checks.check("weather")
def key():
    return lumia.checks.risk("no key", "set WEATHER_KEY")

@lumia.checks.check("weather")
def more():
    yield lumia.checks.ok("fine")
    yield lumia.checks.fail("broken", "mend it")

@lumia.checks.check("rain")
def none():
    return None

@lumia.checks.check("rain")
def raises():
    raise RuntimeError("no umbrella")
"""


def test_each_check_gives_its_findings_and_a_broken_one_is_a_finding_itself(tmp_path: Path) -> None:
    with PluginBot(tmp_path) as bot:
        bot.plugin("plugins/weather", CODE)
        found = list(findings(bot.load(on_load=False)))
    assert found == [
        ("weather", Finding("risk", "no key", "set WEATHER_KEY")),
        ("weather", Finding("ok", "fine")),
        ("weather", Finding("fail", "broken", "mend it")),
        ("rain", Finding("risk", "weather.raises can't be checked: no umbrella", "see docs/plugins.md")),
    ]


def test_a_check_needs_a_name() -> None:
    with pytest.raises(RegistrationError, match="needs an id"):
        checks.check("")
