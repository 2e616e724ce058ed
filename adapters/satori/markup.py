"""Satori's message elements: text with XHTML-like tags, read and written (satori.chat, Message Encoding).

What the protocol says: a tag is `<name key="value" flag/>`, an element a pair of tags or a self-closing one, comments
vanish, white space with a line break at either end of a text is ignored, and a tag without its partner is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

Attribute = str | bool

_TOKEN = re.compile(
    r"<!--|<(?P<close>/?)(?P<name>[A-Za-z][A-Za-z0-9:_.-]*)"
    r"(?P<attributes>(?:\s+[^\s\"'<>/=]+(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'))?)*)\s*(?P<empty>/?)>",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r"([^\s\"'<>/=]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'))?", re.DOTALL)
_ENTITY = re.compile(r"&(?:#(?P<decimal>[0-9]{1,7})|#[xX](?P<hex>[0-9a-fA-F]{1,6})|(?P<name>amp|lt|gt|quot));")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"'}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9:_.-]*")
_KEY = re.compile(r"[^\s\"'<>/=]+")
MOST_DEEP = 32
"""Elements inside of each other; a tag further down is text."""


@dataclass
class Element:
    """An element with its attributes (True for one without a value) and what is in it."""

    name: str
    attributes: dict[str, Attribute] = field(default_factory=dict)
    children: list[Element | str] = field(default_factory=list)

    def get(self, key: str) -> str:
        """Return an attribute as text, "" for one that is not there or has no value."""
        value = self.attributes.get(key)
        return value if isinstance(value, str) else ""


@dataclass
class _Open:
    element: Element
    source: str


def parse(content: str) -> list[Element | str]:
    """Return what a message holds; neighbouring texts are one. Any text is read: what is no element is text."""
    stack = [_Open(Element(""), "")]
    at = begun = 0
    last = content.rfind("-->")
    while match := _TOKEN.search(content, at):
        at = match.end()
        if match["name"] is None:
            end = content.find("-->", at) if at <= last else -1
            if end < 0:
                continue  # it never ends, so it is text
            _add(stack[-1].element, _trimmed(content[begun : match.start()]))
            at = begun = end + 3
            continue
        _add(stack[-1].element, _trimmed(content[begun : match.start()]))
        begun = at
        if match["close"]:
            _close(stack, match)
        elif match["empty"]:
            _append(stack[-1].element, Element(match["name"], _attributes(match["attributes"])))
        elif len(stack) > MOST_DEEP:
            _add(stack[-1].element, match[0])
        else:
            stack.append(_Open(Element(match["name"], _attributes(match["attributes"])), match[0]))
    _add(stack[-1].element, _trimmed(content[begun:]))
    while len(stack) > 1:
        _demote(stack)
    return stack[0].element.children


def _close(stack: list[_Open], match: re.Match[str]) -> None:
    names = [one.element.name for one in stack]
    if match["name"] not in names[1:]:
        _add(stack[-1].element, match[0])
        return
    while stack[-1].element.name != match["name"]:
        _demote(stack)
    ended = stack.pop().element
    _append(stack[-1].element, ended)


def _demote(stack: list[_Open]) -> None:
    """Make text of a tag that is never closed; what followed it stays."""
    lone = stack.pop()
    _add(stack[-1].element, lone.source)
    for child in lone.element.children:
        if isinstance(child, str):
            _add(stack[-1].element, child)
        else:
            _append(stack[-1].element, child)


def _append(parent: Element, child: Element) -> None:
    parent.children.append(child)


def _add(parent: Element, text: str) -> None:
    if not text:
        return
    if parent.children and isinstance(parent.children[-1], str):
        parent.children[-1] += text
    else:
        parent.children.append(text)


def _trimmed(source: str) -> str:
    """Return a text without white space at an end where that has a line break in it; takes time linear in its length.

    No pattern: one that looks for the end tries every line break of a chat's blank lines, cubic in their number.
    """
    text = unescape(source)
    head, tail = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    text = text.lstrip() if "\n" in head else text
    return text.rstrip() if "\n" in tail else text


def _attributes(source: str) -> dict[str, Attribute]:
    found: dict[str, Attribute] = {}
    for key, double, single in (match.groups() for match in _ATTRIBUTE.finditer(source)):
        value = double if double is not None else single
        found[key] = True if value is None else unescape(value)
    return found


def unescape(text: str) -> str:
    """Return text with its escapes (`&lt;`, `&#39;`, `&#x27;`) undone, once."""
    return _ENTITY.sub(_character, text) if "&" in text else text


def _character(match: re.Match[str]) -> str:
    if match["name"]:
        return _NAMED[match["name"]]
    number = int(match["decimal"]) if match["decimal"] else int(match["hex"], 16)
    return chr(number) if 0 < number <= 0x10FFFF and not 0xD800 <= number <= 0xDFFF else match[0]


def escape(text: str) -> str:
    """Return text as an attribute's value or between tags."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def text(said: str) -> str:
    """Return a text between tags: a line break is an element, since one at a text's end would be ignored."""
    plain = said.replace("\r\n", "\n").replace("\r", "\n")
    return "<br/>".join(
        line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") for line in plain.split("\n")
    )


def tag(name: str, attributes: Mapping[str, Attribute | None], content: str = "") -> str:
    """Return an element of encoded content; attributes that are None or False are left out, and so are unfit names."""
    if not _NAME.fullmatch(name):
        return content
    written = "".join(_written(key, value) for key, value in attributes.items() if _KEY.fullmatch(key))
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def _written(key: str, value: Attribute | None) -> str:
    if value is None or value is False:
        return ""
    return f" {key}" if value is True else f' {key}="{escape(str(value))}"'


def render(nodes: Iterable[Element | str]) -> str:
    """Return what `parse` reads as these."""
    return "".join(
        text(node) if isinstance(node, str) else tag(node.name, node.attributes, render(node.children))
        for node in nodes
    )


def walk(nodes: Iterable[Element | str]) -> Iterator[Element]:
    """Yield all elements, those inside of others as well."""
    for node in nodes:
        if isinstance(node, Element):
            yield node
            yield from walk(node.children)
