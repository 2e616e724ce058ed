"""The keys of a message (DESIGN §10), as classes the analysis knows, and the keys that plugins add or ask for."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel

from lumia.payloads import MODELS
from lumia.pkg.validate.classes import ClassInfo
from lumia.pkg.validate.source import Source
from lumia.pkg.validate.types import Inst, Type, members
from lumia.pkg.validate.world import World

PACKAGE = "@messages"
_PLAIN = {str: "str", float: "float", bool: "bool"}


def add_messages(world: World) -> None:
    """Add what a message is made of to the world, as a package of its own."""
    text, tree = _written()
    world.add(PACKAGE, Path(), [Source("messages.py", "messages", tree, text)], own=False)


def message(world: World) -> Type | None:
    """Return the type of a message; None where messages may have keys nobody here knows."""
    package = world.packages.get(PACKAGE)
    return Inst(package.modules["messages"].classes[MODELS["msg"].__name__]) if package is not None else None


def is_part(known: Type) -> bool:
    """Tell whether a value is a message, or a part of one."""
    return all(
        isinstance(each, Inst) and isinstance(each.cls, ClassInfo) and each.cls.module.package.name == PACKAGE
        for each in members(known)
    )


@cache
def _written() -> tuple[str, ast.Module]:
    classes: dict[str, str] = {}
    _write(MODELS["msg"], classes)
    text = "\n".join(["from typing import Any, TypedDict", *classes.values()])
    return text, ast.parse(text)


def _write(model: type[BaseModel], classes: dict[str, str]) -> str:
    """Write a model and those it refers to; what may be absent or null is of any type, for only keys are judged."""
    lines = [f"class {model.__name__}(TypedDict):"]
    for name, info in model.model_fields.items():
        lines.append(f"    {info.alias or name}: {_annotation(info.annotation, classes)}")
    classes.setdefault(model.__name__, "\n".join(lines))
    return model.__name__


def _annotation(known: Any, classes: dict[str, str]) -> str:
    if get_origin(known) is Annotated:
        return _annotation(get_args(known)[0], classes)
    if isinstance(known, GenericAlias) and known.__origin__ is list:
        return f"list[{_annotation(get_args(known)[0], classes)}]"
    if isinstance(known, type) and issubclass(known, BaseModel):
        return _write(known, classes)
    return _PLAIN.get(known, "Any")


def own_keys(trees: Iterable[ast.AST]) -> frozenset[str]:
    """Return every key that code puts into a dict it already has, or asks for: it may be a message."""
    nodes = [node for tree in trees for node in ast.walk(tree)]
    constants = {name: value for node in nodes for name, value in _constant(node)}
    return frozenset(constants.get(key, key) for node in nodes for key in _own(node))


def _constant(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        yield from ((f"@{each.id}", node.value.value) for each in node.targets if isinstance(each, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(node.value, ast.Constant):
        yield f"@{node.target.id}", str(node.value.value)


def _own(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        yield from _text(node.slice)
    elif isinstance(node, ast.Compare) and any(isinstance(each, (ast.In, ast.NotIn)) for each in node.ops):
        yield from _text(node.left)
    elif isinstance(node, ast.Dict) and None in node.keys:
        yield from _keys(node)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield from (*_keys(node.left), *_keys(node.right))
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.BitOr):
        yield from _keys(node.value)
    elif isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in ("update", "dict"):
            yield from (each.arg for each in node.keywords if each.arg is not None)
            yield from (key for each in node.args for key in _keys(each))
        elif called in ("setdefault", "__setitem__", "get", "pop") and node.args:
            yield from _text(node.args[0])


def _keys(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Dict):
        yield from (text for key in node.keys if key is not None for text in _text(key))


def _text(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, (ast.Name, ast.Attribute)):  # the constant of that name, wherever it is
        yield f"@{node.id if isinstance(node, ast.Name) else node.attr}"
