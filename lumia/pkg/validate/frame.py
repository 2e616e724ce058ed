"""Reading code as if it ran: the names of one function call, and the whole analysis around it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lumia.pkg.validate.annotate import Annotations
from lumia.pkg.validate.classes import ClassInfo
from lumia.pkg.validate.finding import Finding, Place, finding
from lumia.pkg.validate.fits import fits, live
from lumia.pkg.validate.types import (
    ANYTHING,
    UNKNOWN,
    ClassOf,
    Func,
    Inst,
    ModuleOf,
    Ref,
    Shape,
    Type,
    Union,
    Value,
    join,
    opened,
    shallow,
    union,
)
from lumia.pkg.validate.world import Function, Module, World

if TYPE_CHECKING:
    from lumia.pkg.validate.flow import Handler

DEEP = 9
"""Calls of the plugin's own functions that are followed into each other."""
CALLS = 30_000
"""Calls that are followed in all; what comes after counts as unknown."""


@dataclass(frozen=True)
class Site:
    """Where the content of a Box comes from. text: for the message about it; node: None for what Lumia itself sends."""

    module: Module | None
    line: int
    text: str
    column: int = 1


@dataclass
class State:
    """What is known at one point of a function. guards: sites whose content a condition has asked about since."""

    names: dict[str, Value]
    guards: frozenset[int] = frozenset()
    dead: bool = False
    paths: dict[str, Value] = field(default_factory=dict)

    def copy(self) -> State:
        """Return a state that can go another way."""
        return State(dict(self.names), self.guards, self.dead, dict(self.paths))


def merged(first: State, second: State, guards: frozenset[int]) -> State:
    """Return the state after two ways have met; guards: those from before they parted."""
    if first.dead or second.dead:
        return second if first.dead else first
    names: dict[str, Value] = {}
    for name in {**first.names, **second.names}:
        mine, theirs = first.names.get(name), second.names.get(name)
        names[name] = mine if mine is theirs and mine else join([mine or ANYTHING, theirs or ANYTHING])
    paths = {
        path: join([value, second.paths[path]]) for path, value in first.paths.items() if path in second.paths
    }  # fmt: skip
    return State(names, guards, False, paths)


@dataclass
class Handling:
    """One step of a run as it is followed. went: the Boxes it passes on; None stands for the one it got."""

    handler: Handler
    incoming: Value
    id: str | None = None
    went: list[Value | None] = field(default_factory=list)
    started: set[int] = field(default_factory=set)


class Run:
    """One analysis: what was found, and what is still to be followed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.findings: set[Finding] = set()
        self.plans: dict[tuple[str, str, int], list[Handler]] = {}
        self.sites: list[Site] = [Site(None, 0, "")]
        self.memo: dict[tuple[object, ...], Value] = {}
        self.following: set[object] = set()
        self.steps: dict[tuple[object, ...], list[Value | None]] = {}
        self.started: list[tuple[str, Type, Value, Frame, ast.Call]] = []
        self.handlers: list[Handler] = []
        self.kept: dict[ClassInfo, dict[str, Type]] = {}
        self.boxy: frozenset[ast.AST] | None = None
        self.loose = False
        """A message gets keys that can't be told: see `messages`."""
        self.settings: list[tuple[str, str, Frame, ast.AST]] = []
        self.provided: list[tuple[str, Frame, ast.AST]] = []
        self.handed: list[tuple[str, str, Frame, ast.AST]] = []
        self.calls = self.tokens = 0
        self._sites: dict[Site, int] = {}

    def site(self, site: Site) -> int:
        """Return the number of a site."""
        if site not in self._sites:
            self._sites[site] = len(self.sites)
            self.sites.append(site)
        return self._sites[site]

    @cached_property
    def asked(self) -> frozenset[str]:
        """Return the keys that plugins add to dicts, or ask for."""
        from lumia.pkg.validate.messages import own_keys

        modules = [module for package in self.world.packages.values() for module in package.modules.values()]
        return own_keys(module.source.tree for module in modules)

    def token(self) -> int:
        """Return a number for a new object."""
        self.tokens += 1
        return self.tokens

    def fields(self, info: ClassInfo) -> Mapping[str, Type]:
        """Return the attributes of a class with their types, as far as they are known."""
        if info not in self.kept:
            self.kept[info] = {}
            found: dict[str, Type] = {}
            for base in reversed(list(info.locals())):
                notes = Annotations(self.world, base.module)
                found |= {name: notes.type(node) for name, node in base.fields.items()}
                found |= {name: self._stored(places) for name, places in base.stored.items() if name not in found}
            self.kept[info] = found
        return self.kept[info]

    def _stored(self, places: Iterable[tuple[Function, ast.expr | None]]) -> Type:
        """Return what is stored in an attribute; what only `__init__` sets is read there, all else is unknown."""
        types = []
        for method, node in places:
            if node is None or (isinstance(node, ast.Constant) and node.value is None):
                return UNKNOWN  # set from outside, too, or there would be no use for it
            frame = Frame(self, method.module, method, quiet=True)
            frame.bind_declared()
            types.append(frame.value(node).type)
        return union(types, sure=False)

    def fits(self, known: Type, declared: Type) -> bool | None:
        """Tell whether a type fits another; None when nobody can say."""
        return fits(known, declared, self.fields)

    def live(self, known: Type) -> str | None:
        """Return what makes a value a live resource, None when nothing does for sure."""
        return live(known, self.fields)

    def module_scope(self, module: Module) -> Mapping[str, Value]:
        """Return the names of a module as they are once it was imported."""
        if module.scope is None:
            if module.running:
                return {}
            module.running = True
            frame = Frame(self, module)
            frame.run_body(module.source.tree.body)
            changed = _globals(module.source.tree) if "global " in module.source.text else ()
            module.scope = {
                name: ANYTHING if name in changed else replace(value, type=opened(value.type))
                for name, value in frame.state.names.items()
            }
        return module.scope


def _globals(tree: ast.Module) -> set[str]:
    return {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}


class Frame:
    """One body being read. handling: the step of a run it belongs to; quiet: nothing is reported or started."""

    evaluators: Mapping[type[ast.AST], Callable[[Frame, Any], Value]] = {}
    executors: Mapping[type[ast.AST], Callable[[Frame, Any], None]] = {}

    def __init__(
        self, run: Run, module: Module, function: Function | None = None, handling: Handling | None = None,
        depth: int = 0, quiet: bool = False,
    ) -> None:  # fmt: skip
        self.run, self.module, self.function, self.handling = run, module, function, handling
        self.depth, self.quiet, self.caught = depth, quiet, 0
        self.state = State({})
        self.returns: list[Value] = []
        self.return_nodes: list[tuple[Value, ast.AST]] = []
        self.breaks: list[State] = []
        self.open: list[int] = []
        self.assigning: str | None = None
        self.globals: set[str] = set()
        self.notes = Annotations(run.world, module, self._local_class)

    def _local_class(self, name: str) -> object:
        value = self.state.names.get(name)
        return None if value is None or self.function is None else value.type

    def value(self, node: ast.expr) -> Value:
        """Return what an expression gives."""
        if self.state.paths and isinstance(node, (ast.Attribute, ast.Subscript)):
            known = self.state.paths.get(path_of(node) or "")
            if known is not None:
                return known
        read = self.evaluators.get(type(node))
        if read is None:
            for each in ast.iter_child_nodes(node):
                if isinstance(each, ast.expr):
                    self.value(each)
            return ANYTHING
        found = read(self, node)
        known_type = found.type
        if not isinstance(known_type, (Inst, Shape, Union)):
            return found
        flat = shallow(known_type)
        return found if flat is known_type else Value(flat, found.origin, found.token)

    def run_body(self, body: Iterable[ast.stmt]) -> None:
        """Read statements in order, until none is reached any more."""
        for node in body:
            if self.state.dead:
                return
            execute = self.executors.get(type(node))
            if execute is not None:
                execute(self, node)

    def lookup(self, name: str) -> Value:
        """Return what a name stands for."""
        found = self.state.names.get(name)
        if found is not None:
            return found
        if self.function is not None and self.function.outer is not None and name in self.function.outer:
            return self.function.outer[name]
        return global_value(self.run, self.module, name) if self.function is not None else self._at_top(name)

    def _at_top(self, name: str) -> Value:
        found = self.run.world.named(self.module, name)
        return _named(self.run, self.module, name, found)

    def bind_declared(self) -> None:
        """Give every parameter the type it is annotated with."""
        function = self.function
        if function is None:
            return
        for arg in parameters(function.node):
            self.state.names[arg.arg] = Value(self.notes.type(arg.annotation))
        if function.cls is not None and function.node.args.args:
            first = function.node.args.args[0].arg
            names = {self.run.world.dotted(self.module, one) for one in function.decorators}
            if "builtins.classmethod" in names:
                self.state.names[first] = Value(ClassOf(function.cls))
            elif "builtins.staticmethod" not in names:
                self.state.names[first] = Value(own_type(function.cls), token=self.run.token())
        for extra in (function.node.args.vararg, function.node.args.kwarg):
            if extra is not None:
                self.state.names[extra.arg] = ANYTHING

    def report(self, rule: str, node: ast.AST, message: str, *, about: Iterable[int] = ()) -> None:
        """Note a finding, unless what it is about was asked about before, or is expected to fail.

        about: the sites of the content it is about; they become related places.
        """
        sites = sorted({abs(number) for number in about})
        if self.quiet or self.state.dead or (sites and (self.caught or self.state.guards & set(sites))):
            return
        places = [self.run.sites[number] for number in sites]
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1
        if self.module.package.own:
            self.note(rule, self.module, line, column, message, places)
            return
        for site in places:  # the other plugin is as it is: what the own one sends there is the fault
            if site.module is not None and site.module.package.own:
                here = Site(self.module, line, "where it is used")
                self.note(rule, site.module, site.line, site.column, message, [here])

    def note(self, rule: str, module: Module, line: int, column: int, message: str, places: Iterable[Site]) -> None:
        """Note a finding of the plugin that is checked."""
        if self.quiet or not module.source.loaded:
            return
        related = tuple(
            Place(shown_file(site.module, module), site.line, site.text) for site in places if site.module is not None
        )
        self.run.findings.add(finding(rule, module.file, line, message, column=column, related=related))

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Read without reporting or starting anything."""
        before, self.quiet = self.quiet, True
        try:
            yield
        finally:
            self.quiet = before


def shown_file(module: Module, beside: Module) -> str:
    """Return the file of a place, with the plugin's name when it is another one's."""
    return module.file if module.package is beside.package else f"{module.package.name}/{module.file}"


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.arg]:
    """Return the named parameters of a function."""
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def own_type(info: ClassInfo) -> Type:
    """Return the type of `self` in a class."""
    return Inst(info)


def static_value(run: Run, found: ClassInfo | Function | Ref | ModuleOf | None) -> Value:
    """Return what an import or a definition stands for."""
    if isinstance(found, ClassInfo):
        return Value(ClassOf(found))
    if isinstance(found, Function):
        return Value(Func(found))
    return Value(found) if isinstance(found, (Ref, ModuleOf)) else ANYTHING


def global_value(run: Run, module: Module, name: str) -> Value:
    """Return what a name means in the functions of a module."""
    scope = run.module_scope(module)
    if name in scope:
        return scope[name]
    return _named(run, module, name, run.world.named(module, name))


def _named(
    run: Run, module: Module, name: str, found: ClassInfo | Function | Ref | ModuleOf | ast.expr | None
) -> Value:
    if not isinstance(found, ast.expr):
        return static_value(run, found)
    there, wanted = run.world.home(module, name)
    return run.module_scope(there).get(wanted, ANYTHING) if there is not module else ANYTHING


def path_of(node: ast.AST) -> str | None:
    """Return `a.b["c"]` as a text when it is a name with attributes and constant keys, else None."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = path_of(node.value)
        return f"{owner}.{node.attr}" if owner else None
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        owner = path_of(node.value)
        return f"{owner}[{node.slice.value!r}]" if owner else None
    return None


def uncertain(state: State) -> None:
    """Let unions be possible, not sure: a condition was met, and may be about the same thing."""
    for name, value in state.names.items():
        if isinstance(value.type, Union) and value.type.sure:
            state.names[name] = replace(value, type=Union(value.type.members, False))
