"""What the validator knows of a value: its type, and which Box it came out of.

Types are compared by content, so that an analysis of the same call with the same types is done once.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from lumia.pkg.validate.classes import ClassInfo
    from lumia.pkg.validate.world import Function, Module

DEPTH = 5
"""How deep types are nested before the inner ones count as unknown."""
WIDTH = 12
"""How many members a union has before it counts as unknown."""


@dataclass(frozen=True)
class Unknown:
    """Nothing is known: never a reason for a finding."""


@dataclass(frozen=True)
class Never:
    """No value gets here."""


@dataclass(frozen=True)
class External:
    """A class of a library that is not looked into."""

    name: str


Class: TypeAlias = "type[Any] | ClassInfo | External"


@dataclass(frozen=True)
class Inst:
    """An instance of a class; args: of a generic one, () when not known."""

    cls: Class
    args: tuple[Type, ...] = ()


@dataclass(frozen=True)
class Lit:
    """One value: None is an instance of NoneType, all others are literals. kind keeps True and 1 apart."""

    value: str | int | float | bool | bytes
    kind: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", type(self.value).__name__)


@dataclass(frozen=True)
class Text:
    """A text of which pieces are known; None stands for a piece that isn't."""

    parts: tuple[str | None, ...]


@dataclass(frozen=True)
class Shape:
    """A dict whose keys are known; open: it may have more of them."""

    items: tuple[tuple[str, Type], ...]
    open: bool = False

    def get(self, key: str) -> Type | None:
        """Return the type of one value."""
        return dict(self.items).get(key)


@dataclass(frozen=True)
class Union:
    """One of several. sure: each of them does occur; else they may exclude each other with what was asked since."""

    members: tuple[Type, ...]
    sure: bool = True


@dataclass(frozen=True)
class ClassOf:
    """A class as a value; args: as in `list[int]`."""

    cls: Class
    args: tuple[Type, ...] = ()


@dataclass(frozen=True)
class Func:
    """A function of the plugin as a value; owner: the instance or class a method is bound to."""

    function: Function
    owner: Value | None = None


@dataclass(frozen=True)
class ModuleOf:
    """A module of a plugin."""

    module: Module


@dataclass(frozen=True)
class Ref:
    """A name of a library, such as `lumia.event.start` or `socket.socket`."""

    name: str


@dataclass(frozen=True)
class Method:
    """A method of a value of a known class, before it is called."""

    owner: Value
    name: str
    node: ast.expr | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Boxed:
    """A Box. content: what is in it; subject: the object it was made of, if that one can be told."""

    content: Value
    subject: int = 0
    meta: Type = Unknown()
    destructor: bool = False


@dataclass(frozen=True)
class Marking:
    """A decorator with its arguments, as `lumia.pipe.on("msg")` returns it."""

    kind: str
    call: ast.Call = field(compare=False)
    id: Type = Unknown()
    glob: bool = False
    priv: Type = Lit(0)
    queue: Type = Lit("default")


Type: TypeAlias = (
    "Unknown | Never | Inst | Lit | Text | Shape | Union | ClassOf | Func | ModuleOf | Ref | Method | Boxed | Marking"
)


@dataclass(frozen=True)
class Value:
    """A type with its history. origin: the sites of the Boxes it came out of; token: which object it is, 0 unknown."""

    type: Type
    origin: frozenset[int] = frozenset()
    token: int = field(default=0, compare=False)

    def of(self, type: Type, token: int = 0) -> Value:
        """Return something that was derived from this value."""
        return Value(type, self.origin, token)

    def tainted(self, type: Type, token: int = 0) -> Value:
        """Return something that was worked out from this value: asking about it asks about the content it came from."""
        return Value(type, frozenset(-abs(number) for number in self.origin), token)


UNKNOWN = Unknown()
NEVER = Never()
NONE = Inst(type(None))
ANYTHING = Value(UNKNOWN)
BOOL, INT, FLOAT, STR, BYTES = Inst(bool), Inst(int), Inst(float), Inst(str), Inst(bytes)


def literal(value: object) -> Type:
    """Return the type of a constant."""
    if value is None:
        return NONE
    if isinstance(value, (str, int, float, bool, bytes)):
        return Lit(value)
    return Inst(type(value)) if value is not ... else UNKNOWN


def widened(known: Type) -> Type:
    """Return the class of a literal, and everything else as it is."""
    if isinstance(known, Lit):
        return Inst(type(known.value))
    if isinstance(known, Text):
        return STR
    if isinstance(known, Union):
        return union([widened(member) for member in known.members], sure=known.sure)
    return known


def members(known: Type) -> tuple[Type, ...]:
    """Return the members of a union, or the type alone."""
    return known.members if isinstance(known, Union) else (known,)


def union(types: Iterable[Type], *, sure: bool = True) -> Type:
    """Return the type that is one of these; unknown as soon as one of them is."""
    found: dict[Type, None] = {}
    for each in types:
        if isinstance(each, Union):
            sure = sure and each.sure
        for member in members(each):
            if isinstance(member, Unknown):
                return UNKNOWN
            if not isinstance(member, Never):
                found[member] = None
    if len(found) > WIDTH:
        wide = {widened(each): None for each in found}
        return UNKNOWN if len(wide) > WIDTH else union(wide, sure=sure)
    if len(found) == 1:
        return next(iter(found))
    return Union(tuple(found), sure) if found else NEVER


def join(values: Iterable[Value]) -> Value:
    """Return the value that is one of these."""
    known = list(values)
    if len(known) == 1:
        return known[0]
    if len({(each.type, each.origin, each.token) for each in known}) == 1:
        return known[0]
    origin = frozenset().union(*(each.origin for each in known)) if known else frozenset[int]()
    tokens = {each.token for each in known}
    return Value(union(each.type for each in known), origin, tokens.pop() if len(tokens) == 1 else 0)


def opened(known: Type) -> Type:
    """Return the type of a container that somebody else may change from here on."""
    if isinstance(known, Shape):
        return replace(known, open=True)
    if isinstance(known, Inst) and known.cls in (list, dict, set):
        return Inst(known.cls)
    if isinstance(known, Union):
        return union([opened(member) for member in known.members], sure=known.sure)
    return known


def shallow(known: Type, depth: int = DEPTH) -> Type:
    """Return the type with what is nested deeper than `depth` unknown, so that every analysis ends."""
    if isinstance(known, Inst):
        if not known.args or _height(known) <= depth:
            return known
        return Inst(known.cls, tuple(shallow(each, depth - 1) for each in known.args) if depth > 0 else ())
    if isinstance(known, Shape):
        if _height(known) <= depth:
            return known
        if depth <= 0:
            return Inst(dict)
        return Shape(tuple((key, shallow(each, depth - 1)) for key, each in known.items), known.open)
    if isinstance(known, Union) and _height(known) > depth:
        return union([shallow(each, depth) for each in known.members], sure=known.sure)
    return known


def _height(known: Type) -> int:
    if isinstance(known, Inst):
        return 1 + max(map(_height, known.args)) if known.args else 0
    if isinstance(known, Shape):
        return 1 + max((_height(each) for _, each in known.items), default=0)
    return max(map(_height, known.members), default=0) if isinstance(known, Union) else 0
