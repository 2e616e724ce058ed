"""Resources that come to hold their own Box (rule LUM202, spec §3.4)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lumia.pkg.validate.frame import Frame
from lumia.pkg.validate.types import Boxed, Func, Inst, Shape, Type, Value, members
from lumia.pkg.validate.world import Function

_TEXT = (
    "refers to a Box that holds it, so neither would ever be released: keep the Box outside the resource, or give it a "
    "weakref to the Box"
)


def stored(frame: Frame, node: ast.AST, owner: Value, value: Value) -> None:
    """Check what is put into an object: not its own Box, when the object is a live resource."""
    if not owner.token:
        return
    for box in _boxes(value.type):
        if box.subject == owner.token:
            why = frame.run.live(box.content.type) or ("a value with a destructor" if box.destructor else None)
            if why:
                frame.report("LUM202", node, f"a {why} {_TEXT}")


def check_destructor(frame: Frame, node: ast.Call, box: Boxed) -> None:
    """A destructor that uses the variable its own Box is assigned to keeps that Box for ever."""
    given = next((each.value for each in node.keywords if each.arg == "destructor"), None)
    target = frame.assigning
    if target is None or given is None:
        return
    names = {each.id for each in ast.walk(given) if isinstance(each, ast.Name)}
    if isinstance(given, ast.Name):
        known = frame.lookup(given.id).type
        function: Function | None = known.function if isinstance(known, Func) else None
        if function is not None and function.outer is not None:
            names = {each.id for each in ast.walk(function.node) if isinstance(each, ast.Name)}
    if target in names and frame.function is not None and isinstance(given, (ast.Lambda, ast.Name)):
        bound = {arg.arg for arg in given.args.args} if isinstance(given, ast.Lambda) else set()
        if target not in bound:
            frame.report(
                "LUM202", node, f"the destructor of this Box {_TEXT.replace('holds it', 'holds the resource')}"
            )


def _boxes(known: Type) -> Iterator[Boxed]:
    for member in members(known):
        if isinstance(member, Boxed):
            yield member
        elif isinstance(member, Inst):
            for arg in member.args:
                yield from _boxes(arg)
        elif isinstance(member, Shape):
            for _, inner in member.items:
                yield from _boxes(inner)
