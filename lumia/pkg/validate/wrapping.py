"""Decorators of the plugin itself that hand a handler what they were given, so that it is called as it stands."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lumia.pkg.validate.classes import ClassInfo
from lumia.pkg.validate.world import Function, Module, World

_WRAPS = "functools.wraps"
_Def = ast.FunctionDef | ast.AsyncFunctionDef


def hands_on(world: World, module: Module, decorator: ast.expr) -> bool:
    """Tell whether a decorator surely calls what it wraps with its own arguments, once they are as they came.

    That is a function of the plugin, or a class with `__call__`, whose innermost function is made with
    `functools.wraps` and passes its parameters on unchanged. Of everything else nobody knows.
    """
    found = world.find(module, decorator.func if isinstance(decorator, ast.Call) else decorator)
    if isinstance(found, ClassInfo):
        found = found.method("__call__")
    if not isinstance(found, Function) or isinstance(found.node, ast.Lambda):
        return False
    wrappers = [node for node in ast.walk(found.node) if isinstance(node, _Def) and _wrapped(world, found.module, node)]
    return bool(wrappers) and all(_passes_on(world, found.module, each) for each in wrappers)


def _wrapped(world: World, module: Module, node: _Def) -> str:
    """Return the name of the function that a wrapper is made for, "" when it is none."""
    for each in node.decorator_list:
        if isinstance(each, ast.Call) and world.dotted(module, each) == _WRAPS and len(each.args) == 1:
            return each.args[0].id if isinstance(each.args[0], ast.Name) else ""
    return ""


def _passes_on(world: World, module: Module, node: _Def) -> bool:
    name = _wrapped(world, module, node)
    arguments = node.args
    taken = [*(each.arg for each in (*arguments.posonlyargs, *arguments.args)), *_starred(arguments)]
    inside = list(ast.walk(node))
    changed = {each.id for each in inside if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)}
    calls = [each for each in inside if isinstance(each, ast.Call) and getattr(each.func, "id", "") == name]
    uses = [each for each in inside if isinstance(each, ast.Name) and each.id == name]
    # Beside its calls, `wraps(fn)` names it, and so may `fn.__name__`.
    named = sum(isinstance(each, ast.Attribute) and getattr(each.value, "id", "") == name for each in inside)
    return (
        bool(calls)
        and len(uses) == len(calls) + named + 1
        and not changed & {*(each.lstrip("*") for each in taken), name}
        and not arguments.kwonlyargs
        and all([_shown(each) for each in (*call.args, *call.keywords)] == taken for call in calls)
    )


def _starred(arguments: ast.arguments) -> Iterator[str]:
    if arguments.vararg is not None:
        yield f"*{arguments.vararg.arg}"
    if arguments.kwarg is not None:
        yield f"**{arguments.kwarg.arg}"


def _shown(node: ast.AST) -> str:
    if isinstance(node, ast.keyword):
        return f"**{ast.unparse(node.value)}" if node.arg is None else f"{node.arg}="
    return ast.unparse(node)
