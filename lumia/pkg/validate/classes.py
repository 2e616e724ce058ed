"""Classes: those a plugin defines, read from its source, and those of Python itself."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from lumia.pkg.validate.types import Class, ClassOf, External, Ref, Type

if TYPE_CHECKING:
    from lumia.pkg.validate.world import Function, Module

_LOOKED_INTO = frozenset(
    [
        "abc",
        "array",
        "asyncio",
        "builtins",
        "calendar",
        "collections",
        "collections.abc",
        "concurrent.futures",
        "contextlib",
        "copy",
        "dataclasses",
        "datetime",
        "decimal",
        "enum",
        "fractions",
        "functools",
        "http.client",
        "io",
        "ipaddress",
        "itertools",
        "json",
        "logging",
        "mmap",
        "multiprocessing",
        "multiprocessing.pool",
        "numbers",
        "operator",
        "os",
        "pathlib",
        "pydantic",
        "queue",
        "random",
        "re",
        "sched",
        "select",
        "selectors",
        "shelve",
        "socket",
        "sqlite3",
        "ssl",
        "statistics",
        "string",
        "subprocess",
        "asyncio.subprocess",
        "tempfile",
        "threading",
        "time",
        "types",
        "typing",
        "uuid",
        "weakref",
        "zipfile",
        "zoneinfo",
    ]
)
_DYNAMIC = frozenset({"__getattr__", "__getattribute__"})


@dataclass(eq=False)
class ClassInfo:
    """A class of a plugin. bases: what it inherits from, None where that can't be told. fields: annotated names."""

    name: str
    module: Module
    node: ast.ClassDef
    bases: tuple[Class | None, ...] = ()
    decorators: tuple[str, ...] = ()
    methods: dict[str, Function] = field(default_factory=dict)
    fields: dict[str, ast.expr] = field(default_factory=dict)
    constants: dict[str, ast.expr] = field(default_factory=dict)
    stored: dict[str, list[tuple[Function, ast.expr | None]]] = field(default_factory=dict)
    params: tuple[str, ...] = ()
    local: bool = False
    odd: bool = False

    def mro(self) -> Iterator[Class | None]:
        """Yield the class and everything it inherits from, depth first; None for what can't be told."""
        yield self
        for base in self.bases:
            if isinstance(base, ClassInfo):
                yield from base.mro()
            elif isinstance(base, type):
                yield from base.__mro__
            else:
                yield base

    @property
    def known(self) -> bool:
        """Tell whether everything it inherits is known, so that what isn't found isn't there."""
        return not any(
            base is None or isinstance(base, External) or (isinstance(base, ClassInfo) and base.odd)
            for base in self.mro()
        )

    def inherits(self, name: str) -> bool:
        """Tell whether a class of a library with this dotted name is among its bases."""
        return any(isinstance(base, External) and base.name == name for base in self.mro())

    @property
    def typed_dict(self) -> bool:
        """Tell whether it describes a dict."""
        return self.inherits("typing.TypedDict") or self.inherits("typing_extensions.TypedDict")

    @property
    def known_keys(self) -> bool:
        """Tell whether every class it inherits its keys from is known."""
        names = ("typing.TypedDict", "typing_extensions.TypedDict", "typing.Generic")
        return all(
            isinstance(base, (ClassInfo, type)) or (isinstance(base, External) and base.name in names)
            for base in self.mro()
        )

    @property
    def protocol(self) -> bool:
        """Tell whether it is a protocol."""
        return any(base is Protocol or base == External("typing_extensions.Protocol") for base in self.bases)

    @property
    def model(self) -> bool:
        """Tell whether it is a pydantic model."""
        return any(isinstance(base, type) and base.__module__ == "pydantic.main" for base in self.mro())

    @property
    def dataclass(self) -> bool:
        """Tell whether its constructor takes its fields."""
        return any(name.split(".")[-1] in ("dataclass", "define", "frozen", "attrs") for name in self.decorators)

    @property
    def decorators_odd(self) -> bool:
        """Tell whether a decorator may have given it attributes nobody can see."""
        plain = ("dataclasses.dataclass", "lumia.resource", "typing.final", "functools.total_ordering", "enum.unique")
        return any(name not in plain for base in self.locals() for name in base.decorators)

    def locals(self) -> Iterator[ClassInfo]:
        """Yield itself and the plugin classes it inherits from."""
        return (base for base in self.mro() if isinstance(base, ClassInfo))

    def method(self, name: str) -> Function | None:
        """Return the method of this name, own or inherited."""
        return next((base.methods[name] for base in self.locals() if name in base.methods), None)

    def annotation(self, name: str) -> tuple[ClassInfo, ast.expr] | None:
        """Return the annotation of a field and the class it stands in."""
        return next(((base, base.fields[name]) for base in self.locals() if name in base.fields), None)

    def has(self, name: str) -> bool:
        """Tell whether an instance may have an attribute of this name."""
        for base in self.locals():
            if name in base.methods or name in base.fields or name in base.constants or name in base.stored:
                return True
            if _DYNAMIC & base.methods.keys():
                return True
        reals = [base for base in self.mro() if isinstance(base, type)]
        if name in ("value", "name") and any(real.__module__ == "enum" for real in reals):
            return True
        return any(hasattr(real, name) for real in reals) or hasattr(object, name)


@cache
def real_class(name: str) -> type[Any] | None:
    """Return a class of Python itself by its dotted name, None for what is none or isn't looked into."""
    module, _, last = name.rpartition(".")
    if (module or "builtins") not in _LOOKED_INTO:
        return None
    found = getattr(importlib.import_module(module or "builtins"), last, None)
    return found if isinstance(found, type) else None


def class_named(name: str) -> Class:
    """Return the class of a library by its dotted name."""
    return tuple if name == "typing.NamedTuple" else real_class(name) or External(name)


def is_stdlib(name: str) -> bool:
    """Tell whether a dotted name belongs to Python itself."""
    return name.split(".", maxsplit=1)[0] in sys.stdlib_module_names


def class_of(known: Type) -> Class | None:
    """Return the class that a value names, None when it names none."""
    if isinstance(known, ClassOf):
        return known.cls
    return class_named(known.name) if isinstance(known, Ref) else None


def shown(cls: Class) -> str:
    """Return the name of a class for people."""
    if isinstance(cls, type):
        return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__.lstrip('_')}.{cls.__qualname__}"
    return cls.name
