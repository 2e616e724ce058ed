"""A lab run, or the difference of two, as one page that loads nothing; for light and dark, desk and phone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any

from .lab_bars import Bar, chart
from .lab_report import FIGURES, figure, kind_of, money
from .lab_style import SCRIPT, STYLE

FILTERS = (("every", "All"), ("wrong", "Wrong"), ("answered", "Answered"), ("silent", "Silent"))
_HUES = 12


def page(run: Mapping[str, Any], *, title: str) -> str:
    """Return the page of a run: figures, bars per layer, and the conversation with each decision."""
    decisions = run["decisions"]
    counts = {
        "every": len(decisions),
        "wrong": sum(bool(one["wrong"]) for one in decisions),
        "answered": sum(bool(one.get("replies")) for one in decisions),
        "silent": sum(one["decision"] == "silent" for one in decisions),
    }
    buttons = "".join(
        f'<button type="button" data-filter="{kind}" aria-pressed="{str(kind == "every").lower()}">'
        f"{name} <b>{counts[kind]}</b></button>"
        for kind, name in FILTERS
    )
    body = (
        f"<header><h1>{escape(title)}</h1><p>{escape(_made(run))}</p></header>\n"
        f'<section class="figures">{"".join(_tiles(run))}</section>\n'
        f'<section class="charts">{"".join(_charts(run))}</section>\n'
        f'<nav aria-label="Messages">{buttons}</nav>\n'
        f'<main id="chat" data-show="every">\n{"".join(_chat(decisions))}\n'
        '<p class="none">No such message.</p></main>\n'
    )
    return _whole(title, body)


def diff_page(diff: Mapping[str, Any], *, title: str) -> str:
    """Return the page of a difference: figures side by side, and the messages whose decision changed."""
    names = [escape(name) for name in diff["names"]]
    rows = "".join(
        f"<tr><th>{escape(one['name'])}</th><td>{figure(one['a'])}</td><td>{figure(one['b'])}</td>"
        f"<td>{figure(one['change']) if one['change'] else ''}</td></tr>"
        for one in diff["figures"]
    )
    head = f"<tr><td></td><th>{names[0]}</th><th>{names[1]}</th><th>change</th></tr>"
    told = f"decisions that changed: {len(diff['changed'])}; that did not: {diff['same']}"
    changed = "".join(_changed(one, diff["names"]) for one in diff["changed"])
    body = (
        f"<header><h1>{escape(title)}</h1><p>{told}</p></header>\n"
        f'<div class="wide"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>\n'
        f"<main>\n{changed}\n</main>\n"
    )
    return _whole(title, body)


def _whole(title: str, body: str) -> str:
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style></head>\n<body>\n{body}<script>{SCRIPT}</script>\n"
        "</body></html>\n"
    )


def _made(run: Mapping[str, Any]) -> str:
    variant = run.get("variant", {})
    options = [
        f"{key}={value}" for part in ("settings", "models", "seconds") for key, value in variant.get(part, {}).items()
    ]
    return " · ".join([f"{run['messages']} messages, Lumia {run['version']}", *options])


def _tiles(run: Mapping[str, Any]) -> Iterator[str]:
    for key, name, _ in FIGURES:
        shown = figure(run[key]) if not key.endswith("_ratio") or run[key] is None else f"{run[key] * 100:.1f} %"
        yield _tile(name, shown)
    yield _tile("answered", str(run["answered"]))
    yield _tile("wrong", str(run["wrong"]) if run["labelled"] else "–")
    yield _tile("tokens", f"{run['tokens']['in'] + run['tokens']['out']:,}")
    yield _tile("cost", money(run["cost"], run["unpriced_calls"]))


def _tile(name: str, value: str) -> str:
    return f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>"


def _charts(run: Mapping[str, Any]) -> Iterator[str]:
    layers = run["layers"]
    yield chart(
        "Where it was decided",
        [
            Bar(one["layer"], (("engage", one["engaged"]), ("silent", one["silent"])))
            for one in layers
            if one["engaged"] or one["silent"]
        ],
    )
    yield chart(
        "Tokens per layer",
        [
            Bar(one["layer"], (("in", one["tokens_in"]), ("out", one["tokens_out"])))
            for one in layers
            if one["tokens_in"] or one["tokens_out"]
        ],
    )
    reasons: dict[str, int] = {}
    for one in run["decisions"]:
        if one["decision"] == "silent":
            reasons[kind_of(one["reason"])] = reasons.get(kind_of(one["reason"]), 0) + 1
    ranked = sorted(reasons.items(), key=lambda item: -item[1])[:8]
    yield chart("Why it stayed silent", [Bar(reason, (("silent", count),)) for reason, count in ranked])


# --- the conversation


def _chat(decisions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    texts = {(one["group_id"], one["message_id"]): one for one in decisions}
    place, day = None, ""
    for one in decisions:
        if place != (one.get("file"), one["group_id"]):
            place, day = (one.get("file"), one["group_id"]), ""
            yield f"<h2>{escape(one['group_id'])}</h2>\n"
        when = datetime.fromtimestamp(one["time"]).astimezone()
        if day != f"{when:%Y-%m-%d}":
            day = f"{when:%Y-%m-%d}"
            yield f'<p class="day">{day}</p>\n'
        yield _message(one, f"{when:%H:%M:%S}", texts)


def _message(one: Mapping[str, Any], time: str, texts: Mapping[tuple[str, str], Mapping[str, Any]]) -> str:
    replies = "".join(f'<p class="bot"><b>bot</b>{escape(text)}</p>' for text in one.get("replies", ()))
    hue = int(hashlib.sha256(one["sender_id"].encode()).hexdigest(), 16) % _HUES * (360 // _HUES)
    flags = f'data-decision="{one["decision"]}" data-wrong="{int(one["wrong"])}" data-answered="{int(bool(replies))}"'
    head = f'<b style="--hue:{hue}">{escape(one["sender_name"])}</b> <time>{time}</time>'
    return (
        f'<article {flags}><div class="said">{head}{_quoted(one, texts)}<p>{escape(one["text"])}</p></div>'
        f"<details><summary>{_verdict(one)}</summary>{_steps(one)}</details>{replies}</article>\n"
    )


def _quoted(one: Mapping[str, Any], texts: Mapping[tuple[str, str], Mapping[str, Any]]) -> str:
    named = one.get("reply_to")
    if not named:
        return ""
    own = str(named).removeprefix("bot:")
    quoted = texts.get((one["group_id"], own))
    who = "the bot" if own != named else str(quoted["sender_name"]) if quoted else ""
    text = (" ".join(quoted.get("replies", ())) if own != named else quoted["text"]) if quoted else ""
    return f'<p class="quote">↩ {escape(who)} {escape(str(text)[:80])}</p>'


def _verdict(one: Mapping[str, Any]) -> str:
    label = f'<span class="label">label: {escape(one["label"])}</span>' if one["wrong"] else ""
    mark = '<span class="mark">wrong</span>' if one["wrong"] else ""
    told = not isinstance(one.get("score"), (int, float)) or "score" in one["reason"]
    score = "" if told else f" · score {one['score']:.2f}"
    used = one["tokens_in"] + one["tokens_out"]
    tokens = f" · {used} tokens" if used else ""
    return (
        f'{mark}<span class="chip">{one["decision"]}</span> <b>{escape(one["layer"])}</b> {escape(one["reason"])}'
        f"<small>{escape(score)}{tokens}</small> {label}"
    )


def _steps(one: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{escape(step['layer'])}</td><td>{escape(step['handler'])}</td><td>{escape(step['outcome'])}</td>"
        f"<td>{escape(_told(step))}</td></tr>"
        for step in one["steps"]
    )
    facts = f"{one['message_id']} · model calls: {one['calls']} · {one['tokens_in']} tokens in, {one['tokens_out']} out"
    return f'<p class="facts">{escape(facts)}</p><div class="wide"><table><tbody>{rows}</tbody></table></div>'


def _told(step: Mapping[str, Any]) -> str:
    notes = [f"{name} {_short(value)}" for name, value in step["notes"].items()]
    return " · ".join([*([step["reason"]] if step["reason"] else []), *notes])


def _short(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)[:120]


def _changed(one: Mapping[str, Any], names: Sequence[str]) -> str:
    sides = "".join(
        f'<p data-decision="{side["decision"]}">{escape(name)}: <span class="chip">{side["decision"]}</span> '
        f"<b>{escape(side['layer'])}</b> {escape(side['reason'])}</p>"
        for name, side in zip(names, (one["a"], one["b"]), strict=True)
    )
    label = f' <span class="label">label: {escape(one["label"])}</span>' if one.get("label") else ""
    head = f"<b>{escape(one['sender_name'])}</b> <time>{escape(one['message_id'])}</time>{label}"
    said = f'<div class="said">{head}<p>{escape(one["text"])}</p></div>'
    return f'<article>{said}<div class="sides">{sides}</div></article>\n'
