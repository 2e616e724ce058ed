"""What a lab run came to, as the JSON that `--json` prints and `--save` keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import lumia

from .lab_baseline import Baseline
from .lab_log import Entry
from .lab_setup import Variant
from .lab_steps import ENGAGE, ORDER, Cost, Heard, total

FORMAT = 1


def result(
    found: Sequence[Heard], beside: Mapping[str, Cost], baseline: Baseline, variant: Variant, files: Sequence[str]
) -> dict[str, Any]:
    """Return the figures and decisions of a run.

    beside: what was used beside the messages, by layer. baseline: tokens of the bots it is compared with. Ratios are of
    1; precision and recall count labelled messages only and are None without any, or when nothing was engaged.
    """
    used = total([*(one.cost for one in found), *beside.values()])
    return {
        "lab": FORMAT,
        "version": lumia.__version__,
        "files": list(files),
        "variant": variant.shown,
        "messages": len(found),
        **quality(found),
        "main_call_ratio": _share(used.main, len(found)),
        "token_ratio": _share(used.tokens, baseline.thinking),
        "plain_token_ratio": _share(used.tokens, baseline.plain),
        "tokens": {
            "in": used.tokens_in,
            "out": used.tokens_out,
            "baseline": baseline.thinking,
            "plain": baseline.plain,
        },
        "calls": used.calls,
        "main_calls": used.main,
        "cost": used.cost,
        "unpriced_calls": used.unpriced,
        "answered": sum(bool(one.replies) for one in found),
        "failed": sum(one.failed for one in found),
        "layers": layers(found, beside),
        "decisions": [_decision(one) for one in found],
    }


def quality(found: Iterable[Heard]) -> dict[str, Any]:
    """Return labelled, engaged, precision, recall and f1 of the labelled messages."""
    labelled = [one for one in found if one.entry.label]
    engaged = sum(one.decision == ENGAGE for one in labelled)
    wanted = sum(one.entry.label == ENGAGE for one in labelled)
    right = sum(one.decision == one.entry.label == ENGAGE for one in labelled)
    precision = _share(right, engaged)
    recall = _share(right, wanted)
    f1 = round(2 * right / (engaged + wanted), 4) if engaged + wanted else None
    return {"labelled": len(labelled), "to_engage": wanted, "engaged": engaged, "precision": precision,
            "recall": recall, "f1": f1, "wrong": sum(one.wrong for one in labelled)}  # fmt: skip


def layers(found: Sequence[Heard], beside: Mapping[str, Cost]) -> list[dict[str, Any]]:
    """Return one dict per layer, in the chain's order: messages decided there, calls, tokens and cost."""
    sums: dict[str, Cost] = {}
    for used in (*(one.used for one in found), beside):
        for layer, cost in used.items():
            sums.setdefault(layer, Cost()).add(cost)
    seen = {step.layer for one in found for step in one.steps} | set(sums) | {one.layer for one in found}
    names = sorted(seen - {""}, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))
    return [_layer(name, found, sums.get(name, Cost())) for name in names]


def _layer(name: str, found: Sequence[Heard], cost: Cost) -> dict[str, Any]:
    here = [one for one in found if one.layer == name]
    engaged = sum(one.decision == ENGAGE for one in here)
    return {"layer": name, "engaged": engaged, "silent": len(here) - engaged, **asdict(cost)}


def _decision(one: Heard) -> dict[str, Any]:
    entry: Entry = one.entry
    cost = one.cost
    optional = {
        "label": entry.label,
        "reply_to": entry.reply_to,
        "replies": one.replies,
        "failed": one.failed,
        **{name: one.note(name) for name in ("score", "threshold", "similarity", "floor", "forced", "route", "budget")},
    }
    return {
        "message_id": entry.message_id,
        "decision": one.decision,
        "layer": one.layer,
        "reason": one.reason,
        "wrong": one.wrong,
        "file": entry.file,
        "line": entry.line,
        "group_id": entry.group_id,
        "time": entry.time,
        "sender_id": entry.sender_id,
        "sender_name": entry.sender_name,
        "text": entry.text,
        **{name: value for name, value in optional.items() if value not in (None, "", [], False)},
        "calls": cost.calls,
        "tokens_in": cost.tokens_in,
        "tokens_out": cost.tokens_out,
        "cost": cost.cost,
        "seconds": one.seconds,
        "steps": [asdict(step) for step in one.steps],
    }


def _share(part: float, whole: float) -> float | None:
    return round(part / whole, 4) if whole else None
