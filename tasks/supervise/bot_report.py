"""What is wrong with a bot's configuration, plugins and models, found out in a process of its own.

`python -m tasks.supervise.bot_report ROOT` prints one JSON object. Plugins are imported, none is started; whatever they
print, break or load ends with this process, so neither `lumia doctor` nor the supervisor carries it.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from lumia import probing
from lumia.errors import LumiaError
from tasks.supervise.account import shimmed


@dataclass(frozen=True)
class BotReport:
    """Problems as sentences. errors: of the whole bot; config: errors and config_warnings of its files; plugins: those
    that don't load; tools: those the loaded ones offer; offline: roles without a model; models: roles whose model can't
    be used; checks: what plugins found, as (name, level, message, fix)."""

    errors: tuple[str, ...] = ()
    config: tuple[str, ...] = ()
    config_warnings: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    plugin_warnings: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    offline: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    served: Mapping[str, str] | None = None
    checks: tuple[tuple[str, str, str, str], ...] = ()


def bot_report(base: Path, root: Path, *, checks: bool = False) -> BotReport:
    """Look at the bot of `root`; one that can't even be opened is an error. checks: run those of the plugins, too."""
    words = [sys.executable, "-m", "tasks.supervise.bot_report", str(root), *(["checks"] if checks else [])]
    try:
        done = probing.look(
            root, shimmed(words, "--die", str(int(signal.SIGKILL))), limit=_import_limit(root), cwd="/", path=base
        )
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired as error:
        return BotReport(errors=(f"looking at the plugins took more than {error.timeout:g} s",))
    except (ValueError, IndexError):
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return BotReport(errors=(f"the bot can't be loaded: {last}",))
    values: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in found.items()}
    return BotReport(**values)


def _import_limit(root: Path) -> float:
    from lumia.config import ConfigStore

    with contextlib.suppress(LumiaError):
        return float(ConfigStore(root).core.plugins.import_limit)
    return 0.0


def look(root: Path, *, checks: bool = False) -> BotReport:
    """Open the bot of `root` in this process, without any broker, and say what is wrong."""
    from lumia.checks import findings
    from lumia.inmemory import InMemoryTransport
    from lumia.mcp import KIND
    from lumia.opening import open_bot

    try:
        bot = open_bot(root, load="all", start=False, transport=InMemoryTransport())
    except LumiaError as error:
        return BotReport(errors=(str(error),))
    assert bot.config is not None
    assert bot.plugins is not None
    assert bot.models is not None
    problems, roles = bot.config.problems(), bot.models.describe()
    return BotReport(
        config=tuple(str(one) for one in problems if one.severity == "error"),
        config_warnings=tuple(str(one) for one in problems if one.severity != "error"),
        plugins=tuple(str(failure) for failure in bot.plugins.failures),
        plugin_warnings=tuple(bot.plugins.warnings),
        loaded=tuple(sorted(bot.plugins.plugins)),
        tools=tuple(sorted(f"{one.mark.id} ({one.plugin})" for one in bot.plugins.handlers(KIND))),
        offline=tuple(role.role for role in roles if role.offline),
        models=tuple(f"{role.role} ({role.model}): {role.problem}" for role in roles if role.problem),
        served={role.role: role.model for role in roles},
        checks=tuple((name, *astuple(one)) for name, one in findings(bot.plugins)) if checks else (),
    )


def main(root: Path, *, checks: bool = False) -> None:
    """Print the report; what plugins print goes to stderr."""
    with contextlib.redirect_stdout(sys.stderr):
        report = look(root, checks=checks)
    sys.stdout.write(json.dumps(asdict(report)) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), checks="checks" in sys.argv[2:])
