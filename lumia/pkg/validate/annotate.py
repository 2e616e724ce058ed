"""Annotations as types, read without evaluating them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from lumia.pkg.validate.classes import ClassInfo, class_named
from lumia.pkg.validate.types import (
    ANYTHING,
    NEVER,
    NONE,
    UNKNOWN,
    Boxed,
    ClassOf,
    External,
    Inst,
    Ref,
    Type,
    Value,
    literal,
    union,
)
from lumia.pkg.validate.world import Function, Module, World

_ALIASES = {
    "List": "builtins.list", "Dict": "builtins.dict", "Set": "builtins.set", "FrozenSet": "builtins.frozenset",
    "Tuple": "builtins.tuple", "Type": "builtins.type", "Deque": "collections.deque", "Text": "builtins.str",
    "DefaultDict": "collections.defaultdict", "OrderedDict": "collections.OrderedDict",
    "Counter": "collections.Counter",
}  # fmt: skip
_ABCS = frozenset(
    [
        "Mapping",
        "MutableMapping",
        "Sequence",
        "MutableSequence",
        "Iterable",
        "Iterator",
        "Collection",
        "Container",
        "Reversible",
        "Sized",
        "Hashable",
        "Set",
        "MutableSet",
        "Generator",
        "AsyncIterator",
        "AsyncIterable",
        "AsyncGenerator",
        "Callable",
        "Awaitable",
        "Coroutine",
        "KeysView",
    ]
)
_THROUGH = frozenset({"Annotated", "Required", "NotRequired", "Final", "ClassVar", "ReadOnly", "InitVar"})
_OPEN = frozenset(
    {"Any", "object", "Self", "TypeVar", "AnyStr", "Unpack", "ParamSpec", "Never", "NoReturn", "Incomplete"}
)


class Annotations:
    """Turns annotations of a module into types. locals: classes defined in the function around it."""

    def __init__(self, world: World, module: Module, local: Callable[[str], object] | None = None) -> None:
        self._world, self._module, self._local = world, module, local

    def type(self, node: ast.expr | None, depth: int = 12) -> Type:
        """Return the type that an annotation names, unknown when that can't be told."""
        if node is None or depth < 0:
            return UNKNOWN
        if isinstance(node, ast.Constant):
            return self._constant(node, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return union([self.type(node.left, depth - 1), self.type(node.right, depth - 1)])
        if isinstance(node, ast.Subscript):
            return self._generic(node, depth)
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self._named(node, (), depth)
        return UNKNOWN

    def _constant(self, node: ast.Constant, depth: int) -> Type:
        if isinstance(node.value, str):
            try:
                return self.type(ast.parse(node.value.strip(), mode="eval").body, depth - 1)
            except (SyntaxError, ValueError):
                return UNKNOWN
        return NONE if node.value is None else UNKNOWN

    def _generic(self, node: ast.Subscript, depth: int) -> Type:
        inner = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        name = self.library_name(node.value)
        last = name.rpartition(".")[2] if name and name.startswith(("typing", "dataclasses")) else ""
        if last == "Optional":
            return union([self.type(inner[0], depth - 1), NONE])
        if last == "Union":
            return union([self.type(one, depth - 1) for one in inner])
        if last == "Literal":
            return union([literal(one.value) if isinstance(one, ast.Constant) else UNKNOWN for one in inner])
        if last in _THROUGH:
            return self.type(inner[0], depth - 1)
        if last == "Callable" or name == "collections.abc.Callable":
            return UNKNOWN
        if name == "lumia.Box":
            return Boxed(Value(self.type(inner[0], depth - 1)))
        args = tuple(NEVER if _is_ellipsis(one) else self.type(one, depth - 1) for one in inner)
        if last == "Type" or name == "builtins.type":
            return ClassOf(args[0].cls, args[0].args) if isinstance(args[0], Inst) else UNKNOWN
        return self._named(node.value, args, depth)

    def _named(self, node: ast.expr, args: tuple[Type, ...], depth: int) -> Type:
        local = self._local(node.id) if self._local is not None and isinstance(node, ast.Name) else None
        if isinstance(local, ClassOf):
            return Inst(local.cls, args)
        if local is not None:
            return UNKNOWN
        found = self._world.find(self._module, node)
        if isinstance(found, ClassInfo):
            return Inst(found, args)
        if isinstance(found, Ref):
            return self._library(found.name, args)
        if isinstance(found, ast.expr):
            return self._alias(found, args, depth)
        return UNKNOWN

    def _alias(self, node: ast.expr, args: tuple[Type, ...], depth: int) -> Type:
        if isinstance(node, ast.Call):
            made = self.library_name(node.func)
            if made in ("typing.NewType", "typing_extensions.NewType") and len(node.args) == 2:
                return self.type(node.args[1], depth - 1)
            if made == "typing.TypedDict":
                return Inst(dict)
            return UNKNOWN
        if isinstance(node, ast.Constant) and node.value is not None and not isinstance(node.value, str):
            return UNKNOWN
        found = self.type(node, depth - 1)
        return UNKNOWN if args else found

    def _library(self, name: str, args: tuple[Type, ...]) -> Type:
        module, _, last = name.rpartition(".")
        if name == "lumia.Box":
            return Boxed(ANYTHING)
        if name in ("builtins.None", "types.NoneType"):
            return NONE
        if module in ("typing", "typing_extensions", "builtins"):
            if last in _OPEN:
                return UNKNOWN
            if last == "LiteralString":
                return Inst(str)
            if module != "builtins":
                name = _ALIASES.get(last) or (f"collections.abc.{last}" if last in _ABCS else name)
        if name.rpartition(".")[2] in ("Callable", "Awaitable", "Coroutine", "Generator", "AsyncGenerator"):
            return UNKNOWN
        cls = class_named(name)
        if isinstance(cls, External) and module == "builtins":
            return UNKNOWN
        return Inst(cls, args)

    def library_name(self, node: ast.expr) -> str | None:
        """Return the dotted name of a library that an expression names."""
        found = self._world.find(self._module, node)
        return found.name if isinstance(found, Ref) else None

    def unresolved(self, node: ast.expr | None) -> Iterator[str]:
        """Yield the names in an annotation that nobody can look up at run time (imported for type checkers only)."""
        for each in _with_quoted(node):
            if not isinstance(each, ast.Name):
                continue
            name, module = each.id, self._module
            known = (
                name in module.classes or name in module.functions or name in module.aliases or name in module.rebound
            )
            if name in module.typing_only and not known:
                yield name


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _with_quoted(node: ast.expr | None) -> Iterator[ast.AST]:
    if node is None:
        return
    for each in ast.walk(node):
        yield each
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            try:
                yield from ast.walk(ast.parse(each.value, mode="eval"))
            except (SyntaxError, ValueError):
                continue


def handler_type(notes: Annotations, function: Function) -> tuple[Type | None, ast.expr | None]:
    """Return the T of the first parameter annotated `Box[T]`, as a running bot finds it, and where it stands."""
    if isinstance(function.node, ast.Lambda):
        return None, None
    arguments = function.node.args
    for arg in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        node = _unquoted(arg.annotation)
        if isinstance(node, ast.Subscript) and notes.library_name(node.value) == "lumia.Box":
            return notes.type(node.slice), node.slice
        known = notes.type(node)
        if isinstance(known, Boxed) and known.content.type != UNKNOWN:
            return known.content.type, arg.annotation
    return None, None


def _unquoted(node: ast.expr | None) -> ast.expr | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            return ast.parse(node.value, mode="eval").body
        except (SyntaxError, ValueError):
            return None
    return node
