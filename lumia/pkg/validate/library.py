"""Functions of Python's library whose result depends on what they get."""

from __future__ import annotations

import ast
from types import CoroutineType

from lumia.pkg.validate import use
from lumia.pkg.validate.follow import follow, worked_out
from lumia.pkg.validate.frame import Frame
from lumia.pkg.validate.types import (
    ANYTHING,
    UNKNOWN,
    Func,
    Inst,
    Unknown,
    Value,
    members,
    union,
    widened,
)


def _cast(frame: Frame, node: ast.Call, args: list[Value], named: dict[str, Value]) -> Value:
    if len(args) != 2:
        return ANYTHING
    wanted = frame.notes.type(node.args[0])
    use.expected(frame, node, args[1], wanted, "cast()")
    return args[1] if isinstance(wanted, Unknown) else args[1].tainted(wanted, args[1].token)


def _same(frame: Frame, node: ast.Call, args: list[Value], named: dict[str, Value]) -> Value:
    return args[0].of(args[0].type, frame.run.token()) if args else ANYTHING


def _gather(frame: Frame, node: ast.Call, args: list[Value], named: dict[str, Value]) -> Value:
    return worked_out(Inst(list), args)


def _ran(frame: Frame, node: ast.Call, args: list[Value], named: dict[str, Value]) -> Value:
    known = args[0].type if args else UNKNOWN
    if isinstance(known, Inst) and known.cls is CoroutineType:
        return args[0].of(known.args[0] if known.args else UNKNOWN, args[0].token)
    return ANYTHING


def _threaded(frame: Frame, node: ast.Call, args: list[Value], named: dict[str, Value]) -> Value:
    if args and isinstance(args[0].type, Func):
        owner = [args[0].type.owner] if args[0].type.owner is not None else []
        return follow(frame, args[0].type.function, [*owner, *args[1:]], named, None)
    return worked_out(UNKNOWN, args)


def _ranged(frame: Frame, node: ast.Call, args: list[Value], named: dict[str, Value]) -> Value:
    return worked_out(Inst(range, (Inst(int),)), args)


def _sorted(frame: Frame, node: ast.Call, args: list[Value], named: dict[str, Value]) -> Value:
    element = union(use._element(each) for each in members(args[0].type)) if args else UNKNOWN
    return Value(
        Inst(list, () if isinstance(element, Unknown) else (element,)), args[0].origin if args else frozenset()
    )


def _enumerated(frame: Frame, node: ast.Call, args: list[Value], named: dict[str, Value]) -> Value:
    element = union(use._element(each) for each in members(args[0].type)) if args else UNKNOWN
    return Value(Inst(enumerate, (Inst(tuple, (Inst(int), element)),)), args[0].origin if args else frozenset())


def _greatest(frame: Frame, node: ast.Call, args: list[Value], named: dict[str, Value]) -> Value:
    """max() and min(): one of the arguments, or of what the only one holds."""
    if len(args) == 1:
        return args[0].of(union(use._element(each) for each in members(args[0].type)))
    return worked_out(union(widened(each.type) for each in args), args)


def _length(frame: Frame, node: ast.Call, args: list[Value], named: dict[str, Value]) -> Value:
    if args and use.plain_of(args[0].type) in (int, float, bool, type(None)):
        use.complain(frame, node, args[0], "it has no len()")
    return worked_out(Inst(int), args)


def _filled(frame: Frame, node: ast.Call, args: list[Value], named: dict[str, Value]) -> Value:
    """dataclasses.replace: another one of the same class."""
    return _same(frame, node, args, named)


def _stop(frame: Frame, node: ast.Call, args: list[Value], named: dict[str, Value]) -> Value:
    frame.state.dead = True
    return ANYTHING


SPECIAL = {
    "typing.cast": _cast, "copy.copy": _same, "copy.deepcopy": _same, "asyncio.gather": _gather, "asyncio.run": _ran,
    "asyncio.wait_for": _same, "asyncio.to_thread": _threaded, "builtins.range": _ranged, "builtins.sorted": _sorted,
    "builtins.enumerate": _enumerated, "builtins.len": _length,
    "builtins.max": _greatest, "builtins.min": _greatest, "dataclasses.replace": _filled,
    "sys.exit": _stop, "os._exit": _stop,
}  # fmt: skip
