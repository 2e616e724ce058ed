"""Following the plugin's own functions with the types they get."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import cache
from types import CoroutineType, GeneratorType

from lumia.pkg.validate import use
from lumia.pkg.validate.frame import CALLS, DEEP, Frame
from lumia.pkg.validate.messages import is_part
from lumia.pkg.validate.reach import boxy_functions
from lumia.pkg.validate.types import (
    ANYTHING,
    NONE,
    UNKNOWN,
    Boxed,
    Inst,
    Shape,
    Type,
    Unknown,
    Value,
    join,
)
from lumia.pkg.validate.world import Function

_NOWHERE = frozenset[int]()
_TRANSPARENT = frozenset(
    [
        "builtins.staticmethod",
        "builtins.classmethod",
        "builtins.property",
        "functools.cache",
        "functools.lru_cache",
        "functools.wraps",
        "functools.cached_property",
        "typing.override",
        "abc.abstractmethod",
        "typing.final",
        "typing.no_type_check",
    ]
)


def worked_out(known: Type, values: Sequence[Value], token: int = 0) -> Value:
    for one in values:
        if one.origin:
            return Value(known, frozenset(-abs(number) for each in values for number in each.origin), token)
    return Value(known, _NOWHERE, token)


def follow(
    frame: Frame, function: Function, args: Sequence[Value], named: Mapping[str, Value], node: ast.Call | None
) -> Value:
    """Return what a function of the plugin gives for these arguments, having followed what it does with Boxes."""
    run = frame.run
    dotted = {run.world.dotted(function.module, one) for one in function.decorators}
    values = [*args, *named.values()]
    if any(name not in _TRANSPARENT and not (name or "").startswith("lumia.") for name in dotted):
        return worked_out(UNKNOWN, values)
    inner = Frame(run, function.module, function, frame.handling, frame.depth + 1, frame.quiet)
    inner.caught = frame.caught
    inner.state.guards = frame.state.guards
    inner.bind_declared()
    starred = node is not None and (any(isinstance(each, ast.Starred) for each in node.args) or "**" in named)
    if not starred:
        _bind(frame, inner, function, args, named, node)
    declared = inner.notes.type(function.returns)
    boxy = function.outer is not None or function.node in boxy_functions(run)
    boxy = boxy or any(is_part(each.type) for each in values if not isinstance(each.type, Unknown))
    if isinstance(declared, Boxed):
        declared = UNKNOWN if boxy else declared
    if isinstance(declared, Unknown) or boxy:
        result = _followed(frame, inner, function)
    else:
        result = worked_out(declared, values, run.token())
    if not isinstance(declared, Unknown):
        result = _declared(result, declared, values, run.token())
    if is_generator(function.node):
        return Value(Inst(GeneratorType), token=run.token())
    return Value(Inst(CoroutineType, (result.type,)), result.origin, result.token) if function.is_async else result


def _declared(result: Value, declared: Type, values: Sequence[Value], token: int) -> Value:
    """What a function is annotated to return is believed, unless more is known: the members of a dict."""
    if isinstance(result.type, Shape) and use.plain(declared) is dict:
        return result
    return Value(declared, worked_out(declared, values).origin, result.token or token)


def _followed(frame: Frame, inner: Frame, function: Function) -> Value:
    run = frame.run
    names = inner.state.names
    key = (
        id(function.node), id(frame.handling), frame.quiet, frame.caught > 0, inner.state.guards,
        tuple((name, names[name].type, names[name].origin) for name in names),
    )  # fmt: skip
    try:
        known = run.memo.get(key)
    except RecursionError:
        return ANYTHING
    if known is not None:
        return known
    if frame.depth >= DEEP or function.node in run.following or run.calls >= CALLS:
        return ANYTHING
    run.calls += 1
    run.following.add(function.node)
    try:
        inner.open = list(frame.open)
        inner.run_body(function.body)
    finally:
        run.following.discard(function.node)
    ends = inner.returns if inner.state.dead else [*inner.returns, Value(NONE)]
    result = run.memo[key] = join(ends) if ends else ANYTHING
    return result


@cache
def is_generator(node: ast.AST) -> bool:
    """Tell whether a function yields."""
    if isinstance(node, ast.Lambda):
        return False
    waiting: list[ast.AST] = list(ast.iter_child_nodes(node))
    while waiting:
        each = waiting.pop()
        if isinstance(each, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            waiting.extend(ast.iter_child_nodes(each))
    return False


def _bind(
    frame: Frame,
    inner: Frame,
    function: Function,
    args: Sequence[Value],
    named: Mapping[str, Value],
    node: ast.Call | None,
) -> None:
    arguments = function.node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    given = {arg.arg: value for arg, value in zip(positional, args, strict=False)}
    given |= {
        name: value
        for name, value in named.items()
        if name in {one.arg for one in (*positional, *arguments.kwonlyargs)}
    }
    for arg in (*positional, *arguments.kwonlyargs):
        value = given.get(arg.arg)
        declared = inner.state.names[arg.arg].type
        if value is None:
            _default(inner, function, arg, declared)
            continue
        if not isinstance(declared, Unknown) and node is not None:
            use.expected(frame, node, value, declared, f"{function.name}({arg.arg})")
        if isinstance(value.type, Unknown) and not isinstance(declared, Unknown):
            inner.state.names[arg.arg] = value.tainted(declared, value.token)
        elif (
            isinstance(value.type, Boxed)
            or isinstance(declared, (Unknown, Boxed))
            or inner.run.fits(value.type, declared)
        ):
            inner.state.names[arg.arg] = Value(_loose(value.type), value.origin, value.token)
        else:
            inner.state.names[arg.arg] = value.tainted(declared, value.token)


def _loose(known: Type) -> Type:
    return known


def _default(inner: Frame, function: Function, arg: ast.arg, declared: Type) -> None:
    arguments = function.node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = dict(zip(reversed([one.arg for one in positional]), reversed(arguments.defaults), strict=False))
    defaults |= {
        one.arg: value
        for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if value is not None
    }
    node = defaults.get(arg.arg)
    if node is not None and isinstance(declared, Unknown) and isinstance(node, ast.Constant):
        inner.state.names[arg.arg] = inner.value(node)
