"""Which functions have to do with Boxes, themselves or through what they call: only these are followed into."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping

from lumia.pkg.validate.classes import ClassInfo
from lumia.pkg.validate.frame import Run
from lumia.pkg.validate.world import Function, FunctionNode, Module, World

_FLOWS = frozenset({"event", "pipe"})


class _Anything(frozenset[str]):
    def __contains__(self, item: object) -> bool:
        return True


_WORDS: Mapping[str, frozenset[str]] = {
    "start": _FLOWS, "ask": _FLOWS, "next": frozenset({"utils"}), "stop": frozenset({"utils"}),
    "intercept": frozenset({"utils"}), "any": frozenset({"Box"}), "into": _Anything(), "clone": _Anything(),
    "Box": _Anything(),
}  # fmt: skip
_NAMES = frozenset({"start", "next", "stop", "intercept", "Box"})


def boxy_functions(run: Run) -> frozenset[ast.AST]:
    """Return the nodes of all functions that have to do with Boxes."""
    if run.boxy is None:
        functions = list(_functions(run.world))
        methods: dict[str, list[ast.AST]] = {}
        for function in functions:
            if function.cls is not None:
                methods.setdefault(function.name, []).append(function.node)
        calls = {function.node: _called(run.world, function, methods) for function in functions}
        found: set[ast.AST] = {each.node for each in functions if _is_boxy(each.node, each.module.imports)}
        grown = True
        while grown:
            more = {node for node, called in calls.items() if node not in found and called & found}
            found |= more
            grown = bool(more)
        run.boxy = frozenset(found)
    return run.boxy


def _functions(world: World) -> Iterator[Function]:
    for package in world.packages.values():
        for module in package.modules.values():
            yield from module.functions.values()
            for info in module.classes.values():
                yield from info.methods.values()


def _called(world: World, function: Function, methods: Mapping[str, list[ast.AST]]) -> set[ast.AST]:
    found: set[ast.AST] = set()
    for each in ast.walk(function.node):
        if isinstance(each, ast.Attribute):
            target = _target(world, function.module, each)
            found |= set(methods.get(each.attr, ())) if target is None else {target}
        elif isinstance(each, ast.Name):
            target = _target(world, function.module, each)
            if target is not None:
                found.add(target)
    return found


def _target(world: World, module: Module, node: ast.expr) -> ast.AST | None:
    known = world.find(module, node)
    if isinstance(known, ClassInfo):
        init = known.method("__init__")
        return init.node if init is not None else known.node
    if isinstance(known, Function):
        return known.node
    return node if known is not None else None


def _is_boxy(node: FunctionNode, imports: Collection[str]) -> bool:
    """`next` and `any` are Python's, too, and threads have a `start`."""
    return any(
        (isinstance(each, ast.Attribute) and each.attr in _WORDS and _owner(each.value) in _WORDS[each.attr])
        or (isinstance(each, ast.Name) and each.id in _NAMES and (each.id == "Box" or each.id in imports))
        for each in ast.walk(node)
    )


def _owner(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
