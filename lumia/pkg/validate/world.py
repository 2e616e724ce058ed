"""The plugin and those it depends on as modules, classes and functions, found by reading alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeAlias

from lumia.finder import NAMESPACES
from lumia.manifest import underscored
from lumia.pkg.validate.classes import ClassInfo, class_named
from lumia.pkg.validate.source import Source
from lumia.pkg.validate.types import Class, ModuleOf, Ref, Value

FunctionNode: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda"


@dataclass(eq=False)
class Function:
    """A function of a plugin. cls: the class it is a method of; outer: the names a nested one sees."""

    name: str
    node: FunctionNode
    module: Module
    cls: ClassInfo | None = None
    outer: dict[str, Value] | None = None

    @property
    def decorators(self) -> list[ast.expr]:
        """Return what it is decorated with."""
        return [] if isinstance(self.node, ast.Lambda) else self.node.decorator_list

    @property
    def returns(self) -> ast.expr | None:
        """Return the annotation of what it returns."""
        return None if isinstance(self.node, ast.Lambda) else self.node.returns

    @property
    def is_async(self) -> bool:
        """Tell whether it is a coroutine function."""
        return isinstance(self.node, ast.AsyncFunctionDef)

    @property
    def body(self) -> list[ast.stmt]:
        """Return its statements."""
        if isinstance(self.node, ast.Lambda):
            return [ast.copy_location(ast.Return(self.node.body), self.node.body)]
        return self.node.body


@dataclass(eq=False)
class Module:
    """One file of a plugin. names: import name → what it stands for; aliases: names assigned once at the top."""

    package: Package
    source: Source
    imports: dict[str, Ref | ModuleOf] = field(default_factory=dict)
    typing_only: set[str] = field(default_factory=set)
    classes: dict[str, ClassInfo] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    aliases: dict[str, ast.expr] = field(default_factory=dict)
    rebound: set[str] = field(default_factory=set)
    scope: dict[str, Value] | None = None
    running: bool = False

    @property
    def file(self) -> str:
        """Return the path shown for it."""
        return self.source.file


@dataclass(eq=False)
class Package:
    """One plugin. own: it is the one that is checked, so findings may stand in it."""

    name: str
    own: bool
    folder: Path
    modules: dict[str, Module] = field(default_factory=dict)


@dataclass
class World:
    """All plugins that are looked at, the checked one last."""

    packages: dict[str, Package] = field(default_factory=dict)

    def add(self, name: str, folder: Path, sources: Sequence[Source], *, own: bool) -> Package:
        """Add a plugin with its files."""
        package = self.packages[underscored(name)] = Package(underscored(name), own, folder)
        for source in sources:
            package.modules[source.name] = Module(package, source)
        for module in package.modules.values():
            _Reader(self, module).read(module.source.tree.body)
        return package

    def link(self) -> None:
        """Resolve what classes inherit from, once all plugins are there."""
        for package in self.packages.values():
            for module in package.modules.values():
                for info in list(module.classes.values()):
                    info.bases = tuple(self.class_at(module, base) for base in info.node.bases)
                    info.odd = bool(info.node.keywords) and any(one.arg == "metaclass" for one in info.node.keywords)
                    info.decorators = tuple(self.dotted(module, one) or "?" for one in info.node.decorator_list)

    def class_at(self, module: Module, node: ast.expr) -> Class | None:
        """Return the class that an expression names."""
        if isinstance(node, ast.Subscript):
            node = node.value
        found = self.find(module, node)
        if isinstance(found, ClassInfo):
            return found
        return class_named(found.name) if isinstance(found, Ref) else None

    def find(self, module: Module, node: ast.expr) -> ClassInfo | Function | Ref | ModuleOf | ast.expr | None:
        """Return what a dotted name means at the top of a module, without evaluating anything."""
        if isinstance(node, ast.Name):
            return self.named(module, node.id)
        if isinstance(node, ast.Attribute):
            owner = self.find(module, node.value)
            if isinstance(owner, ModuleOf):
                return self.named(owner.module, node.attr)
            if isinstance(owner, Ref):
                return Ref(canonical(f"{owner.name}.{node.attr}"))
        return None

    def named(
        self, module: Module, name: str, depth: int = 0
    ) -> ClassInfo | Function | Ref | ModuleOf | ast.expr | None:
        """Return what one name means at the top of a module."""
        if name in module.rebound or depth > 20:
            return None
        for table in (module.classes, module.functions, module.imports):
            if name in table:
                found = table[name]
                return self.settled(found, depth)
        if name in module.aliases:
            return module.aliases[name]
        return Ref(f"builtins.{name}") if class_is_builtin(name) else None

    def settled(
        self, found: ClassInfo | Function | Ref | ModuleOf, depth: int = 0
    ) -> ClassInfo | Function | Ref | ModuleOf | ast.expr | None:
        """Return what an import leads to: something in a plugin, or a name of a library."""
        if not isinstance(found, Ref) or not found.name.startswith("@"):
            return found
        package, _, rest = found.name[1:].partition(":")
        module, _, name = rest.rpartition(":")
        owner = self.packages.get(package)
        if owner is None:
            return None
        inner = f"{module}.{name}".lstrip(".")
        if name and inner in owner.modules:
            return ModuleOf(owner.modules[inner])
        there = owner.modules.get(module)
        if there is None:
            return None
        return self.named(there, name, depth + 1) if name else ModuleOf(there)

    def home(self, module: Module, name: str) -> tuple[Module, str]:
        """Return the module in which an imported name was made, and its name there."""
        for _ in range(20):
            target = module.imports.get(name)
            if not isinstance(target, Ref) or not target.name.startswith("@"):
                break
            package, _, rest = target.name[1:].partition(":")
            inner, _, wanted = rest.rpartition(":")
            owner = self.packages.get(package)
            there = owner.modules.get(inner) if owner is not None else None
            if there is None or not wanted:
                break
            module, name = there, wanted
        return module, name

    def dotted(self, module: Module, node: ast.expr) -> str | None:
        """Return the dotted library name that a decorator or call names."""
        if isinstance(node, ast.Call):
            node = node.func
        found = self.find(module, node)
        return found.name if isinstance(found, Ref) else None


_SAME = {
    "lumia.box.Box": "lumia.Box", "lumia.bus.event": "lumia.event", "lumia.bus.pipe": "lumia.pipe",
    "lumia.bus.cron": "lumia.cron", "lumia.effects.effect": "lumia.effect", "lumia.marks.command": "lumia.command",
    "lumia.marks.Retry": "lumia.Retry", "lumia.lanes.Rate": "lumia.Rate", "lumia.box.resource": "lumia.resource",
    "lumia.resources.resource": "lumia.resource", "lumia.context.annotate": "lumia.annotate",
    "_thread.allocate_lock": "threading.Lock", "io.open": "builtins.open", "codecs.open": "builtins.open",
}  # fmt: skip


def canonical(name: str) -> str:
    """Return the one name that things with several are known under."""
    return _SAME.get(name, name)


@cache
def class_is_builtin(name: str) -> bool:
    """Tell whether a name is one of Python's own."""
    import builtins

    return hasattr(builtins, name)


class _Reader:
    """Notes what the statements at the top of a module define."""

    def __init__(self, world: World, module: Module) -> None:
        self._world, self._module = world, module

    def read(self, body: Sequence[ast.stmt], typing_only: bool = False) -> None:
        for node in body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for name, target in imported(self._module, node):
                    self._module.imports[name] = target
                    if typing_only:
                        self._module.typing_only.add(name)
            elif isinstance(node, ast.ClassDef):
                self._module.classes[node.name] = class_info(self._module, node)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if node.name in self._module.functions:
                    self._module.rebound.add(node.name)
                self._module.functions[node.name] = Function(node.name, node, self._module)
            elif isinstance(node, ast.If):
                only = "TYPE_CHECKING" in ast.dump(node.test)
                self.read(node.body, typing_only or only)
                self.read(node.orelse, typing_only)
            elif isinstance(node, ast.Try):
                self.read(
                    [*node.body, *(one for each in node.handlers for one in each.body), *node.orelse], typing_only
                )
            else:
                self._assigned(node)

    def _assigned(self, node: ast.stmt) -> None:
        for name, value in _assignments(node):
            aliases = self._module.aliases
            if name in aliases or value is None:
                self._module.rebound.add(name)
            else:
                aliases[name] = value


def _assignments(node: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name):
                yield target.id, node.value
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        yield node.target.id, node.value
    elif node.__class__.__name__ == "TypeAlias":
        yield node.name.id, node.value  # type: ignore[attr-defined]


def class_info(module: Module, node: ast.ClassDef, *, local: bool = False) -> ClassInfo:
    """Read the members of a class; its bases are resolved later."""
    info = ClassInfo(node.name, module, node, local=local)
    info.params = tuple(one.name for one in getattr(node, "type_params", ()))
    for each in node.body:
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            info.methods[each.name] = Function(each.name, each, module, info)
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            info.fields[each.target.id] = each.annotation
            if each.value is not None:
                info.constants[each.target.id] = each.value
        elif isinstance(each, ast.Assign):
            for target in each.targets:
                if isinstance(target, ast.Name):
                    info.constants[target.id] = each.value
                if isinstance(target, ast.Tuple):
                    info.constants |= {one.id: each.value for one in target.elts if isinstance(one, ast.Name)}
        elif isinstance(each, ast.ClassDef):
            info.constants[each.name] = ast.Constant(None)
        elif not isinstance(each, (ast.Expr, ast.Pass)):
            info.odd = True  # an if or a for may define anything
    for method in info.methods.values():
        for part in ast.walk(method.node):
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Attribute):
                info.fields.setdefault(part.target.attr, part.annotation)
        for attr, value in _stored(method.node):
            info.stored.setdefault(attr, []).append((method, value))
    return info


def _stored(node: FunctionNode) -> Iterator[tuple[str, ast.expr | None]]:
    first = next(iter([*node.args.posonlyargs, *node.args.args]), None)
    plain = {
        target
        for each in ast.walk(node)
        if isinstance(each, (ast.Assign, ast.AnnAssign))
        for target in (each.targets if isinstance(each, ast.Assign) else [each.target])
    }
    for each in ast.walk(node):
        if isinstance(each, ast.Assign):
            for target in each.targets:
                for one in ast.walk(target):
                    if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store) and _is(one.value, first):
                        yield one.attr, each.value if one is target else None
        elif each in plain and isinstance(each, ast.Attribute):
            continue
        elif isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store) and _is(each.value, first):
            yield each.attr, None  # also set by a for, a with, `:=` or an annotated assignment
        elif (
            isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Attribute) and _is(each.target.value, first)
        ):
            yield each.target.attr, each.value


def _is(node: ast.expr, first: ast.arg | None) -> bool:
    return first is not None and isinstance(node, ast.Name) and node.id == first.arg


def imported(module: Module, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Ref | ModuleOf]]:
    """Yield the names an import binds; `@plugin:module:name` stands for something in a plugin."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            dotted = alias.name if alias.asname else alias.name.split(".")[0]
            inner = _in_plugin(alias.name) if alias.asname else None
            yield alias.asname or dotted, Ref(f"{inner}:") if inner else Ref(canonical(dotted))
        return
    base = _absolute(module, node)
    for alias in node.names:
        if base is None or alias.name == "*":
            continue
        name = f"{base}:{alias.name}" if base.startswith("@") else canonical(f"{base}.{alias.name}")
        yield alias.asname or alias.name, Ref(name)


def _absolute(module: Module, node: ast.ImportFrom) -> str | None:
    if not node.level:
        return _in_plugin(node.module or "") or node.module
    parts = module.source.name.split(".") if module.source.name else []
    if not module.source.file.endswith("__init__.py"):
        parts = parts[:-1]
    up = node.level - 1
    if up > len(parts):
        return _in_plugin(f"lumia_plugins.{node.module}") if up == len(parts) + 1 and node.module else None
    kept = parts[: len(parts) - up]
    return f"@{module.package.name}:{'.'.join([*kept, *([node.module] if node.module else [])])}"


def _in_plugin(dotted: str) -> str | None:
    space, _, rest = dotted.partition(".")
    if space not in NAMESPACES or not rest:
        return None
    name, _, inner = rest.partition(".")
    return f"@{name}:{inner}"
