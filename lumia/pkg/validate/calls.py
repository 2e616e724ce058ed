"""What each kind of call gives; the plugin's own functions are followed with the types they get."""

from __future__ import annotations

import ast

from lumia.pkg.validate import boxes, use
from lumia.pkg.validate.classes import ClassInfo, real_class
from lumia.pkg.validate.cycles import stored
from lumia.pkg.validate.expr import escape, forget
from lumia.pkg.validate.follow import follow, worked_out
from lumia.pkg.validate.frame import Frame
from lumia.pkg.validate.known import LIVE_ELSEWHERE, TAKES, method_returns, returned_by
from lumia.pkg.validate.library import SPECIAL
from lumia.pkg.validate.types import (
    ANYTHING,
    NONE,
    STR,
    UNKNOWN,
    Boxed,
    ClassOf,
    External,
    Func,
    Inst,
    Lit,
    Marking,
    Method,
    Ref,
    Shape,
    Type,
    Union,
    Unknown,
    Value,
    join,
    members,
    union,
    widened,
)

_PURE = frozenset(
    [
        "len",
        "str",
        "repr",
        "print",
        "isinstance",
        "issubclass",
        "int",
        "float",
        "bool",
        "sorted",
        "sum",
        "min",
        "max",
        "any",
        "all",
        "enumerate",
        "zip",
        "range",
        "hash",
        "iter",
        "list",
        "dict",
        "set",
        "tuple",
        "frozenset",
        "reversed",
        "format",
        "type",
        "hasattr",
        "callable",
        "abs",
        "round",
        "map",
        "filter",
        "next",
    ]
)
_SAFE = frozenset({"json.dumps", "dill.dumps", "pickle.dumps", "copy.deepcopy", "lumia.Box.any", "lumia.store.set"})
_MUTATING = frozenset(
    [
        "append",
        "extend",
        "insert",
        "remove",
        "pop",
        "clear",
        "update",
        "setdefault",
        "sort",
        "reverse",
        "add",
        "discard",
        "popitem",
        "appendleft",
    ]
)


def call(frame: Frame, node: ast.Call) -> Value:
    """Return what a call gives."""
    callee = frame.value(node.func)
    args = [frame.value(each) for each in node.args]
    named = {each.arg or "**": frame.value(each.value) for each in node.keywords}
    found = _called(frame, node, callee, args, named)
    if not (isinstance(callee.type, Ref) and _keeps(callee.type.name)) and not _reads(callee.type):
        for each in [*node.args, *(one.value for one in node.keywords)]:
            escape(frame, each.value if isinstance(each, ast.Starred) else each)
        if frame.state.paths and isinstance(callee.type, (Func, Unknown, Method)):
            forget(frame, None)
    return found


def _keeps(name: str) -> bool:
    module, _, last = name.rpartition(".")
    return (module == "builtins" and last in _PURE) or name in _SAFE


def _reads(callee: Type) -> bool:
    return isinstance(callee, Method) and isinstance(callee.owner.type, Boxed)


def _called(frame: Frame, node: ast.Call, callee: Value, args: list[Value], named: dict[str, Value]) -> Value:
    known = callee.type
    if isinstance(known, Ref):
        return _library(frame, node, known.name, args, named)
    if isinstance(known, ClassOf):
        return construct(frame, node, known, args, named)
    if isinstance(known, Func):
        boxes.check_direct(frame, node, known.function, args)
        owner = [known.owner] if known.owner is not None else []
        return follow(frame, known.function, [*owner, *args], named, node)
    if isinstance(known, Method):
        return _method(frame, node, known, args, named)
    if isinstance(known, Marking):
        return boxes.marked(frame, known, args)
    if isinstance(known, Union):
        functions = [each for each in known.members if isinstance(each, Func)]
        if len(functions) == len(known.members):
            return join([follow(frame, each.function, args, named, node) for each in functions])
    if use.plain(known) is not None and not isinstance(known, Shape):
        use.complain(frame, node, callee, "it can't be called")
    return worked_out(UNKNOWN, [callee, *args, *named.values()])


def _library(frame: Frame, node: ast.Call, name: str, args: list[Value], named: dict[str, Value]) -> Value:
    handled = boxes.api(frame, node, name, args, named)
    if handled is not None:
        return handled
    if name in TAKES and args:
        allowed = union([Inst(each) for each in TAKES[name]])
        use.expected(frame, node, args[0], allowed, f"{name.removeprefix('builtins.')}()")
    special = SPECIAL.get(name)
    if special is not None and not any(isinstance(each, ast.Starred) for each in node.args):
        return special(frame, node, args, named)
    returned = returned_by(name)
    if not isinstance(returned, Unknown):
        return worked_out(returned, [*args, *named.values()], frame.run.token())
    if name in LIVE_ELSEWHERE:
        return Value(Inst(External(name)), token=frame.run.token())
    cls = real_class(name)
    if cls is not None:
        return construct(frame, node, ClassOf(cls), args, named)
    return worked_out(UNKNOWN, [*args, *named.values()])


def construct(frame: Frame, node: ast.Call, known: ClassOf, args: list[Value], named: dict[str, Value]) -> Value:
    """Return an instance of a class."""
    token = frame.run.token()
    if isinstance(known.cls, ClassInfo):
        info = known.cls
        if any(isinstance(base, type) and base.__module__ == "enum" for base in info.mro()):
            return worked_out(Inst(info), args, token)
        if info.typed_dict:
            items = tuple((key, value.type) for key, value in named.items() if key != "**")
            return Value(Shape(items, "**" in named or bool(args)), token=token)
        if "__new__" in info.methods or info.odd:
            return ANYTHING
        made = Value(Inst(info, known.args), token=token)
        init = info.method("__init__")
        if init is not None:
            follow(frame, init, [made, *args], named, node)
        return made
    if not isinstance(known.cls, type):
        return worked_out(Inst(known.cls) if known.cls.name in LIVE_ELSEWHERE else UNKNOWN, args, token)
    return _real(frame, node, known, args, named, token)


def _real(
    frame: Frame, node: ast.Call, known: ClassOf, args: list[Value], named: dict[str, Value], token: int
) -> Value:
    cls = known.cls
    values = [*args, *named.values()]
    if cls is dict:
        return Value(_dict_of(args, named), frozenset().union(*(each.origin for each in values)), token)
    if cls in (list, tuple, set, frozenset) and args:
        element = union(use._element(each) for each in members(args[0].type))
        inner = () if isinstance(element, Unknown) else (widened(element),)
        if cls is tuple:
            inner = ()
        return Value(Inst(cls, inner), args[0].origin, token)
    if cls in (int, float) and args and use.plain_of(args[0].type) in (list, dict, set, tuple, type(None)):
        use.complain(frame, node, args[0], f"{cls.__name__}() can't read it")
    if cls is type or cls is object:
        return worked_out(UNKNOWN, values, token)
    return worked_out(Inst(cls, known.args), values, token)


def _dict_of(args: list[Value], named: dict[str, Value]) -> Type:
    items: dict[str, Type] = {}
    loose = "**" in named
    if args:
        first = args[0].type
        if isinstance(first, Shape):
            items, loose = dict(first.items), loose or first.open
        elif isinstance(first, Inst) and first.cls is dict and not named:
            return first
        else:
            loose = True
    items |= {key: value.type for key, value in named.items() if key != "**"}
    spread = named.get("**")
    if spread is not None and isinstance(spread.type, Shape) and not spread.type.open and not args:
        return Shape((*spread.type.items, *items.items()))
    return Shape(tuple(items.items()), loose)


def _method(frame: Frame, node: ast.Call, known: Method, args: list[Value], named: dict[str, Value]) -> Value:
    owner = known.owner
    if isinstance(owner.type, Boxed):
        return boxes.method(frame, node, owner, known.name, args)
    if isinstance(owner.type, ClassOf):
        same = known.name in ("model_validate", "model_validate_json", "model_construct", "parse_obj", "from_orm")
        return worked_out(Inst(owner.type.cls) if same else UNKNOWN, args, frame.run.token())
    if known.name in ("close", "release", "shutdown", "aclose", "terminate", "cleanup"):
        boxes.closed(frame, node, owner)
    if known.name in _MUTATING and isinstance(node.func, ast.Attribute):
        for each in args:
            stored(frame, node, owner, each)
        escape(frame, node.func.value)
    returned = union(_returned(frame, each, known.name, args) for each in members(owner.type))
    token = frame.run.token()
    if known.name in ("get", "pop", "setdefault") and use.plain_of(owner.type) is dict:
        return owner.of(returned, token)
    certain = use.plain_of(owner.type) is not None and not isinstance(returned, Unknown)
    if certain or known.name in ("copy", "values", "items", "keys", "model_copy"):
        return owner.of(returned, token)
    return worked_out(returned, [owner, *args, *named.values()], token)


def _returned(frame: Frame, known: Type, name: str, args: list[Value]) -> Type:
    if isinstance(known, Inst) and isinstance(known.cls, ClassInfo) and not known.cls.typed_dict:
        if known.cls.model:
            return {"model_dump": Inst(dict), "dict": Inst(dict), "model_dump_json": STR, "json": STR}.get(
                name, known if name == "model_copy" else UNKNOWN
            )
        return UNKNOWN
    if name == "copy" and use.plain(known) in (dict, list, set):
        return known
    if isinstance(known, Shape) or (isinstance(known, Inst) and known.cls is dict):
        return _of_dict(known, name, args)
    plain = widened(known)
    if isinstance(plain, Inst) and not isinstance(plain.cls, ClassInfo):
        if name == "pop" and plain.cls is list and plain.args:
            return plain.args[0]
        return method_returns(plain.cls, name)
    return UNKNOWN


def _of_dict(known: Shape | Inst, name: str, args: list[Value]) -> Type:
    values = [value for _, value in known.items] if isinstance(known, Shape) else [*known.args[1:2]]
    loose = isinstance(known, Shape) and known.open
    inner = UNKNOWN if loose or not values else union(widened(each) for each in values)
    keys = (
        STR
        if isinstance(known, Shape) and not loose
        else known.args[0]
        if isinstance(known, Inst) and known.args
        else UNKNOWN
    )
    if name in ("items", "keys", "values"):
        view = type(getattr({}, name)())
        return Inst(view, (Inst(tuple, (keys, inner)),) if name == "items" else (keys if name == "keys" else inner,))
    if name in ("get", "pop") and args and isinstance(known, Shape) and isinstance(args[0].type, Lit):
        found = known.get(str(args[0].type.value))
        default = args[1].type if len(args) > 1 else NONE
        return found if found is not None else UNKNOWN if known.open or name == "pop" else default
    return method_returns(dict, name)


Frame.evaluators = {**Frame.evaluators, ast.Call: call}
