"""The table at the end, and the same in JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.chaos.campaign import Outcome
from tasks.supervise.binaries import find_redis

PACKAGES = ("celery", "kombu", "redis", "hiredis")


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the figures, one column for each site."""
    names = list(dict.fromkeys(name for outcome in outcomes for name in outcome.verdict.figures))
    rows = [("", [outcome.name for outcome in outcomes])]
    rows += [(name, [_shown(outcome.verdict.figures.get(name)) for outcome in outcomes]) for name in names]
    rows += [
        ("faults", [str(sum(outcome.injected.values())) for outcome in outcomes]),
        ("processes killed", [str(outcome.processes_killed) for outcome in outcomes]),
        ("accepted up to 2 s before a broker kill", [str(outcome.before_kills) for outcome in outcomes]),
    ]
    return "\n".join(f"{name:44}" + "".join(f"{cell:>12}" for cell in cells) for name, cells in rows)


def _shown(value: Any) -> str:
    return "–" if value is None else str(value)


def explained(outcome: Outcome, folder: Path) -> str:
    """Return what was violated, which messages, and how to look at them; "" when all is well."""
    if outcome.ok:
        return ""
    lines = [f"{outcome.name}: VIOLATED" if outcome.verdict.violations else f"{outcome.name}: not drained in time"]
    for name, found in outcome.verdict.violations.items():
        lines.append(f"  {name}: {', '.join(found[:8])}{' …' if len(found) > 8 else ''}")
    lines += [f"  kept: {folder} (logs/, trace, effects, events.log, valkey/)"]
    if outcome.runs:
        lines += ["  to look at a message, start the broker on the kept data, then:"]
        lines += [f"    {find_redis().path} {folder}/valkey/valkey.conf &"]
        lines += [f"    LUMIA_ROOT={folder}/bot LUMIA_REDIS_URL={outcome.url} lumia trace {run}   # {name}"
                  for name, run in list(outcome.runs.items())[:5]]  # fmt: skip
    return "\n".join(lines)


def write(file: Path, outcomes: Sequence[Outcome], **conditions: Any) -> None:
    """Write everything a machine may want to know."""
    found = {
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cores": os.cpu_count(), "system": platform.system(), "python": platform.python_version()},
        "versions": {name: version(name) for name in PACKAGES},
        "conditions": conditions,
        "sites": {outcome.name: _site(outcome) for outcome in outcomes},
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(found, indent=2) + "\n")


def _site(outcome: Outcome) -> dict[str, Any]:
    found = asdict(outcome)
    verdict = found.pop("verdict")
    del found["name"], found["runs"], found["url"]
    return {"ok": outcome.ok, **verdict, **found, "seconds": round(outcome.seconds, 1)}
