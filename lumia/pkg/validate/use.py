"""What can be done with a value of a type, and what is said when it can't (rule LUM102)."""

from __future__ import annotations

import ast
import difflib
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lumia.pkg.validate.classes import ClassInfo
from lumia.pkg.validate.fits import describe
from lumia.pkg.validate.frame import Frame
from lumia.pkg.validate.known import OTHERS, SAMPLES
from lumia.pkg.validate.messages import is_part
from lumia.pkg.validate.types import (
    ANYTHING,
    NONE,
    STR,
    UNKNOWN,
    Boxed,
    Inst,
    Lit,
    Never,
    Shape,
    Text,
    Type,
    Union,
    Unknown,
    Value,
    members,
    union,
    widened,
)

_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_, ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.In: lambda part, whole: part in whole, ast.NotIn: lambda part, whole: part in whole,
}  # fmt: skip
_PLAIN = frozenset(SAMPLES)


def complain(frame: Frame, node: ast.AST, value: Value, what: str) -> None:
    """Report a use that fails for what came out of a Box."""
    if any(number > 0 for number in value.origin):
        frame.report(
            "LUM102", node, f"the content of this Box is {_a(describe(value.type))}: {what}", about=value.origin
        )


def _a(text: str) -> str:
    return text if text == "None" else f"{'an' if text[:1] in 'aeiouAEIO' else 'a'} {text}"


def _fails(known: Type, test: Callable[[Type], bool]) -> bool:
    """Tell whether something fails for every value of a type, or for one that surely occurs."""
    if isinstance(known, Union):
        found = [test(member) for member in known.members]
        return all(found) or (known.sure and any(found))
    return test(known)


def plain(known: Type) -> type | None:
    """Return the plain class of a value, None when it is of another or may be of a subclass that does more."""
    if isinstance(known, Shape):
        return dict
    known = widened(known)
    return known.cls if isinstance(known, Inst) and known.cls in _PLAIN else None


def attribute(frame: Frame, node: ast.Attribute, owner: Value) -> None:
    """Check that every value has this attribute."""
    name = node.attr
    if _fails(owner.type, lambda each: lacks(each, name)):
        complain(frame, node, owner, f"it has no attribute {name!r}{_close(owner.type, name)}")


def lacks(known: Type, name: str) -> bool:
    """Tell whether a value surely has no attribute of this name."""
    cls = plain(known)
    if cls is not None:
        return not hasattr(cls, name)
    if isinstance(known, Inst) and isinstance(known.cls, ClassInfo):
        if known.cls.typed_dict:
            return not hasattr(dict, name)
        return known.cls.known and not known.cls.protocol and not known.cls.decorators_odd and not known.cls.has(name)
    return False


def _close(known: Type, name: str) -> str:
    if isinstance(known, Shape) and known.get(name) is not None:
        return f"; write [{name!r}]"
    if isinstance(known, Inst) and isinstance(known.cls, ClassInfo):
        names = {each for base in known.cls.locals() for each in (*base.fields, *base.methods, *base.stored)}
        close = difflib.get_close_matches(name, sorted(names), n=1)
        return f"; did you mean {close[0]!r}?" if close else ""
    return ""


def subscript(frame: Frame, node: ast.Subscript, owner: Value, key: Value) -> Value:
    """Return `owner[key]`, and check that it is there."""
    if _fails(owner.type, lambda each: _cant_index(each, key.type)):
        complain(frame, node, owner, f"it can't be read with [{_key_text(node, key)}]")
        return ANYTHING
    if isinstance(key.type, Lit) and isinstance(key.type.value, str):
        name = key.type.value
        if _fails(owner.type, lambda each: _lacks_key(frame, each, name)):
            what = f"it has no key {name!r}{_close_key(owner.type, name)}"
            if not is_part(owner.type):
                complain(frame, node, owner, what)
            elif name not in frame.run.asked and not frame.caught:
                # What else was asked about a message tells nothing of this key.
                frame.report("LUM108", node, f"this is {_a(describe(owner.type))} as adapters send it: {what}")
            return owner.of(UNKNOWN)
    return owner.of(union(_item(frame, each, key.type) for each in members(owner.type)))


def _key_text(node: ast.Subscript, key: Value) -> str:
    return repr(key.type.value) if isinstance(key.type, Lit) else ast.unparse(node.slice)[:30]


def _cant_index(known: Type, key: Type) -> bool:
    cls = plain(known)
    if cls in (int, float, bool, set, type(None)):
        return True
    if cls in (str, bytes, list, tuple):
        return isinstance(widened(key), Inst) and plain(key) in (str, bytes, float, dict, list)
    if isinstance(known, Inst) and isinstance(known.cls, ClassInfo) and not known.cls.typed_dict:
        return known.cls.known and not known.cls.protocol and not known.cls.has("__getitem__")
    return False


def _lacks_key(frame: Frame, known: Type, name: str) -> bool:
    if isinstance(known, Shape):
        return not known.open and known.get(name) is None
    if isinstance(known, Inst) and isinstance(known.cls, ClassInfo) and known.cls.typed_dict:
        return known.cls.known_keys and name not in frame.run.fields(known.cls)
    return False


def _close_key(known: Type, name: str) -> str:
    names = [key for key, _ in known.items] if isinstance(known, Shape) else []
    if isinstance(known, Inst) and isinstance(known.cls, ClassInfo):
        names = list(known.cls.fields)
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; it has {', '.join(map(repr, names[:8]))}" if names else ""


def _item(frame: Frame, known: Type, key: Type) -> Type:
    if isinstance(known, Shape):
        return (known.get(str(key.value)) or UNKNOWN) if isinstance(key, Lit) else UNKNOWN
    if isinstance(known, (Lit, Text)):
        return STR if plain(known) is str else UNKNOWN
    if not isinstance(known, Inst):
        return UNKNOWN
    if isinstance(known.cls, ClassInfo):
        typed = known.cls.typed_dict and isinstance(key, Lit)
        return frame.run.fields(known.cls).get(str(key.value), UNKNOWN) if typed else UNKNOWN  # type: ignore[union-attr]
    if known.cls is str:
        return STR
    if known.cls is tuple and known.args:
        return _of_tuple(known.args, key)
    if known.cls is list and known.args:
        return known.args[0] if plain(key) is int else known
    return known.args[1] if len(known.args) == 2 else UNKNOWN


def _of_tuple(args: tuple[Type, ...], key: Type) -> Type:
    if isinstance(args[-1], Never):
        return args[0] if plain(key) is int else UNKNOWN
    at = key.value if isinstance(key, Lit) else None
    return args[at] if isinstance(at, int) and -len(args) <= at < len(args) else UNKNOWN


def iterated(frame: Frame, node: ast.AST, value: Value) -> Value:
    """Return what a loop over a value gives, and check that there can be one."""
    if _fails(value.type, lambda each: plain(each) in (int, float, bool, type(None)) or _not_iterable(each)):
        complain(frame, node, value, "it can't be iterated over")
        return ANYTHING
    return value.of(union(_element(each) for each in members(value.type)))


def _not_iterable(known: Type) -> bool:
    if not (isinstance(known, Inst) and isinstance(known.cls, ClassInfo)) or known.cls.typed_dict or known.cls.model:
        return False
    cls = known.cls
    return (
        cls.known and not cls.protocol and not (cls.has("__iter__") or cls.has("__getitem__") or cls.has("__aiter__"))
    )


def _element(known: Type) -> Type:
    if isinstance(known, (Lit, Text)):
        return STR if plain(known) is str else UNKNOWN
    if isinstance(known, Shape):
        return STR if not known.open else UNKNOWN
    if isinstance(known, Inst) and known.args:
        if known.cls is tuple:
            return union(known.args)
        return known.args[0]
    return STR if isinstance(known, Inst) and known.cls is str else UNKNOWN


def binary(frame: Frame, node: ast.AST, op: ast.AST, left: Value, right: Value) -> Type:
    """Return the type of an operation; what Python refuses for the plain classes is reported."""
    mine, theirs = plain_of(left.type), plain_of(right.type)
    apply = _OPERATORS.get(type(op))
    if apply is None or mine is None or theirs is None:
        return UNKNOWN if apply is None else _of_others(apply, left.type, right.type)
    try:
        result = apply(SAMPLES[mine], SAMPLES[theirs])
    except TypeError:
        # Of two wrong sides the one that came in a Box is to blame; text % anything is formatting.
        about = left if left.origin else right
        other = theirs if left.origin else mine
        if not (isinstance(op, ast.Mod) and mine in (str, bytes)):
            complain(frame, node, about, f"{_symbol(op)} doesn't work with {_a(describe(Inst(other)))}")
        return UNKNOWN
    except (ValueError, ZeroDivisionError):
        return UNKNOWN
    if isinstance(op, (ast.Mult, ast.Pow)) and {mine, theirs} & {list, tuple, dict, set}:
        return Inst(type(result))
    if isinstance(op, ast.Pow):
        return UNKNOWN
    return Inst(type(result)) if type(result) in _PLAIN else UNKNOWN


def _of_others(apply: Callable[[Any, Any], Any], left: Type, right: Type) -> Type:
    """Times, paths and decimals: what comes out is known, what fails isn't judged."""
    both = [OTHERS.get(each.cls) if isinstance(each, Inst) else None for each in (widened(left), widened(right))]
    both = [
        SAMPLES.get(plain(known) or object) if part is None else part
        for part, known in zip(both, (left, right), strict=True)
    ]
    if None in both:
        return UNKNOWN
    try:
        made = type(apply(*both))
        return Inst(Path if issubclass(made, Path) else made)
    except Exception:  # whatever Python says to it
        return UNKNOWN


def plain_of(known: Type) -> type | None:
    """Return the one plain class of a value, of all members if it is a union."""
    found = {plain(member) for member in members(known)}
    return found.pop() if len(found) == 1 else None


def _symbol(op: ast.AST) -> str:
    names = {
        ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Lt: "<",
        ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.In: "in", ast.NotIn: "not in",
    }  # fmt: skip
    return f"`{names.get(type(op), type(op).__name__)}`"


def expected(frame: Frame, node: ast.AST, value: Value, wanted: Type, where: str) -> bool:
    """Check that what came out of a Box is of the type that a place wants; False when it surely isn't."""
    if isinstance(value.type, (Unknown, Boxed)) or frame.run.fits(value.type, wanted) is not False:
        return True
    if isinstance(wanted, Boxed):
        complain(frame, node, value, f"{where} wants a Box")
    else:
        complain(frame, node, value, f"{where} wants {_a(describe(wanted))}")
    return False


__all__ = ["NONE", "attribute", "binary", "complain", "expected", "iterated", "lacks", "plain", "plain_of", "subscript"]
