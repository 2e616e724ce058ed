"""A persona and how it is read from a file: TOML, or Markdown with front matter or without (docs/personas.md)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import lumia

MOST_CHARACTERS = 20_000
"""How long a persona may be, style and examples included."""
MOST_BYTES = 256 * 1024
HINT_LENGTH = 200
NAME_LENGTH = 64
TOML, MARKDOWN = (".toml",), (".md", ".markdown")
KEYS = ("name", "prompt", "hint", "style", "examples")
_NAME = re.compile(rf"\w(?:[\w .+()-]{{0,{NAME_LENGTH - 2}}}[\w.+()-])?")
_LINE = re.compile(r"\(at line (\d+),")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class PersonaError(lumia.LumiaError):
    """A persona that can't be used. why: what is wrong; line: of the file, counted from 1, None for all of it."""

    def __init__(self, why: str, line: int | None = None, place: str = "") -> None:
        super().__init__(f"{place}{'' if line is None else f':{line}'}: {why}" if place else why)
        self.why, self.line = why, line

    def at(self, place: str) -> PersonaError:
        """Return the same error, told of the file `place`."""
        return PersonaError(self.why, self.line, place)


@dataclass(frozen=True, slots=True)
class Persona:
    """Who the bot is. name: what it is chosen by; prompt: for a system message, `{name}` in it stands for the bot's
    name; hint: the same in one line, for the small model; source: the file, as in config/personas/quiz.toml."""

    name: str
    prompt: str
    hint: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A persona as its file has it, and what of the file means nothing."""

    persona: Persona
    warnings: tuple[str, ...] = ()


def is_name(text: str) -> bool:
    """Tell whether a persona may be called so: letters and digits of any script, and ` . + ( ) - _` between them."""
    return _NAME.fullmatch(text) is not None


def parse(data: bytes, name: str, ending: str) -> Parsed:
    """Return the persona in the bytes of a file; ending: of the file, `.toml`, `.md` or `.markdown`.

    Raises `PersonaError` saying what is wrong, and in which line.
    """
    if len(data) > MOST_BYTES:
        raise PersonaError(f"the file has {len(data):,} bytes; a persona has at most {MOST_CHARACTERS:,} characters")
    text = _decoded(data)
    if not text.strip():
        raise PersonaError("the file is empty; write what the bot is to be like, or remove it")
    values, body = (_toml(text, 0), text) if ending in TOML else _markdown(text)
    return _composed(values, body, name)


def _decoded(data: bytes) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise PersonaError("the file is UTF-16; save it as UTF-8", 1)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PersonaError(f"byte 0x{data[error.start]:02x} is no UTF-8; save the file as UTF-8", line) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _toml(text: str, above: int) -> dict[str, Any]:
    """Return the values of a TOML text; above: how many lines of the file stand before it."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _LINE.search(str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        raise PersonaError(f"no valid TOML: {_LINE.split(str(error))[0].strip()}", line + above) from None
    except RecursionError:
        raise PersonaError("no valid TOML: nested too deeply", above + 1) from None


def _markdown(text: str) -> tuple[dict[str, Any], str]:
    """Return the values of the front matter (`+++` TOML, or `---` with lines `key: value`) and the whole text, of
    which the persona is what follows."""
    lines = text.split("\n")
    fence = lines[0].rstrip()
    if fence not in ("+++", "---"):
        return {"prompt": text}, text
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == fence), None)
    if end is None:
        if fence == "---":  # a rule above the text
            return {"prompt": text}, text
        raise PersonaError("the front matter that begins with +++ has no end; close it with a line +++", 1)
    head = lines[1:end]
    values = _toml("\n".join(head), 1) if fence == "+++" else _pairs(head)
    if "prompt" in values:
        raise PersonaError(
            "the text below the front matter is the prompt; leave `prompt` out", _line_of("prompt", text)
        )
    return {**values, "prompt": "\n".join(lines[end + 1 :])}, text


def _pairs(lines: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for number, line in enumerate(lines, 2):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, colon, value = line.partition(":")
        if not colon or key != key.strip() or not key:
            raise PersonaError("the front matter has lines `key: value`; for more than that use +++ and TOML", number)
        plain = value.strip()
        quoted = len(plain) > 1 and plain[0] == plain[-1] and plain[0] in "'\""
        values[key] = plain[1:-1] if quoted else plain
    return values


def _composed(values: Mapping[str, Any], text: str, name: str) -> Parsed:
    for key in ("prompt", "name", "hint", "style"):
        if not isinstance(values.get(key, ""), str):
            raise PersonaError(f"`{key}` is {_kind(values[key])}; it must be a text", _line_of(key, text))
    text_of_it = _clean(values.get("prompt", ""))
    if not text_of_it:
        line = _line_of("prompt", text) if "prompt" in values else None
        raise PersonaError("the persona has no `prompt`: the text that says what the bot is like", line)
    called = one_line(values.get("name", ""), NAME_LENGTH) or "{name}"
    parts = [text_of_it]
    if style := _clean(values.get("style", "")):
        parts.append(f"How you speak: {style}")
    if examples := _examples(values.get("examples", []), text):
        parts.append("\n".join(["Examples of how you answer:", *examples]))
    prompt = "\n\n".join(parts).replace("{name}", called)
    if len(prompt) > MOST_CHARACTERS:
        raise PersonaError(f"the persona has {len(prompt):,} characters; at most {MOST_CHARACTERS:,} are allowed")
    hint = _clean(values.get("hint", "")) or text_of_it.split("\n", 1)[0].lstrip("# ")
    persona = Persona(name, prompt, one_line(hint.replace("{name}", called)))
    return Parsed(persona, tuple(_unknown(key, text) for key in values if key not in KEYS))


def _examples(raw: Any, text: str) -> list[str]:
    wanted = 'a list of texts, or of tables {user = "…", reply = "…"}'
    if not isinstance(raw, list):
        raise PersonaError(f"`examples` is {_kind(raw)}; it must be {wanted}", _line_of("examples", text))
    shown = []
    for one in raw:
        if isinstance(one, str):
            shown.append(f"- {one_line(one, len(one))}")
        elif isinstance(one, dict) and all(isinstance(one.get(key), str) for key in ("user", "reply")):
            user, reply = (one_line(one[key], len(one[key])) for key in ("user", "reply"))
            shown.append(f"- to “{user}” you say “{reply}”")
        else:
            raise PersonaError(f"`examples` holds {_kind(one)}; it must be {wanted}", _line_of("examples", text))
    return shown


def one_line(text: str, most: int = HINT_LENGTH) -> str:
    """Return `text` on one line, cut to `most` characters."""
    line = " ".join(_clean(text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _clean(text: str) -> str:
    return _CONTROLS.sub("", lumia.payloads.clean_text(text)).strip()


def _unknown(key: str, text: str) -> str:
    line, near = _line_of(key, text), get_close_matches(key, KEYS, 1)
    meant = f"; did you mean `{near[0]}`?" if near else f"; there are {', '.join(KEYS)}"
    return f"{'' if line is None else f'{line}: '}`{one_line(key, 40)}` means nothing{meant}"


def _line_of(key: str, text: str) -> int | None:
    found = re.search(rf"^[ \t]*(?:\[\[?)?[\"']?{re.escape(key)}[\"']?[ \t]*[=:\]]", text, re.MULTILINE)
    return text.count("\n", 0, found.start()) + 1 if found else None


def _kind(value: Any) -> str:
    names = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "a table", str: "a text"}
    return names.get(type(value), "a date")


def from_file(persona: Persona, source: str) -> Persona:
    """Return the persona with the file it is from."""
    return replace(persona, source=source)
