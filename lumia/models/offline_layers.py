"""What the offline model answers as a planner, as the one who thinks, as the one who words it, and as a summariser.

Its structured outputs are recognised by their fields, since the plugins that ask for them are not known here: a route
has `route`, `server` and `tool`, a thought has `reply_bias` and `memory_updates`, a digest has `summary`. Tools are
read from lines `- server.tool: what it does {JSON schema of its input}`, their results from a system message that opens
with `[TOOL RESULTS]`, what is to be said from one that opens with `[REPLY BIAS]`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lumia.models import cues
from lumia.models.asking import asks, wants
from lumia.models.messages import clean
from lumia.models.recall import Fact, facts_of, is_question, language_of, remembered
from lumia.models.words import CJK_COMMON, COMMON, HAN_KANA, cjk, fold, pattern, words

if TYPE_CHECKING:
    from lumia.models.offline import Scene

BIAS, RESULTS = "[REPLY BIAS]", "[TOOL RESULTS]"
_TOOL = re.compile(r"^- (?P<server>[\w-]{1,64})\.(?P<name>[\w.-]{1,128}): (?P<rest>.*)$", re.MULTILINE)
_URL = re.compile(r"https?://[^\s<>\"'）】，。]+")
_SPOKEN = re.compile(r"^(?P<who>[^\s:：][^:：\n]{0,40}?)\s?[:：]\s*(?P<text>\S.*)$")
_SENTENCES = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|\n+")
_SHARE, _LEAST, _MOST, _PIECE = 0.4, 160, 1500, 160


@dataclass(frozen=True)
class Tool:
    """A tool as the prompt lists it; schema: JSON schema of its input."""

    server: str
    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True)
class _Piece:
    """A sentence of a talk: where it stands, who said it ("" for nobody), and how much it tells."""

    at: int
    who: str
    text: str
    weight: float


def made(fields: Mapping[str, Any], scene: Scene) -> dict[str, Any]:
    """Return the values of an object with these fields, as far as it is one of a layer; {} for any other."""
    if {"route", "server", "tool"} <= fields.keys():
        return route(scene)
    if {"reply_bias", "memory_updates"} <= fields.keys():
        return thought(scene)
    return {}


def route(scene: Scene) -> dict[str, Any]:
    """Return which way an answer takes: `external` when a listed tool fits what is asked, `reason` when it is hard and
    that way is open, else `ready`. With a tool's result at hand it is ready."""
    ready = {"route": "ready"}
    text = scene.text
    if any(RESULTS in told for told in _told(scene)) or not (scene.asks or asks(text) or wants(text)):
        return ready
    tool = _fitting(tools_of(scene), text)
    if tool is not None:
        return {"route": "external", "server": tool.server, "tool": tool.name, "input": _input(tool, scene)}
    offered = any(pattern(r"^\W*reason\b\s*:").search(line) for told in _told(scene) for line in told.splitlines())
    return {"route": "reason", "question": text[:1000]} if offered and pattern(cues.HARD).search(text) else ready


def tools_of(scene: Scene) -> list[Tool]:
    """Return the tools that the prompt lists."""
    found = []
    for told in _told(scene):
        for one in _TOOL.finditer(told):
            description, schema = _described(one["rest"])
            found.append(Tool(one["server"], one["name"], description, schema))
    return found


def thought(scene: Scene) -> dict[str, Any]:
    """Return what the bot makes of the newest message: its offline answer as the one key point, the facts it
    understood as memories, the telling words as focus."""
    from lumia.models import guess

    bias = {"intent": scene.intent(), "emotion": guess.mood(scene), "key_points": [_answer(scene)[:4000]]}
    return {"reply_bias": bias, "memory_updates": _memories(scene), "focus": focus(scene.text)}


def focus(text: str) -> str:
    """Return the telling words of a text as they are written, at most eight."""
    telling: dict[str, str] = {}
    for run in pattern(rf"[{HAN_KANA}]+|[^\W_{HAN_KANA}](?:[\w'.-]*[^\W_{HAN_KANA}])?").findall(text[:2000]):
        for piece in pattern(CJK_COMMON).split(run) if cjk().match(run) else (run,):
            if len(piece) > 1 and fold(piece) not in COMMON:
                telling.setdefault(fold(piece), piece[:20])
    return " ".join(list(telling.values())[:8])[:500]


def worded(scene: Scene) -> str | None:
    """Return the reply that the newest `[REPLY BIAS]` asks for; None without one that can be read."""
    for told in reversed(_told(scene)):
        if told.lstrip().startswith(BIAS):
            try:
                bias = json.loads(told.lstrip()[len(BIAS) :])
                points = [point.strip() for point in bias.get("key_points") or () if isinstance(point, str)]
                intent = bias.get("intent")
            except (ValueError, AttributeError, TypeError, RecursionError):
                return None
            said = " ".join(filter(None, points)) or (intent.strip() if isinstance(intent, str) else "")
            return clean(said) or None
    return None


def digest(scene: Scene) -> str:
    """Return a talk in fewer words: its most telling sentences in their order, each with who said it."""
    spoken = [
        one for message in scene.messages if message.role != "system" for one in _lines(message.name, message.content)
    ]
    pieces = [
        _Piece(at, who, text, _weight(text))
        for at, (who, text) in enumerate((who, part) for who, line in spoken for part in _parts(line))
    ]
    room = min(_MOST, max(_LEAST, int(_SHARE * sum(len(piece.text) for piece in pieces))))
    kept = sorted(_chosen(pieces, room), key=lambda piece: piece.at)
    shown: list[str] = []
    speaker: str | None = None
    for piece in kept:
        ends = "" if piece.text[-1:] in ".!?。！？…" else "。" if cjk().match(piece.text[-1:]) else "."
        shown.append(
            f"{piece.who}: {piece.text}{ends}" if piece.who and piece.who != speaker else f"{piece.text}{ends}"
        )
        speaker = piece.who
    return " ".join(shown)[:4000]


def _told(scene: Scene) -> list[str]:
    """Return the system texts, oldest first."""
    return [scene.system or "", *(message.content for message in scene.messages if message.role == "system")]


def _described(rest: str) -> tuple[str, Mapping[str, Any]]:
    """Split a tool's line into its description and its schema."""
    start = rest.find("{")
    while start >= 0:
        try:
            schema = json.loads(rest[start:])
        except (ValueError, RecursionError):
            start = rest.find("{", start + 1)
            continue
        return rest[:start].strip(), schema if isinstance(schema, dict) else {}
    return rest.strip(), {}


def _fitting(tools: Sequence[Tool], text: str) -> Tool | None:
    """Return the tool that fits a message best, if any: of the kind the message asks for, or named by its words."""
    said = set(words(text))
    best, top = None, 1
    for tool in tools:
        about = f"{pattern(r'[_.-]').sub(' ', tool.name)} {tool.description}"
        kinds = sum(2 for of, needed in cues.KINDS if pattern(of).search(about) and pattern(needed).search(text))
        score = kinds + len(said & set(words(about)))
        if score > top:
            best, top = tool, score
    return best


def _input(tool: Tool, scene: Scene) -> dict[str, Any]:
    """Return what to give a tool: its texts get the question (an address its link, a place the place), the rest the
    plainest value its schema allows."""
    from lumia.models import guess

    fields, required = tool.schema.get("properties"), tool.schema.get("required")
    if not isinstance(fields, dict) or not fields:
        return {"query": scene.text[:500]} if not tool.schema else {}
    needed = [name for name in required if name in fields] if isinstance(required, list) else []
    found: dict[str, Any] = {}
    for name in needed or list(fields)[:1]:
        schema = fields[name] if isinstance(fields[name], dict) else {}
        text = schema.get("type", "string") == "string" and not ({"enum", "const", "format"} & schema.keys())
        found[name] = _text_for(name, scene.text) if text else guess.value(schema, name, scene)
    return found


def _text_for(name: str, text: str) -> str:
    if pattern(r"ur[il]|link|address").search(name) and (link := _URL.search(text)):
        return link[0]
    if pattern(r"city|place|location|where|地").search(name):
        found = pattern(cues.PLACE).search(text)
        if found:
            return found["p"] or found["z"]
    return text[:500]


def _answer(scene: Scene) -> str:
    """Return what the bot would say; what a tool found answers a question that the chat itself doesn't."""
    said = scene.reply()
    results = [text for told in _told(scene) if told.lstrip().startswith(RESULTS) for text in _results(told)]
    unknown = said in (language.says["unknown"] for language in _languages())
    return results[-1] if results and (unknown or scene.intent() != "question") else said


def _languages() -> Iterator[Any]:
    from lumia.models.phrases import LANGUAGES

    yield from LANGUAGES.values()


def _results(told: str) -> Iterator[str]:
    for line in told.splitlines()[1:]:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        result = found.get("result") if isinstance(found, dict) else None
        text = " ".join(_strings(result, 0))
        if text and not (isinstance(result, dict) and set(result) == {"error"}):
            yield text if len(text) <= 600 else f"{text[:600]}…"


def _strings(value: Any, depth: int) -> Iterator[str]:
    """Yield what a result says, without the names of its fields."""
    if depth > 6:
        return
    if isinstance(value, dict):
        for one in value.values():
            yield from _strings(one, depth + 1)
    elif isinstance(value, list):
        for one in value[:20]:
            yield from _strings(one, depth + 1)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield " ".join(str(value)[:2000].split())


def _memories(scene: Scene) -> list[dict[str, Any]]:
    """Return what the newest message tells of people, in the third person, and what it asks to remember."""
    told = [fact for fact in facts_of(scene.own) if not (fact.what == "name" and fold(fact.value) == fact.who)]
    found = [_memory(fact, scene) for fact in told][:5]
    asked = pattern(scene.language.remember).match(scene.text)
    if asked and not found:
        kept = remembered(scene.text, scene.language)[:1000].strip()
        topic = focus(kept)[:80] or kept[:40]
        return [{"topic": topic, "content": kept, "importance": 0.8}] if topic else []
    return found


def _memory(fact: Fact, scene: Scene) -> dict[str, Any]:
    own = fact.who == fold(scene.last.name or "")
    person = (scene.last.name or "") if own else fact.who
    content = scene.say(fact.what, v=fact.value, p=person) if person else fact.line.text
    return {"topic": (person or fact.value)[:200], "content": content[:1000], "importance": 0.6}


def _lines(name: str | None, content: str) -> Iterator[tuple[str, str]]:
    """Yield (who, what) of a message: one of a person, or a transcript of `Ann: hi` lines."""
    for line in content[:200_000].splitlines():
        said = line.strip()
        found = None if name else _SPOKEN.match(said)
        if said:
            yield (found["who"], found["text"]) if found else (name or "", said)


def _parts(line: str) -> list[str]:
    parts = [" ".join(part.split()) for part in _SENTENCES.split(line[:4000])]
    return [part if len(part) <= _PIECE else f"{part[:_PIECE]}…" for part in parts if part]


def _weight(text: str) -> float:
    """Return how much a sentence tells: its telling words; more for facts, figures, decisions, less for questions."""
    language = language_of(text)
    told = facts_of(_own_lines(text))
    weight = (
        min(8.0, float(len(Counter(words(text))))) + 3.0 * bool(told) + 2.0 * bool(pattern(cues.TELLING).search(text))
    )
    return weight * (0.6 if is_question(text, language) else 1.0)


def _own_lines(text: str) -> Any:
    from lumia.models.messages import Message
    from lumia.models.recall import lines_of

    return lines_of([Message("user", text, "?")])


def _chosen(pieces: Sequence[_Piece], room: int) -> list[_Piece]:
    """Return the weightiest pieces that fit: first one of everybody who spoke, then the rest."""
    ranked = (
        sorted((one for one in pieces if one.weight > 0), key=lambda one: (-one.weight, one.at)) or list(pieces)[-3:]
    )
    firsts = list({one.who: one for one in reversed(ranked)}.values())
    kept: list[_Piece] = []
    for one in (*sorted(firsts, key=lambda one: -one.weight), *ranked):
        if one not in kept and len(one.text) + len(one.who) + 2 <= room:
            kept.append(one)
            room -= len(one.text) + len(one.who) + 2
    return kept
