"""What each kind of expression gives."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace

from lumia.pkg.validate import use
from lumia.pkg.validate.classes import ClassInfo, class_of
from lumia.pkg.validate.cycles import stored
from lumia.pkg.validate.frame import Frame, State, global_value, merged, path_of
from lumia.pkg.validate.messages import is_part
from lumia.pkg.validate.narrow import branches, truthy
from lumia.pkg.validate.types import (
    ANYTHING,
    BOOL,
    INT,
    NONE,
    STR,
    UNKNOWN,
    Boxed,
    ClassOf,
    Func,
    Inst,
    Lit,
    Method,
    ModuleOf,
    Ref,
    Shape,
    Text,
    Type,
    Union,
    Value,
    join,
    literal,
    members,
    opened,
    union,
    widened,
)
from lumia.pkg.validate.world import Function, canonical

_NO_ORIGIN = frozenset[int]()


def constant(frame: Frame, node: ast.Constant) -> Value:
    return Value(literal(node.value))


def name(frame: Frame, node: ast.Name) -> Value:
    return frame.lookup(node.id)


def attribute(frame: Frame, node: ast.Attribute) -> Value:
    owner = frame.value(node.value)
    found = member(frame, node, owner, node.attr)
    use.attribute(frame, node, owner)
    return found


def member(frame: Frame, node: ast.expr, owner: Value, attr: str) -> Value:
    """Return `owner.attr`."""
    known = owner.type
    if isinstance(known, Ref):
        if known.name.startswith("@settings:"):
            if not frame.quiet and isinstance(node, ast.Attribute):
                frame.run.settings.append((known.name.partition(":")[2], attr, frame, node))
            return ANYTHING
        return Value(Ref(canonical(f"{known.name}.{attr}")))
    if isinstance(known, ModuleOf):
        return global_value(frame.run, known.module, attr)
    if isinstance(known, Boxed):
        if attr in ("meta", "type_name", "is_arc", "transport"):
            return Value(UNKNOWN, known.content.origin)
        return Value(Method(owner, attr, node))
    if isinstance(known, Inst) and isinstance(known.cls, ClassInfo):
        return _of_instance(frame, owner, known, known.cls, attr)
    if isinstance(known, ClassOf):
        return _of_class(frame, known, attr)
    if isinstance(known, Union):
        found = [_plain_member(frame, owner.of(each), each, attr) for each in known.members]
        kinds = {type(each.type) for each in found}
        return owner.of(UNKNOWN) if kinds & {Method, Func} else join(found)
    return owner.of(Method(owner, attr, node)) if isinstance(known, (Inst, Lit, Shape, Text)) else owner.of(UNKNOWN)


def _plain_member(frame: Frame, owner: Value, known: Type, attr: str) -> Value:
    if isinstance(known, Inst) and isinstance(known.cls, ClassInfo):
        return _of_instance(frame, owner, known, known.cls, attr)
    return owner.of(UNKNOWN)


def _of_instance(frame: Frame, owner: Value, known: Inst, info: ClassInfo, attr: str) -> Value:
    method = info.method(attr)
    if method is not None:
        names = {frame.run.world.dotted(method.module, one) for one in method.decorators}
        if names & {"builtins.property", "functools.cached_property"}:
            from lumia.pkg.validate.follow import follow

            return owner.of(follow(frame, method, [owner], {}, None).type)
        if "builtins.staticmethod" in names:
            return Value(Func(method))
        return Value(Func(method, Value(ClassOf(info)) if "builtins.classmethod" in names else owner))
    found = frame.run.fields(info).get(attr)
    if found is not None and not _parametrised(info, attr):
        return owner.of(found)
    constant = next((base.constants[attr] for base in info.locals() if attr in base.constants), None)
    if isinstance(constant, ast.Constant) and constant.value is not None:
        return owner.of(widened(literal(constant.value)))
    if attr == "update" and is_part(known):
        frame.run.loose = True
    return owner.of(Method(owner, attr)) if info.model or info.typed_dict else owner.of(UNKNOWN)


def _parametrised(info: ClassInfo, attr: str) -> bool:
    """A field of a generic class has the type its user gave."""
    return bool(info.params) or any(isinstance(base, ast.Subscript) for base in info.node.bases)


def _of_class(frame: Frame, known: ClassOf, attr: str) -> Value:
    from lumia.pkg.validate.annotate import Annotations

    if isinstance(known.cls, type):
        module = known.cls.__module__
        prefix = "" if module == "builtins" else f"{module}."
        return Value(Ref(f"{prefix or 'builtins.'}{known.cls.__qualname__}.{attr}"))
    if not isinstance(known.cls, ClassInfo):
        return Value(Ref(canonical(f"{known.cls.name}.{attr}")))
    info = known.cls
    method = info.method(attr)
    if method is not None:
        names = {frame.run.world.dotted(method.module, one) for one in method.decorators}
        return Value(Func(method, Value(known) if "builtins.classmethod" in names else None))
    if any(isinstance(base, type) and base.__module__ == "enum" for base in info.mro()):
        return Value(Inst(info)) if any(attr in base.constants for base in info.locals()) else ANYTHING
    noted = info.annotation(attr)
    if noted is not None:
        return Value(Annotations(frame.run.world, noted[0].module).type(noted[1]))
    for base in info.locals():
        if attr in base.constants:
            return Value(opened(Frame(frame.run, base.module, quiet=True).value(base.constants[attr]).type))
    return Value(Method(Value(known), attr))


def subscript(frame: Frame, node: ast.Subscript) -> Value:
    owner, key = frame.value(node.value), frame.value(node.slice)
    if isinstance(node.slice, ast.Slice):
        return owner.of(widened(opened(owner.type)))
    cls = class_of(owner.type) if isinstance(owner.type, (ClassOf, Ref)) else None
    if cls is not None:
        found = frame.notes.type(node)
        return Value(ClassOf(found.cls, found.args)) if isinstance(found, Inst) else ANYTHING
    if isinstance(owner.type, (Ref, Method)):
        return owner.of(UNKNOWN)
    found_at = use.subscript(frame, node, owner, key)
    # What is read with a key out of a Box may depend on the key's origin, too.
    return Value(found_at.type, found_at.origin | key.origin) if key.origin else found_at


def boolean(frame: Frame, node: ast.BoolOp) -> Value:
    found: list[Value] = []
    start = frame.state
    guards = start.guards
    now = start
    for index, each in enumerate(node.values):
        frame.state = now
        if index == len(node.values) - 1:
            found.append(frame.value(each))
            break
        with frame.silent():
            value = frame.value(each)
        yes, no = branches(frame, each)
        conjunction = isinstance(node.op, ast.And)
        kept = [one for one in members(value.type) if _stays(one, conjunction)]
        if kept:
            found.append(replace(value, type=union(kept, sure=getattr(value.type, "sure", True))))
        now = yes if conjunction else no
        if now.dead:
            break
    frame.state = State(start.names, guards, start.dead, start.paths)
    return join(found) if found else ANYTHING


def _stays(known: Type, conjunction: bool) -> bool:
    truth = truthy(known)
    return truth is None or truth is not conjunction


def conditional(frame: Frame, node: ast.IfExp) -> Value:
    yes, no = branches(frame, node.test)
    before = frame.state
    found = []
    for state, each in ((yes, node.body), (no, node.orelse)):
        if not state.dead:
            frame.state = state
            found.append(frame.value(each))
    frame.state = merged(yes, no, before.guards)
    return join(found) if found else ANYTHING


def display(frame: Frame, node: ast.List | ast.Set | ast.Tuple) -> Value:
    parts = [frame.value(each) for each in node.elts]
    for each in node.elts:
        escape(frame, each)
    origin = _NO_ORIGIN.union(*(part.origin for part in parts))
    starred = any(isinstance(each, ast.Starred) for each in node.elts)
    types = [part.type for part in parts]
    if isinstance(node, ast.Tuple):
        return Value(Inst(tuple, () if starred else tuple(types)), origin, frame.run.token())
    inner = () if starred or not types else (union(widened(each) for each in types),)
    return Value(Inst(list if isinstance(node, ast.List) else set, inner), origin, frame.run.token())


def dictionary(frame: Frame, node: ast.Dict) -> Value:
    items: dict[str, Type] = {}
    exact, open_ = True, False
    origin = _NO_ORIGIN
    values: list[Type] = []
    keys: list[Type] = []
    for key, each in zip(node.keys, node.values, strict=True):
        value = frame.value(each)
        if key is None:
            spread = value.type
            if isinstance(spread, Shape):
                items |= dict(spread.items)
                open_ = open_ or spread.open
            else:
                open_ = True
            continue
        escape(frame, each)
        origin |= value.origin
        known = frame.value(key).type
        keys.append(widened(known))
        values.append(widened(value.type))
        if isinstance(known, Lit) and isinstance(known.value, str):
            items[known.value] = value.type
        elif known != UNKNOWN and plain_key(known):
            exact = False
        else:
            open_ = True
    if not exact:
        return Value(Inst(dict, (union(keys), union(values))), origin, frame.run.token())
    return Value(Shape(tuple(items.items()), open_), origin, frame.run.token())


def plain_key(known: Type) -> bool:
    """Tell whether a key is of a plain class other than text."""
    cls = use.plain(known)
    return cls is not None and cls is not str


def comprehension(frame: Frame, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
    before = frame.state
    frame.state = before.copy()
    for each in node.generators:
        value = frame.value(each.iter)
        assign(frame, each.target, use.iterated(frame, each.iter, value))
        for test in each.ifs:
            yes, _ = branches(frame, test)
            if yes.dead:
                yes.dead = False
            frame.state = yes
    if isinstance(node, ast.DictComp):
        key, value = frame.value(node.key), frame.value(node.value)
        found: Type = Inst(dict, (widened(key.type), widened(value.type)))
        origin = key.origin | value.origin
    else:
        element = frame.value(node.elt)
        kinds = {ast.ListComp: list, ast.SetComp: set}
        cls = kinds.get(type(node))
        origin = element.origin
        from types import GeneratorType

        found = Inst(cls, (widened(element.type),)) if cls else Inst(GeneratorType)
    frame.state = before
    return Value(found, origin, frame.run.token())


def assign(frame: Frame, target: ast.expr, value: Value) -> None:
    """Give names their values."""
    if frame.state.paths:
        forget(frame, path_of(target))
    if isinstance(target, ast.Name):
        frame.state.names[target.id] = value
    elif isinstance(target, ast.Starred):
        assign(frame, target.value, value.of(Inst(list)))
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(frame, target, value)
    elif isinstance(target, ast.Subscript):
        _store_item(frame, target, value)
    elif isinstance(target, ast.Attribute):
        owner, path = frame.value(target.value), path_of(target)
        stored(frame, target, owner, value)
        if path is not None:
            frame.state.paths[path] = value


def forget(frame: Frame, path: str | None) -> None:
    """What was known of an attribute or item isn't any more: something was assigned, or a call may have changed it."""
    for known in list(frame.state.paths):
        if path is None or known.startswith(path):
            frame.state.paths[known] = ANYTHING


def _unpack(frame: Frame, target: ast.Tuple | ast.List, value: Value) -> None:
    args = value.type.args if isinstance(value.type, Inst) and value.type.cls is tuple else ()
    starred = any(isinstance(each, ast.Starred) for each in target.elts)
    if (
        args
        and len(args) == len(target.elts)
        and not starred
        and not any(arg.__class__.__name__ == "Never" for arg in args)
    ):
        for each, arg in zip(target.elts, args, strict=True):
            assign(frame, each, value.of(arg, value.token))
        return
    tail = args[-1].__class__.__name__ if args else ""
    if args and not starred and tail != "Never" and len(args) != len(target.elts):
        use.complain(frame, target, value, f"it has {len(args)} items, {len(target.elts)} are taken")
    inner = use.iterated(frame, target, value)
    for each in target.elts:
        assign(frame, each, inner)


def _store_item(frame: Frame, target: ast.Subscript, value: Value) -> None:
    owner, key = frame.value(target.value), frame.value(target.slice)
    if is_part(owner.type) and not isinstance(key.type, Lit):
        frame.run.loose = True
    stored(frame, target, owner, value)
    if not isinstance(target.value, ast.Name):
        return
    known = owner.type
    if isinstance(known, Shape) and isinstance(key.type, Lit) and isinstance(key.type.value, str):
        items = {**dict(known.items), key.type.value: value.type}
        changed: Type = Shape(tuple(items.items()), known.open)
    else:
        changed = opened(known)
    frame.state.names[target.value.id] = replace(owner, type=changed, origin=owner.origin | value.origin)


def escape(frame: Frame, node: ast.expr) -> None:
    """Note that somebody else holds what a name stands for, so it may change from here on."""
    if isinstance(node, ast.Name):
        value = frame.state.names.get(node.id)
        if value is not None:
            loose = opened(value.type)
            if loose != value.type:
                frame.state.names[node.id] = replace(value, type=loose)


def text(frame: Frame, node: ast.JoinedStr) -> Value:
    parts: list[str | None] = []
    origin = _NO_ORIGIN
    for each in node.values:
        if isinstance(each, ast.Constant):
            parts.append(str(each.value))
            continue
        value = frame.value(each.value) if isinstance(each, ast.FormattedValue) else ANYTHING
        origin |= value.origin
        plain_text = isinstance(each, ast.FormattedValue) and each.conversion == -1 and each.format_spec is None
        known = value.type
        if plain_text and isinstance(known, Lit) and known.kind in ("str", "int"):
            parts.append(str(known.value))
        else:
            parts += list(known.parts) if plain_text and isinstance(known, Text) else [None]
    return Value(joined(parts), origin)


def joined(parts: Iterable[str | None]) -> Type:
    """Return the text that these pieces make."""
    found: list[str | None] = []
    for part in parts:
        if part is not None and found and found[-1] is not None:
            found[-1] += part
        elif part is not None or not found or found[-1] is not None:
            found.append(part)
    if not found:
        return Lit("")
    return Lit(found[0]) if len(found) == 1 and found[0] is not None else Text(tuple(found))


def binary(frame: Frame, node: ast.BinOp) -> Value:
    left, right = frame.value(node.left), frame.value(node.right)
    origin = left.origin | right.origin
    if isinstance(node.op, ast.Add):
        pieces = [_pieces(left.type), _pieces(right.type)]
        if pieces[0] is not None and pieces[1] is not None:
            return Value(joined([*pieces[0], *pieces[1]]), origin)
    if isinstance(node.op, ast.BitOr) and (class_of(left.type) or class_of(right.type)):
        return ANYTHING
    if isinstance(node.op, ast.Mod) and use.plain(left.type) is str:
        return Value(STR, origin)
    if isinstance(node.op, ast.BitOr) and isinstance(left.type, Shape) and isinstance(right.type, Shape):
        both = {**dict(left.type.items), **dict(right.type.items)}
        return Value(Shape(tuple(both.items()), left.type.open or right.type.open), origin)
    found = use.binary(frame, node, node.op, left, right)
    if found == Inst(list) and isinstance(node.op, ast.Add):
        args = [each.args for each in (left.type, right.type) if isinstance(each, Inst)]
        found = Inst(list, args[0]) if args and args[0] == args[-1] else found
    return Value(found, origin, frame.run.token())


def _pieces(known: Type) -> list[str | None] | None:
    if isinstance(known, Text):
        return list(known.parts)
    if isinstance(known, Lit) and known.kind == "str":
        return [str(known.value)]
    return [None] if known == STR else None


def unary(frame: Frame, node: ast.UnaryOp) -> Value:
    value = frame.value(node.operand)
    if isinstance(node.op, ast.Not):
        return Value(BOOL, value.origin)
    if isinstance(node.op, ast.USub) and isinstance(value.type, Lit) and isinstance(value.type.value, (int, float)):
        return value.of(Lit(-value.type.value))
    return value.of(widened(value.type)) if use.plain(value.type) in (int, float) else value.of(UNKNOWN)


def compare(frame: Frame, node: ast.Compare) -> Value:
    left = frame.value(node.left)
    origin = left.origin
    for op, each in zip(node.ops, node.comparators, strict=True):
        right = frame.value(each)
        origin |= right.origin
        if isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
            use.binary(frame, node, op, left, right)
        elif (
            isinstance(op, (ast.In, ast.NotIn))
            and right.origin
            and use.plain_of(right.type) in (int, float, bool, type(None))
        ):
            use.complain(frame, node, right, "nothing can be in it")
        left = right
    return Value(BOOL, origin)


def awaited(frame: Frame, node: ast.Await) -> Value:
    from types import CoroutineType

    value = frame.value(node.value)
    known = value.type
    if isinstance(known, Inst) and known.cls is CoroutineType:
        return value.of(known.args[0] if known.args else UNKNOWN, value.token)
    # What isn't known to be a coroutine may be awaited all the same: the table names results of coroutines as they are.
    return value if isinstance(node.value, ast.Call) else value.of(UNKNOWN)


def walrus(frame: Frame, node: ast.NamedExpr) -> Value:
    value = frame.value(node.value)
    assign(frame, node.target, value)
    return value


def function(frame: Frame, node: ast.Lambda) -> Value:
    outer = {**(frame.function.outer or {} if frame.function else {}), **frame.state.names}
    return Value(Func(Function("<lambda>", node, frame.module, None, outer)), token=frame.run.token())


def starred(frame: Frame, node: ast.Starred) -> Value:
    return use.iterated(frame, node, frame.value(node.value))


Frame.evaluators = {
    ast.Constant: constant, ast.Name: name, ast.Attribute: attribute, ast.Subscript: subscript, ast.BoolOp: boolean,
    ast.IfExp: conditional, ast.List: display, ast.Set: display, ast.Tuple: display, ast.Dict: dictionary,
    ast.ListComp: comprehension, ast.SetComp: comprehension, ast.GeneratorExp: comprehension,
    ast.DictComp: comprehension, ast.JoinedStr: text, ast.BinOp: binary, ast.UnaryOp: unary, ast.Compare: compare,
    ast.Await: awaited, ast.NamedExpr: walrus, ast.Lambda: function, ast.Starred: starred,
}  # fmt: skip

__all__ = ["INT", "NONE", "assign", "escape", "member"]
