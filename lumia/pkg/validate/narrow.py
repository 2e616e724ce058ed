"""Conditions: which way they go, and what is known on each way."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import cache

from lumia.pkg.validate.classes import ClassInfo, class_of
from lumia.pkg.validate.frame import Frame, State, path_of, uncertain
from lumia.pkg.validate.types import (
    NEVER,
    NONE,
    UNKNOWN,
    Boxed,
    ClassOf,
    Func,
    Inst,
    Lit,
    Ref,
    Shape,
    Type,
    Unknown,
    Value,
    literal,
    members,
    union,
    widened,
)

_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def branches(frame: Frame, test: ast.expr) -> tuple[State, State]:
    """Return the states in which a condition is true and false; a way that can't be taken is dead."""
    before = frame.state
    value = frame.value(test)
    before = frame.state
    yes, no = before.copy(), before.copy()
    truth = narrowed(frame, test, yes, no)
    if truth is None:
        truth = truthy(value.type)
    if truth is not None:
        (no if truth else yes).dead = True
        return yes, no
    asked = asks(frame, test)
    for state in (yes, no):
        state.guards |= asked
        uncertain(state)
    return yes, no


def truthy(known: Type) -> bool | None:
    """Tell whether a value counts as true; None when that depends."""
    if isinstance(known, Lit):
        return bool(known.value)
    if known == NONE:
        return False
    if isinstance(known, Shape) and known.items:
        return True
    if isinstance(known, (ClassOf, Func)):
        return True
    found = {truthy(each) for each in members(known)} if len(members(known)) > 1 else {None}
    return found.pop() if len(found) == 1 else None


def asks(frame: Frame, test: ast.expr) -> frozenset[int]:
    """Return the sites whose content a condition asks about in a way that may tell its type."""
    if isinstance(test, ast.Compare) and all(isinstance(op, _ORDER) for op in test.ops):
        return frozenset()
    if isinstance(test, ast.BoolOp):
        return frozenset[int]().union(*(asks(frame, each) for each in test.values))
    found: frozenset[int] = frozenset()
    with frame.silent():
        for name in _names(test):
            value = frame.lookup(name)
            if value.origin:
                found |= value.origin
            if isinstance(value.type, Boxed):
                found |= value.type.content.origin
    return frozenset(map(abs, found)) if found else found


@cache
def _names(test: ast.expr) -> tuple[str, ...]:
    return tuple(each.id for each in ast.walk(test) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load))


def narrowed(frame: Frame, test: ast.expr, yes: State, no: State) -> bool | None:
    """Write into both states what a condition tells about names; return which way it goes, if that is certain."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        truth = narrowed(frame, test.operand, no, yes)
        return None if truth is None else not truth
    if isinstance(test, ast.BoolOp):
        return _both(frame, test, yes, no)
    if isinstance(test, ast.NamedExpr):
        return narrowed(frame, test.target, yes, no)
    if isinstance(test, ast.Name):
        return _split(frame, test, yes, no, truthy)
    if isinstance(test, ast.Call) and len(test.args) == 2 and isinstance(test.func, ast.Name):
        if test.func.id == "isinstance":
            classes = _classes(frame, test.args[1])
            return _split(frame, test.args[0], yes, no, lambda each: _is_one(frame, each, classes), classes)
        if test.func.id == "hasattr":
            return _split(frame, test.args[0], yes, no, lambda each: None)
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id == "callable" and test.args:
        return _split(frame, test.args[0], yes, no, lambda each: None)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _compared(frame, test.left, test.ops[0], test.comparators[0], yes, no)
    return None


def _both(frame: Frame, test: ast.BoolOp, yes: State, no: State) -> bool | None:
    """`a and b`: b is only asked where a is true, so `isinstance(x, dict) and x["a"]` is read rightly."""
    conjunction = isinstance(test.op, ast.And)
    truths: list[bool | None] = []
    before, now = frame.state, frame.state.copy()
    for each in test.values:
        frame.state = now
        one, other = now.copy(), now.copy()
        truth = narrowed(frame, each, one, other)
        if truth is None:
            with frame.silent():
                truth = truthy(frame.value(each).type)
        truths.append(truth)
        now = one if conjunction else other
        if truth is (not conjunction):
            break
    frame.state = before
    (yes if conjunction else no).names.update(now.names)
    (yes if conjunction else no).paths.update(now.paths)
    if conjunction:
        return False if False in truths else True if all(truths) else None
    return True if True in truths else False if all(truth is False for truth in truths) else None


def _split(
    frame: Frame, node: ast.expr, yes: State, no: State, decide: object, classes: list[Type] | None = None
) -> bool | None:
    if isinstance(node, ast.NamedExpr):
        node = node.target
    with frame.silent():
        value = frame.value(node)
    if isinstance(value.type, (Boxed, Unknown)):
        if isinstance(node, ast.Name) and classes and isinstance(value.type, Unknown):
            yes.names[node.id] = replace(value, type=union(classes))
        return None
    parts = [(each, decide(each)) for each in members(value.type)]  # type: ignore[operator]
    true = [each for each, answer in parts if answer is not False]
    false = [each for each, answer in parts if answer is not True]
    if isinstance(node, ast.Name):
        sure = getattr(value.type, "sure", True)
        unclear = any(answer is None for _, answer in parts) and classes is not None
        yes.names[node.id] = replace(value, type=UNKNOWN if unclear else union(true, sure=sure))
        no.names[node.id] = replace(value, type=UNKNOWN if unclear else union(false, sure=sure))
    path = path_of(node) if isinstance(node, (ast.Attribute, ast.Subscript)) else None
    if path is not None and len(parts) > 1:
        yes.paths[path] = replace(value, type=union(true) if classes is None else UNKNOWN)
        no.paths[path] = replace(value, type=union(false) if classes is None else UNKNOWN)
    if not true or not false:
        return bool(true)
    return None


def _classes(frame: Frame, node: ast.expr) -> list[Type]:
    if isinstance(node, ast.Tuple):
        return [each for one in node.elts for each in _classes(frame, one)]
    if isinstance(node, ast.BinOp):
        return [*_classes(frame, node.left), *_classes(frame, node.right)]
    if isinstance(node, ast.Constant) and node.value is None:
        return [NONE]
    with frame.silent():
        found = frame.value(node).type
    if isinstance(found, (ClassOf, Ref)):
        cls = class_of(found)
        return [Inst(cls)] if cls is not None else [UNKNOWN]
    return [UNKNOWN]


def _is_one(frame: Frame, known: Type, classes: list[Type]) -> bool | None:
    if isinstance(known, Unknown) or any(isinstance(each, Unknown) for each in classes):
        return None
    # float and complex are no ints here: isinstance asks for the class itself.
    answers = [_exactly(frame, known, each) for each in classes]
    if any(answers):
        return True
    return False if all(answer is False for answer in answers) else None


def _exactly(frame: Frame, known: Type, wanted: Type) -> bool | None:
    if isinstance(wanted, Inst) and wanted.cls in (float, complex):
        plain = widened(known)
        if isinstance(plain, Inst) and plain.cls in (int, bool):
            return False
    if isinstance(known, Inst) and isinstance(known.cls, ClassInfo) and known.cls.typed_dict:
        return isinstance(wanted, Inst) and wanted.cls is dict
    return frame.run.fits(known, wanted)


def _compared(frame: Frame, left: ast.expr, op: ast.cmpop, right: ast.expr, yes: State, no: State) -> bool | None:
    with frame.silent():
        mine, theirs = frame.value(left), frame.value(right)
    if isinstance(op, (ast.Is, ast.IsNot)) and theirs.type == NONE:
        if isinstance(op, ast.IsNot):
            yes, no = no, yes
        truth = _split(frame, left, yes, no, _is_none)
        return truth if truth is None or isinstance(op, ast.Is) else not truth
    if isinstance(op, (ast.Is, ast.Eq, ast.IsNot, ast.NotEq)) and (class_of(theirs.type) or _is_type_call(left)):
        return None
    if isinstance(op, (ast.Eq, ast.NotEq)) and isinstance(theirs.type, Lit):
        if isinstance(op, ast.NotEq):
            yes, no = no, yes
        wanted = theirs.type
        truth = _split(frame, left, yes, no, lambda each: _equals(each, wanted))
        return truth if truth is None or isinstance(op, ast.Eq) else not truth
    if isinstance(op, (ast.In, ast.NotIn)) and isinstance(mine.type, Lit):
        truth = _contains(mine.type, theirs.type)
        return truth if truth is None or isinstance(op, ast.In) else not truth
    return None


def _is_type_call(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type"


def _is_none(each: Type) -> bool | None:
    if each == NONE:
        return True
    return None if isinstance(each, Unknown) else False


def _equals(each: Type, wanted: Lit) -> bool | None:
    if isinstance(each, Lit):
        return each.value == wanted.value
    return False if each == NONE else None


def _contains(key: Lit, owner: Type) -> bool | None:
    if isinstance(owner, Shape):
        if any(name == key.value for name, _ in owner.items):
            return True
        return None if owner.open else False
    if isinstance(owner, Lit) and isinstance(owner.value, str) and isinstance(key.value, str):
        return key.value in owner.value
    return None


def refute(value: Value) -> Value:
    """Return a value nothing is known of any more but where it came from."""
    return replace(value, type=UNKNOWN)


__all__ = ["NEVER", "asks", "branches", "literal", "narrowed", "refute", "truthy"]
