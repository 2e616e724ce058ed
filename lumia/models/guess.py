"""Structured outputs of the offline model: plausible, deterministic values for any JSON schema, led by field names.

A field called `score` or `should_reply` is judged from the chat, `reply` gets the offline answer, `keywords` the
telling words; whatever no name explains gets the plainest value its schema allows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from math import ceil, floor
from typing import TYPE_CHECKING, Any

from lumia.errors import ModelError
from lumia.models.offline_layers import digest, made
from lumia.models.relevance import judge
from lumia.models.reply import adapter, write_output
from lumia.models.words import fold, pattern, words

if TYPE_CHECKING:
    from lumia.models.offline import Scene

Schema = Mapping[str, Any]
_DEEPEST = 6
_NOTHING = object()
_REASON = "offline rules"
_FORMATS = {
    "uuid": "00000000-0000-4000-8000-000000000000", "email": "offline@example.invalid", "ipv4": "127.0.0.1",
    "ipv6": "::1", "uri": "https://example.invalid/", "duration": "PT0S", "binary": "", "base64": "",
}  # fmt: skip
_GOOD = (
    r"\b(?:great|good|love|nice|thanks?|happy|cool|super|gut|toll|bueno|genial|bien|merci)\b"
    "|好|喜欢|开心|谢谢|嬉|好き|ありがとう"
)
_BAD = (
    r"\b(?:bad|hate|awful|terrible|sad|angry|wrong|broken|schlecht|malo|triste|mal|mauvais)\b"
    "|坏|讨厌|难过|生气|悲|嫌"
)
_YOU = r"\b(?:you|your|du|dich|dir|t[uú]|te|toi|vous|usted)\b|[你您]|あなた|君"


def fill(output_type: Any, scene: Scene) -> str:
    """Return the JSON text of a value of `output_type`; raises `ModelError` when rules can't make one."""
    kind = adapter(output_type)
    schema = kind.json_schema()
    value = _Filler(scene, schema.get("$defs", {})).value(schema, "", 0)
    try:
        return write_output(kind.validate_json(json.dumps(value)), output_type)
    except ValueError as error:
        wrong = " ".join(str(error).split())[:300]
        raise ModelError(
            f"the offline model can't make a value of {getattr(output_type, '__name__', output_type)}: {wrong}; "
            "give that field a default, or configure a real model for this role"
        ) from None


def value(schema: Schema, field: str, scene: Scene) -> Any:
    """Return a value for one field of a JSON schema."""
    return _Filler(scene, schema.get("$defs", {})).value(schema, field, 0)


class _Filler:
    """Walks a schema; `field` is the name of the nearest property."""

    def __init__(self, scene: Scene, definitions: Mapping[str, Schema]) -> None:
        self.scene, self.definitions = scene, definitions

    def value(self, schema: Schema, field: str, depth: int) -> Any:
        schema = self._followed(schema)
        for key in ("const", "default"):
            if key in schema and not (key == "default" and field in HOOKS):
                return schema[key]
        if "enum" in schema:
            return self._choice(schema["enum"], field)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return self.value(self._alternative(schema[key], depth), field, depth)
        hooked = self._hooked(schema, field)
        return self._plain(schema, field, depth) if hooked is _NOTHING else hooked

    def _followed(self, schema: Schema) -> Schema:
        """Resolve `$ref` and merge a lone `allOf`, as pydantic writes them."""
        while "$ref" in schema:
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            schema = {**self.definitions.get(schema["$ref"].rpartition("/")[2], {}), **rest}
        for part in schema.get("allOf", ()):
            schema = {**self._followed(part), **schema}
        return schema

    def _alternative(self, options: list[Schema], depth: int) -> Schema:
        """The first that holds something; null once it gets deep, so recursive types end."""
        followed = [self._followed(option) for option in options]
        nulls = [option for option in followed if option.get("type") == "null"]
        others = [option for option in followed if option.get("type") != "null"]
        return (nulls or others)[0] if (depth > 1 and nulls) or not others else others[0]

    def _choice(self, options: list[Any], field: str) -> Any:
        """The option the message names, else the one its intent suggests, else the most neutral, else the first."""
        said = set(words(self.scene.text))
        named = [option for option in options if isinstance(option, str) and set(words(option)) & said]
        hooked = HOOKS[field](self.scene) if field in HOOKS else None
        wanted = [hooked, *_INTENTS.get(self.scene.intent(), ()), "neutral", "none", "unknown", "other", "low"]
        folded = {fold(str(option)): option for option in options}
        guesses = [folded[fold(str(guess))] for guess in wanted if guess is not None and fold(str(guess)) in folded]
        return (named or guesses or options)[0]

    def _hooked(self, schema: Schema, field: str) -> Any:
        """What the field's name suggests, if it is of the type the schema wants."""
        kind = schema.get("type")
        if kind in ("number", "integer") and field in SCORES:
            return self._number(schema, SCORES[field](self.scene))
        guess = HOOKS[field](self.scene) if field in HOOKS else None
        if kind == "boolean" and isinstance(guess, bool):
            return guess
        if kind == "string" and isinstance(guess, str) and "format" not in schema:
            return self._cut(schema, guess)
        texts = kind == "array" and self._followed(schema.get("items", {})).get("type") == "string"
        if texts and isinstance(guess, list):
            return self._listed(schema, guess)
        return _NOTHING

    def _listed(self, schema: Schema, guess: list[str]) -> Any:
        most, least = schema.get("maxItems", len(guess)), schema.get("minItems", 0)
        cut = [self._cut(schema["items"], text) for text in guess[:most]]
        return cut if len(cut) >= least else _NOTHING

    def _plain(self, schema: Schema, field: str, depth: int) -> Any:
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = next((one for one in kind if one != "null"), "null")
        makers: dict[Any, Callable[[], Any]] = {
            "object": lambda: self._object(schema, depth),
            "array": lambda: self._array(schema, field, depth),
            "string": lambda: self._string(schema),
            "integer": lambda: self._number(schema, None),
            "number": lambda: self._number(schema, None),
            "boolean": lambda: False,
        }
        return makers[kind]() if kind in makers else None

    def _object(self, schema: Schema, depth: int) -> dict[str, Any]:
        if depth > _DEEPEST:
            return {}
        required, fields = schema.get("required", ()), schema.get("properties", {})
        known = made(fields, self.scene)
        return {
            name: known[name] if name in known else self.value(part, name, depth + 1)
            for name, part in fields.items()
            if name in known or (not known and (name in HOOKS or name in SCORES)) or name in required
        }

    def _array(self, schema: Schema, field: str, depth: int) -> list[Any]:
        fixed = [self.value(part, field, depth + 1) for part in schema.get("prefixItems", ())]
        missing = max(0, schema.get("minItems", 0) - len(fixed))
        items = schema.get("items", {})
        more = [self.value(items, field, depth + 1) if items else None for _ in range(missing)]
        return [*fixed, *(self._distinct(more) if schema.get("uniqueItems") else more)]

    def _distinct(self, values: list[Any]) -> list[Any]:
        """Make equal items differ as far as their type lets them."""
        return [
            value if number == 0 or isinstance(value, bool) else value + number if isinstance(value, int | float)
            else f"{value}{number}" if isinstance(value, str) else value
            for number, value in enumerate(values)
        ]  # fmt: skip

    def _string(self, schema: Schema) -> str:
        form = schema.get("format", "")
        now = datetime.fromtimestamp(self.scene.clock(), UTC)
        dated = {"date": f"{now:%Y-%m-%d}", "date-time": now.isoformat(), "time": f"{now:%H:%M:%S}Z"}
        return dated.get(form) or _FORMATS.get(form) or self._cut(schema, "")

    def _cut(self, schema: Schema, text: str) -> str:
        least, most = schema.get("minLength", 0), schema.get("maxLength")
        return text.ljust(least, ".")[:most]

    def _number(self, schema: Schema, share: float | None) -> float | int:
        """The number that lies at `share` (0–1) of the allowed range, or the nearest allowed one to 0."""
        whole = schema.get("type") == "integer"
        step = schema.get("multipleOf", 1 if whole else 0)
        low, high = _bounds(schema, step or 1e-6)
        if share is None:
            wanted = min(max(0, low if low is not None else 0), high if high is not None else float("inf"))
        else:
            start = low or 0
            end = high if high is not None else max(start + 1, 100 if whole else 1)
            wanted = start + share * (end - start)
        if not step:
            return round(wanted, 6)
        below, above = floor(wanted / step) * step, ceil(wanted / step) * step
        value = above if low is not None and below < low else below
        return int(value) if whole else value


def _bounds(schema: Schema, step: float) -> tuple[float | None, float | None]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if "exclusiveMinimum" in schema:
        low = schema["exclusiveMinimum"] + step
    if "exclusiveMaximum" in schema:
        high = schema["exclusiveMaximum"] - step
    return low, high


def relevance(scene: Scene) -> float:
    """Return how much the newest message seems to want an answer of the bot, 0 to 1."""
    if judged := judge(scene):
        return judged.score
    score = 0.1 + 0.35 * scene.asks + 0.4 * addressed(scene) + 0.15 * _says_you(scene)
    return round(min(1.0, score + 0.25 * (scene.intent() in ("greeting", "help", "identity", "thanks", "farewell"))), 4)


def addressed(scene: Scene) -> bool:
    """Tell whether the newest message names the bot."""
    return fold(scene.bot_name) in fold(scene.last.content)


def _says_you(scene: Scene) -> bool:
    return bool(pattern(_YOU).search(scene.text))


def _wants_reply(scene: Scene) -> bool:
    return relevance(scene) >= 0.35


def _offline_reply(scene: Scene) -> str:
    return scene.reply()


def mood(scene: Scene) -> str:
    """Return `positive`, `negative` or `neutral`."""
    if pattern(_BAD).search(scene.text):
        return "negative"
    return "positive" if pattern(_GOOD).search(scene.text) else "neutral"


def topics(scene: Scene) -> list[str]:
    """Return the telling words of the newest message, the commonest first."""
    return [word for word, _ in Counter(words(scene.text)).most_common(5)]


def _people(scene: Scene) -> list[str]:
    return list(dict.fromkeys(message.name for message in scene.messages if message.name))


def _summary(scene: Scene) -> str:
    said = [message for message in scene.messages if message.role == "user"]
    if len(said) > 1 or "\n" in scene.last.content.strip():
        return digest(scene)
    return scene.say("summary", n=str(len(said)), v=scene.text[:200])


def _reason(scene: Scene) -> str:
    if judged := judge(scene):
        return judged.reason
    signs = {"question": scene.asks, "names the bot": addressed(scene), "says you": _says_you(scene)}
    return f"{_REASON}: {', '.join(sign for sign, holds in signs.items() if holds) or scene.intent()}"


_INTENTS = {
    "question": ("question", "ask", "query", "request"),
    "sum": ("question", "calculation"),
    "date": ("question",),
    "time": ("question",),
    "help": ("help", "question"),
    "identity": ("question",),
    "greeting": ("greeting", "smalltalk", "chat"),
    "farewell": ("farewell", "goodbye", "smalltalk", "chat"),
    "thanks": ("thanks", "gratitude", "smalltalk", "chat"),
    "statement": ("statement", "information", "inform", "chat", "smalltalk"),
}

SCORES: dict[str, Callable[[Scene], float]] = {
    **dict.fromkeys(("score", "relevance", "relevance_score", "interest", "probability"), relevance),
    **dict.fromkeys(("priority", "urgency", "importance", "strength", "salience", "weight", "attention"), relevance),
    **dict.fromkeys(("confidence", "certainty"), lambda scene: 0.5),
}
"""Numbers by field name, as a share (0–1) of the range the schema allows."""

HOOKS: dict[str, Callable[[Scene], Any]] = {
    **dict.fromkeys(("should_reply", "reply_needed", "needs_reply", "respond", "should_respond"), _wants_reply),
    **dict.fromkeys(("engage", "should_engage", "speak", "relevant", "is_relevant", "interested"), _wants_reply),
    **dict.fromkeys(("mentions_bot", "addressed", "is_addressed", "directed", "to_bot"), addressed),
    **dict.fromkeys(("is_question", "question", "asks"), lambda scene: scene.asks),
    **dict.fromkeys(("is_greeting", "greeting"), lambda scene: scene.intent() == "greeting"),
    **dict.fromkeys(
        ("reply", "text", "answer", "response", "message", "content", "reply_text", "output"), _offline_reply
    ),
    **dict.fromkeys(("reply_bias", "draft", "thoughts", "thought", "result", "conclusion"), _offline_reply),
    **dict.fromkeys(("reason", "reasoning", "rationale", "explanation", "why"), _reason),
    **dict.fromkeys(("summary", "gist", "abstract", "context_summary", "compressed"), _summary),
    **dict.fromkeys(("keywords", "topics", "tags", "entities", "labels", "subjects"), topics),
    **dict.fromkeys(("topic", "subject", "keyword", "title"), lambda scene: " ".join(topics(scene)[:3])),
    **dict.fromkeys(("participants", "speakers", "people", "names"), _people),
    **dict.fromkeys(("name", "speaker", "sender", "who", "person"), lambda scene: scene.last.name or ""),
    **dict.fromkeys(("query", "goal", "task", "request", "question_text", "input"), lambda scene: scene.text),
    **dict.fromkeys(("language", "lang", "locale"), lambda scene: scene.language.code),
    **dict.fromkeys(("mood", "sentiment", "emotion", "tone", "polarity"), mood),
    **dict.fromkeys(("intent", "kind", "category", "type", "label"), lambda scene: scene.intent()),
}
"""Values by field name; one is used where its type is the schema's. Field names are matched as written."""
