"""Two lab runs side by side: saved ones, of two versions or machines, or one log under two configurations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .lab_report import COUNTS, FIGURES
from .lab_score import FORMAT


class RunError(ValueError):
    """A file that is no saved run; its text names file and way out."""


def load(path: Path | str) -> dict[str, Any]:
    """Return a run that `lumia lab run --save` wrote; raises `RunError`."""
    way_out = "name two files that `lumia lab run --save` wrote, or one log with --a and --b"
    try:
        found = json.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise RunError(f"{path}: {error.strerror or error}; {way_out}") from None
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path}: no saved run ({error}); {way_out}") from None
    if not isinstance(found, dict) or not isinstance(found.get("decisions"), list) or "lab" not in found:
        raise RunError(f"{path}: no saved run; {way_out}")
    if found["lab"] != FORMAT:
        raise RunError(f"{path}: a run of format {found['lab']!r}, this version reads {FORMAT}; make it anew")
    return found


def compare(a: Mapping[str, Any], b: Mapping[str, Any], names: tuple[str, str] = ("A", "B")) -> dict[str, Any]:
    """Return figures side by side and the messages whose decision changed, with both reasons.

    Messages are the same when their group and message id are; those of one run only are listed apart.
    """
    before, after = _by_message(a), _by_message(b)
    both = [key for key in before if key in after]
    changed = [key for key in both if before[key]["decision"] != after[key]["decision"]]
    return {
        "names": list(names),
        "variants": [a.get("variant", {}), b.get("variant", {})],
        "versions": [a.get("version", ""), b.get("version", "")],
        "figures": list(_figures(a, b)),
        "same": len(both) - len(changed),
        "changed": [_change(before[key], after[key]) for key in changed],
        "only_a": [before[key]["message_id"] for key in before if key not in after],
        "only_b": [after[key]["message_id"] for key in after if key not in before],
    }


def _by_message(run: Mapping[str, Any]) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {(str(one.get("group_id", "")), str(one["message_id"])): one for one in run["decisions"]}


def _figures(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[dict[str, Any]]:
    wanted = [(key, name) for key, name, _ in FIGURES] + list(COUNTS) + [("cost", "cost in US dollars")]
    rows = [_figure(name, a.get(key), b.get(key)) for key, name in wanted]
    return [
        *rows,
        *(_figure(f"tokens {way}", a["tokens"][way], b["tokens"][way]) for way in ("in", "out", "baseline", "plain")),
    ]


def _figure(name: str, a: Any, b: Any) -> dict[str, Any]:
    change = round(b - a, 6) if isinstance(a, (int, float)) and isinstance(b, (int, float)) else None
    return {"name": name, "a": a, "b": b, "change": change}


def _change(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    shared = ("message_id", "group_id", "time", "sender_id", "sender_name", "text", "label")
    own = ("decision", "layer", "reason", "replies", "score", "threshold", "wrong")
    told = {key: a[key] for key in shared if key in a}
    return {**told, "a": {key: a[key] for key in own if key in a}, "b": {key: b[key] for key in own if key in b}}
