"""A recorded group log, read for the lab: JSONL with one message a line, or what `lumia journal export` wrote.

A line is {message_id, time, group_id, sender_id, sender_name, text} and optionally reply_to, mentions_bot and label
(`engage` or `silent`); `time` is in seconds since 1970, and a `reply_to` of `bot:<message_id>` is the bot's answer to
that message. In a file where some lines have `mentions_bot` the others don't mention the bot; where none has it, the
texts tell. Further keys are ignored. What is wrong is said with file, line and the way out.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unicodedata import category

import lumia

REQUIRED = ("message_id", "time", "group_id", "sender_id", "sender_name", "text")
LABELS = ("engage", "silent")
_KEYS = f"a line is an object with {', '.join(REQUIRED)} and optionally reply_to, mentions_bot, label"
_GZIP = b"\x1f\x8b"
_LATEST = 253402300800.0
"""The year 10000; a larger time is in milliseconds."""


class LogError(ValueError):
    """A log that can't be read; its text names file, line and the way out."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of a log. label: `engage`, `silent`, or "" where nobody said; mentions: None to look at the text."""

    message_id: str
    time: float
    group_id: str
    sender_id: str
    sender_name: str
    text: str
    reply_to: str | None = None
    mentions: bool | None = None
    label: str = ""
    file: str = ""
    line: int = 0


def read(path: Path | str) -> list[Entry]:
    """Return the messages of a log in its order; raises `LogError`."""
    shown = str(path)
    try:
        raw = Path(path).read_bytes()
        packed = raw.startswith(_GZIP)
        text = (gzip.decompress(raw) if packed else raw).decode("utf-8-sig")
    except OSError as error:
        raise LogError(f"{shown}: {error.strerror or error}; name a file with one JSON object a line") from None
    except (UnicodeDecodeError, EOFError, zlib.error) as error:
        raise LogError(f"{shown}: it isn't UTF-8 text ({error}); save it as UTF-8, one JSON object a line") from None
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise LogError(f"{shown}: the file is empty; {_KEYS}")
    objects = [(number, _object(shown, number, line)) for number, line in lines]
    exported = "lumia_export" in objects[0][1]
    entries = _exported(shown, objects) if exported else [_entry(shown, number, one) for number, one in objects]
    return _checked(shown, entries)


def groups(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Return the messages of each group, groups in the order of their first message."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.group_id, []).append(entry)
    return found


def _object(file: str, number: int, line: str) -> Mapping[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LogError(f"{file}, line {number}: no JSON ({error}); {_KEYS}") from None
    if not isinstance(found, dict):
        raise LogError(f"{file}, line {number}: {type(found).__name__} instead of an object; {_KEYS}")
    return found


def _entry(file: str, number: int, found: Mapping[str, Any]) -> Entry:
    if absent := [key for key in REQUIRED if found.get(key) is None]:
        raise LogError(f"{file}, line {number}: {', '.join(absent)} missing; {_KEYS}")
    label = found.get("label") or ""
    if label not in ("", *LABELS):
        raise LogError(f"{file}, line {number}: label is {label!r}; write engage or silent, or leave it out")
    mentions = found.get("mentions_bot")
    if mentions not in (None, True, False):
        raise LogError(f"{file}, line {number}: mentions_bot is {mentions!r}; write true or false, or leave it out")
    reply_to = None if found.get("reply_to") in (None, "") else _id(file, number, "reply_to", found)
    message, group, sender = (_id(file, number, key, found) for key in ("message_id", "group_id", "sender_id"))
    return Entry(
        message,
        _time(file, number, found["time"]),
        group,
        sender,
        str(found["sender_name"]),
        str(found["text"]),
        reply_to=reply_to,
        mentions=None if mentions is None else bool(mentions),
        label=label,
        file=file,
        line=number,
    )


def _id(file: str, number: int, key: str, found: Mapping[str, Any]) -> str:
    value = found[key]
    text = str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    if 0 < len(text) <= 128 and not any(category(char) in ("Cc", "Cs") for char in text):
        return text
    raise LogError(f"{file}, line {number}: {key} is {value!r:.80}; an id is a string of 1 to 128 printable characters")


def _time(file: str, number: int, value: Any) -> float:
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not known or not 0 <= value < _LATEST:
        raise LogError(
            f"{file}, line {number}: time is {value!r:.80}; write seconds since 1970 (milliseconds are divided by 1000)"
        )
    return float(value)


def _checked(file: str, entries: Sequence[Entry]) -> list[Entry]:
    seen: dict[str, int] = {}
    newest: dict[str, Entry] = {}
    for entry in entries:
        where = f"{file}, line {entry.line}"
        if (first := seen.setdefault(entry.message_id, entry.line)) != entry.line:
            raise LogError(f"{where}: message_id {entry.message_id!r} is that of line {first}, too; give each its own")
        before = newest.get(entry.group_id)
        if before is not None and entry.time < before.time:
            raise LogError(
                f"{where}: time {entry.time:.3f} is before that of line {before.line} ({before.time:.3f}); sort the "
                "lines of a group by time"
            )
        newest[entry.group_id] = entry
    if any(entry.mentions is not None for entry in entries):  # whoever wrote it knows mentions: none noted is none
        return [replace(entry, mentions=bool(entry.mentions)) for entry in entries]
    return list(entries)


# --- exported journals


def _exported(file: str, objects: Sequence[tuple[int, Mapping[str, Any]]]) -> list[Entry]:
    """Return the messages that began the runs of an export, by time; they have no labels."""
    found = {entry.message_id: entry for number, line in objects for entry in _began(file, number, line)}
    if not found:
        raise LogError(f"{file}: the export holds no message of a group; export runs of the pipeline msg")
    return sorted(found.values(), key=lambda entry: (entry.time, entry.line))


def _began(file: str, number: int, line: Mapping[str, Any]) -> Iterator[Entry]:
    told = line.get("e")
    if not isinstance(told, Mapping) or not isinstance(told.get("d"), Mapping):
        return
    if not lumia.payloads.is_message(str(told.get("i"))):
        return
    try:
        box = json.loads(told["d"].get("box") or "null")
        msg = box["j"] if isinstance(box, dict) else None
        if not isinstance(msg, dict) or msg["chat"]["kind"] != "group":
            return
        sender = msg["sender"]
        shown = {**msg, "group_id": msg["chat"]["id"], "sender_id": sender["id"], "label": "",
                 "sender_name": sender.get("card") or sender.get("name") or sender["id"]}  # fmt: skip
    except (ValueError, KeyError, TypeError):
        return
    if all(shown.get(key) is not None for key in REQUIRED):
        yield _entry(file, number, shown)
