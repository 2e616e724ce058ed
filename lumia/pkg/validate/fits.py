"""Does a type fit another? Yes, no, or nobody can tell; `lumia.boxtype` asks the same of values (spec §14.1)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping

from lumia.pkg.validate.classes import ClassInfo, shown
from lumia.pkg.validate.known import LIVE_ELSEWHERE
from lumia.pkg.validate.types import (
    UNKNOWN,
    Boxed,
    Class,
    ClassOf,
    External,
    Func,
    Inst,
    Lit,
    Method,
    ModuleOf,
    Never,
    Ref,
    Shape,
    Type,
    Union,
    Unknown,
    members,
    widened,
)
from lumia.resources import is_resource

Fields = Callable[[ClassInfo], Mapping[str, Type]]
"""Gives the types of the attributes of a plugin's class."""
_PROMOTED: dict[type, tuple[type, ...]] = {float: (int, float), complex: (int, float, complex)}
_PICKLING = ("__reduce__", "__reduce_ex__", "__getstate__")
_DUCKS = (
    {"close", "fileno"}, {"close", "cursor"}, {"acquire", "release"}, {"get_connection", "release"}, {"aclose"},
)  # fmt: skip


def fits(known: Type, declared: Type, fields: Fields) -> bool | None:
    """Tell whether what is `known` fits what is `declared`; None when that can't be said for sure."""
    if isinstance(known, Unknown) or isinstance(declared, Unknown) or isinstance(known, Never):
        return None
    if isinstance(known, Union):
        return _each(known, [fits(member, declared, fields) for member in known.members])
    if isinstance(declared, Union):
        return _any(fits(known, member, fields) for member in declared.members)
    if isinstance(declared, Lit):
        if isinstance(known, Lit):
            return known == declared
        return None if fits(known, widened(declared), fields) is not False else False
    if isinstance(declared, Boxed):
        return None if isinstance(known, (Boxed, Ref)) else False if isinstance(known, (Inst, Lit, Shape)) else None
    if isinstance(known, Shape):
        return _shape_fits(known, declared, fields)
    known = widened(known)
    if isinstance(known, Inst) and isinstance(declared, Inst):
        return _instance_fits(known, declared, fields)
    return None


def _each(known: Union, answers: list[bool | None]) -> bool | None:
    if all(answer is False for answer in answers) or (known.sure and any(answer is False for answer in answers)):
        return False
    return True if all(answers) else None


def _any(answers: Iterable[bool | None]) -> bool | None:
    found = list(answers)
    if any(found):
        return True
    return False if all(answer is False for answer in found) else None


def _shape_fits(known: Shape, declared: Type, fields: Fields) -> bool | None:
    if isinstance(declared, Shape):
        return None
    if not isinstance(declared, Inst):
        return None
    if isinstance(declared.cls, ClassInfo) and declared.cls.typed_dict:
        return _typed_dict_fits(known, declared.cls, fields)
    fit = _class_fits(dict, declared.cls)
    if fit and len(declared.args) == 2 and declared.cls in _MAPPINGS:
        answers = [fits(value, declared.args[1], fields) for _, value in known.items]
        keys = fits(Inst(str), declared.args[0], fields) if known.items else None
        if keys is False or any(answer is False for answer in answers):
            return False
    return fit


def _typed_dict_fits(known: Shape, declared: ClassInfo, fields: Fields) -> bool | None:
    types = fields(declared)
    if any(fits(value, types[key], fields) is False for key, value in known.items if key in types):
        return False
    missing = required(declared) - {key for key, _ in known.items}
    return False if missing and not known.open and declared.known_keys else None


def required(declared: ClassInfo) -> set[str]:
    """Return the keys that a TypedDict must have, as far as that can be told."""
    if any(one.node.keywords for one in declared.locals()):
        return set()  # total=False
    optional = ("NotRequired", "ClassVar")
    return {
        name
        for base in declared.locals()
        for name, node in base.fields.items()
        if not any(word in _source(node) for word in optional)
    }


def _source(node: object) -> str:
    import ast

    return ast.unparse(node) if isinstance(node, ast.AST) else ""


def _mappings() -> frozenset[Class]:
    from collections import OrderedDict, abc, defaultdict

    return frozenset({dict, OrderedDict, defaultdict, abc.Mapping, abc.MutableMapping})


_MAPPINGS = _mappings()


def _instance_fits(known: Inst, declared: Inst, fields: Fields) -> bool | None:
    if isinstance(declared.cls, ClassInfo) and declared.cls.typed_dict:
        if isinstance(known.cls, ClassInfo) and known.cls.typed_dict:
            return True if known.cls is declared.cls else None
        return None if _class_fits(known.cls, dict) is not False else False
    if isinstance(known.cls, ClassInfo) and known.cls.typed_dict:
        return _class_fits(dict, declared.cls)
    fit = _class_fits(known.cls, declared.cls)
    if not fit or known.cls is tuple or declared.cls is tuple:
        return _tuple_fits(known, declared, fields) if fit and known.cls is declared.cls is tuple else fit
    if len(known.args) == len(declared.args):
        pairs = zip(known.args, declared.args, strict=True)
        if any(fits(mine, theirs, fields) is False for mine, theirs in pairs):
            return False
    return fit


def _tuple_fits(known: Inst, declared: Inst, fields: Fields) -> bool | None:
    if not known.args or not declared.args:
        return True
    if any(isinstance(arg, Never) for arg in (*known.args, *declared.args)):  # tuple[int, ...]
        return False if fits(known.args[0], declared.args[0], fields) is False else None
    if len(known.args) != len(declared.args):
        return False
    answers = [fits(mine, theirs, fields) for mine, theirs in zip(known.args, declared.args, strict=True)]
    return False if False in answers else True if all(answers) else None


def _class_fits(known: Class, declared: Class) -> bool | None:
    if known is declared or declared is object:
        return True
    if isinstance(known, type) and isinstance(declared, type):
        return _real_fits(known, declared)
    if isinstance(declared, External):
        if isinstance(known, ClassInfo) and declared in list(known.mro()):
            return True
        return True if known == declared else None
    if isinstance(known, External):
        return None
    if isinstance(declared, ClassInfo) and (declared.protocol or declared.odd):
        return None
    if isinstance(known, ClassInfo):
        return _local_fits(known, declared)
    # A class of Python itself where one of the plugin is declared: only an ABC may say yes to it.
    if isinstance(declared, ClassInfo) and isinstance(known, type):
        if inspect.isabstract(known) or not declared.known or known in list(declared.mro()):
            return None
        return None if any(base.__module__ == "abc" for base in declared.mro() if isinstance(base, type)) else False
    return None


def _real_fits(known: type, declared: type) -> bool | None:
    try:
        if issubclass(known, _PROMOTED.get(declared, (declared,))):
            return True
        abstract = inspect.isabstract(known) or known.__module__ in ("typing", "collections.abc", "numbers")
        if issubclass(declared, known) or (abstract and not issubclass(declared, (int, str, float, bytes, type(None)))):
            return None  # a value of that class may well be one of this
    except TypeError:
        return None
    return False


def _local_fits(known: ClassInfo, declared: Class) -> bool | None:
    lineage = list(known.mro())
    if declared in lineage:
        return True
    if isinstance(declared, type):
        if any(isinstance(base, type) and issubclass(base, _PROMOTED.get(declared, (declared,))) for base in lineage):
            return True
        if "__subclasshook__" in vars(declared) or inspect.isabstract(declared):
            return None
    if isinstance(declared, ClassInfo) and (known in list(declared.mro()) or _is_abc(declared)):
        return None
    return False if known.known and not known.protocol else None


def _is_abc(declared: ClassInfo) -> bool:
    return any(isinstance(base, type) and base.__module__ == "abc" for base in declared.mro())


def live(known: Type, fields: Fields, depth: int = 4) -> str | None:
    """Return what makes a value a live resource for sure, such as `Upload > io.IOBase`; None when it is none."""
    if depth < 0:
        return None
    if isinstance(known, Union):
        found = [live(member, fields, depth) for member in known.members]
        return found[0] if all(found) else None
    if isinstance(known, Shape):
        inner = next(filter(None, (live(each, fields, depth - 1) for _, each in known.items)), None)
        return f"dict > {inner}" if inner else None
    if not isinstance(known, Inst):
        return None
    if isinstance(known.cls, External):
        return known.cls.name if known.cls.name in LIVE_ELSEWHERE else None
    if isinstance(known.cls, type):
        if is_resource(known.cls):
            return shown(known.cls)
        if known.cls in (list, tuple, set, dict) and known.args:
            inner = next(filter(None, (live(each, fields, depth - 1) for each in known.args)), None)
            return f"{shown(known.cls)} > {inner}" if inner else None
        return None
    return _local_live(known.cls, fields, depth)


def _local_live(cls: ClassInfo, fields: Fields, depth: int) -> str | None:
    if cls.typed_dict or cls.protocol:
        return None
    lineage = list(cls.mro())
    if any(isinstance(base, ClassInfo) and "lumia.resource" in base.decorators for base in lineage):
        return cls.name
    if any(isinstance(base, type) and is_resource(base) for base in lineage):
        return cls.name
    methods = {name for base in cls.locals() for name in base.methods}
    if any(duck <= methods for duck in _DUCKS):
        return cls.name
    if any(name in methods for name in _PICKLING):
        return None
    inner = next(filter(None, (live(each, fields, depth - 1) for each in fields(cls).values())), None)
    return f"{cls.name} > {inner}" if inner else None


_JSON = (str, int, float, bool, type(None), list, dict)


def not_json(known: Type, *, exact: bool) -> str | None:
    """Return the part of a value that JSON can't carry for sure, None without one.

    exact: as a Box's meta wants it, these very classes; else what `json.dumps` takes: tuples and subclasses, too.
    """
    for member in members(known):
        found = _not_json(member, exact)
        if found:
            return found
    return None


def _not_json(known: Type, exact: bool) -> str | None:
    if isinstance(known, Shape):
        return next(filter(None, (not_json(each, exact=exact) for _, each in known.items)), None)
    if isinstance(known, Boxed):
        return "Box"
    if isinstance(known, (ClassOf, Func)):
        return "function" if isinstance(known, Func) else "class"
    known = widened(known)
    if not isinstance(known, Inst) or isinstance(known.cls, External):
        return known.cls.name if isinstance(known, Inst) and live(known, lambda _: {}) else None
    if isinstance(known.cls, ClassInfo):
        if known.cls.typed_dict:
            return None
        bases = [base for base in known.cls.mro() if isinstance(base, type) and base in (*_JSON, tuple)]
        return None if bases or not known.cls.known else known.cls.name
    if known.cls in _JSON or (known.cls is tuple and not exact):
        keys = known.args[:1] if known.cls is dict and exact else ()
        if any(isinstance(widened(key), Inst) and widened(key) != Inst(str) for key in keys):
            return "dict with keys that aren't text"
        return next(filter(None, (not_json(arg, exact=exact) for arg in known.args)), None)
    if inspect.isabstract(known.cls) or (not exact and issubclass(known.cls, (*_JSON, tuple))):
        return None
    return shown(known.cls)


def describe(known: Type, depth: int = 2) -> str:
    """Return a type as an author would write it."""
    if isinstance(known, Union):
        return " | ".join(dict.fromkeys(describe(member, depth) for member in known.members))
    if isinstance(known, Boxed):
        inner = describe(known.content.type, depth)
        return "Box" if inner == "Any" else f"Box[{inner}]"
    if isinstance(known, Shape):
        keys = ", ".join(f'"{key}"' for key, _ in known.items[:6])
        return f"dict with {keys}" if keys else "dict"
    if isinstance(known, Lit):
        return type(known.value).__name__
    known = widened(known)
    if isinstance(known, Inst):
        name = "None" if known.cls is type(None) else shown(known.cls)
        args = [describe(arg, depth - 1) for arg in known.args if not isinstance(arg, Never)]
        return f"{name}[{', '.join(args)}]" if args and depth > 0 and "Any" not in args[:1] else name
    names = {ClassOf: "a class", Func: "a function", Method: "a method", ModuleOf: "a module", Ref: "a library's name"}
    return names.get(type(known), "Any")


__all__ = ["UNKNOWN", "Fields", "describe", "fits", "live", "not_json", "required"]
