"""What each kind of statement does to the names of a function."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from lumia.pkg.validate import use
from lumia.pkg.validate.cycles import stored
from lumia.pkg.validate.expr import assign, escape
from lumia.pkg.validate.follow import follow
from lumia.pkg.validate.frame import Frame, State, merged, uncertain
from lumia.pkg.validate.narrow import branches
from lumia.pkg.validate.types import (
    ANYTHING,
    UNKNOWN,
    Boxed,
    Class,
    ClassOf,
    Func,
    Inst,
    Marking,
    Ref,
    Shape,
    Unknown,
    Value,
    opened,
    widened,
)
from lumia.pkg.validate.world import Function, class_info, imported

_EXPECTED = frozenset({"OSError", "FileNotFoundError", "TimeoutError", "asyncio.TimeoutError", "asyncio.CancelledError",
                       "json.JSONDecodeError", "UnicodeDecodeError", "ConnectionError", "ImportError"})  # fmt: skip


def expression(frame: Frame, node: ast.Expr) -> None:
    frame.value(node.value)


def assignment(frame: Frame, node: ast.Assign) -> None:
    first = node.targets[0]
    frame.assigning = first.id if isinstance(first, ast.Name) else None
    value = frame.value(node.value)
    frame.assigning = None
    if not isinstance(value.type, Boxed):
        escape(frame, node.value)
        if isinstance(node.value, ast.Name):
            value = replace(value, type=opened(value.type))
    for target in node.targets:
        assign(frame, target, value)
        if isinstance(target, ast.Name) and target.id in frame.globals:
            _handed(frame, target, value)


def _handed(frame: Frame, target: ast.Name, value: Value) -> None:
    """A handler leaves a resource in a module's variable; one it opens only when there is none is a cache."""
    handling, function = frame.handling, frame.function
    if handling is None or function is None or function.node is not handling.handler.function.node or frame.quiet:
        return
    why = frame.run.live(value.type)
    tests = [each.test for each in ast.walk(function.node) if isinstance(each, (ast.If, ast.While, ast.IfExp))]
    if why and target.id not in names_in(tests):
        frame.run.handed.append((target.id, why, frame, target))


def annotated(frame: Frame, node: ast.AnnAssign) -> None:
    if node.value is None:
        if isinstance(node.target, ast.Name):
            frame.state.names[node.target.id] = Value(frame.notes.type(node.annotation))
        return
    value = frame.value(node.value)
    declared = frame.notes.type(node.annotation)
    if not isinstance(declared, Unknown):
        use.expected(frame, node, value, declared, f"the variable {ast.unparse(node.target)}")
        precise = isinstance(value.type, (Shape, Boxed)) or not isinstance(value.type, Unknown)
        fit = frame.run.fits(value.type, declared)
        if not precise or fit is False:
            value = value.tainted(declared, value.token)
    assign(frame, node.target, value)


def augmented(frame: Frame, node: ast.AugAssign) -> None:
    value = frame.value(node.value)
    load = ast.copy_location(_loading(node.target), node.target)
    before = frame.value(load)
    if isinstance(before.type, Shape) and isinstance(node.op, ast.BitOr):
        known = opened(before.type)
    else:
        known = use.binary(frame, node, node.op, before, value)
        if use.plain(known) in (list, dict, set):
            known = Inst(use.plain(known) or list)
    stored(frame, node, before, value)
    if isinstance(node.target, ast.Name):
        frame.state.names[node.target.id] = Value(known, before.origin | value.origin)


def _loading(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Name):
        return ast.Name(node.id, ast.Load())
    if isinstance(node, ast.Attribute):
        return ast.Attribute(node.value, node.attr, ast.Load())
    return ast.Subscript(node.value, node.slice, ast.Load()) if isinstance(node, ast.Subscript) else node


def returned(frame: Frame, node: ast.Return) -> None:
    value = frame.value(node.value) if node.value is not None else Value(Inst(type(None)))
    function = frame.function
    if node.value is not None and function is not None and not isinstance(value.type, Boxed):
        declared = frame.notes.type(function.returns)
        if not isinstance(declared, (Unknown, Boxed)):
            use.expected(frame, node, value, declared, f"{function.name}() returns, says its annotation, and that")
    frame.returns.append(value)
    frame.return_nodes.append((value, node))
    frame.state.dead = True


def ended(frame: Frame, node: ast.stmt) -> None:
    if isinstance(node, ast.Raise):
        if node.exc is not None:
            frame.value(node.exc)
    else:
        frame.breaks.append(frame.state.copy())
    frame.state.dead = True


def condition(frame: Frame, node: ast.If) -> None:
    yes, no = branches(frame, node.test)
    before = frame.state.guards
    frame.state = yes
    frame.run_body(node.body)
    yes = frame.state
    frame.state = no
    frame.run_body(node.orelse)
    frame.state = merged(yes, frame.state, before)


def loop(frame: Frame, node: ast.For | ast.AsyncFor) -> None:
    value = frame.value(node.iter)
    item = use.iterated(frame, node.iter, value) if isinstance(node, ast.For) else value.of(UNKNOWN)
    before = frame.state.copy()
    _head(frame, node, before, item)
    assign(frame, node.target, item)
    outer, frame.breaks = frame.breaks, []
    frame.run_body(node.body)
    _after_loop(frame, node, before, outer)


def repeated(frame: Frame, node: ast.While) -> None:
    before = frame.state.copy()
    _head(frame, node, before, None)
    outer, frame.breaks = frame.breaks, []
    yes, no = branches(frame, node.test)
    frame.state = yes
    if not yes.dead:
        frame.run_body(node.body)
    forever = no.dead and not any(isinstance(each, ast.Break) for each in ast.walk(node))
    _after_loop(frame, node, before, outer)
    if forever:
        frame.state.dead = True


def _head(frame: Frame, node: ast.For | ast.AsyncFor | ast.While, before: State, item: Value | None) -> None:
    """What the body changes may have been changed by the turn before: read it once, silently, to see."""
    changed = _changed(node)
    if not changed & before.names.keys():
        return
    with frame.silent():
        frame.state = before.copy()
        if item is not None and isinstance(node, (ast.For, ast.AsyncFor)):
            assign(frame, node.target, item)
        returns, nodes, breaks = len(frame.returns), len(frame.return_nodes), len(frame.breaks)
        frame.run_body(node.body)
        del frame.returns[returns:], frame.return_nodes[nodes:], frame.breaks[breaks:]
    after = frame.state
    frame.state = before.copy()
    for name in changed & before.names.keys():
        mine, theirs = before.names[name], after.names.get(name, ANYTHING)
        if after.dead or widened(mine.type) != widened(theirs.type):
            loose = mine.type if isinstance(mine.type, Shape) else UNKNOWN
            frame.state.names[name] = Value(opened(loose), mine.origin | theirs.origin)
        else:
            frame.state.names[name] = replace(mine, type=widened(mine.type))


@cache
def _changed(node: ast.AST) -> set[str]:
    names: set[str] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, (ast.Store, ast.Del)):
            names.add(each.id)
        elif isinstance(each, (ast.Subscript, ast.Attribute)) and isinstance(each.value, ast.Name):
            names.add(each.value.id)
    return names


def _after_loop(frame: Frame, node: ast.For | ast.AsyncFor | ast.While, before: State, outer: list[State]) -> None:
    result = before.copy()
    for state in (frame.state, *frame.breaks):
        if not (state is frame.state and state.dead):
            result = merged(result, State(state.names, state.guards, False, state.paths), before.guards)
    frame.state, frame.breaks = result, outer
    uncertain(frame.state)
    frame.run_body(node.orelse)


def guarded(frame: Frame, node: ast.Try) -> None:
    before = frame.state.copy()
    careful = any(not _expected(frame, each) for each in node.handlers)
    frame.caught += careful
    frame.run_body(node.body)
    frame.caught -= careful
    done = frame.state
    start = State({**before.names}, before.guards)
    for name in _changed(node):
        start.names[name] = ANYTHING
    ends: list[State] = []
    for each in node.handlers:
        frame.state = start.copy()
        if each.name:
            frame.state.names[each.name] = ANYTHING
        frame.run_body(each.body)
        ends.append(frame.state)
    frame.state = done
    frame.run_body(node.orelse)
    result = frame.state
    for state in ends:
        result = merged(result, state, before.guards)
    frame.state = result
    if node.finalbody:
        dead = frame.state.dead
        frame.state.dead = False
        frame.run_body(node.finalbody)
        frame.state.dead = frame.state.dead or dead


def _expected(frame: Frame, node: ast.ExceptHandler) -> bool:
    """Tell whether an except clause is about something else than wrong content."""
    if node.type is None:
        return False
    each = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    return all(ast.unparse(one) in _EXPECTED for one in each)


def context(frame: Frame, node: ast.With | ast.AsyncWith) -> None:
    opened_here: list[int] = []
    careful = 0
    for item in node.items:
        value = frame.value(item.context_expr)
        if isinstance(item.context_expr, ast.Call) and frame.notes.library_name(item.context_expr.func) in (
            "contextlib.suppress", "pytest.raises",
        ):  # fmt: skip
            careful += 1
        closes = frame.run.live(value.type) is not None and not isinstance(value.type, Boxed)
        if item.optional_vars is not None:
            assign(frame, item.optional_vars, value if closes else _entered(frame, value))
        if closes and value.token:
            opened_here.append(value.token)
    frame.open += opened_here
    frame.caught += careful
    frame.run_body(node.body)
    frame.caught -= careful
    for token in opened_here:
        frame.open.remove(token)


def _entered(frame: Frame, value: Value) -> Value:
    from lumia.pkg.validate.classes import ClassInfo

    known = value.type
    if isinstance(known, Inst) and isinstance(known.cls, ClassInfo):
        enter = known.cls.method("__enter__")
        if enter is not None:
            with frame.silent():
                return follow(frame, enter, [value], {}, None)
    return value.tainted(UNKNOWN)


def matched(frame: Frame, node: ast.Match) -> None:
    subject = frame.value(node.subject)
    before = frame.state
    asked = frozenset(abs(number) for number in subject.origin)
    ends: list[State] = []
    for case in node.cases:
        frame.state = before.copy()
        frame.state.guards |= asked
        uncertain(frame.state)
        for each in ast.walk(case.pattern):
            if isinstance(each, (ast.MatchAs, ast.MatchStar)) and each.name:
                frame.state.names[each.name] = subject.tainted(UNKNOWN)
            if isinstance(each, ast.MatchMapping) and each.rest:
                frame.state.names[each.rest] = subject.tainted(UNKNOWN)
        if case.guard is not None:
            frame.value(case.guard)
        frame.run_body(case.body)
        ends.append(frame.state)
    result = before.copy()
    whole = any(isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None and case.guard is None
                for case in node.cases)  # fmt: skip
    result.dead = whole
    for state in ends:
        result = merged(result, state, before.guards | asked)
    frame.state = result


def asserted(frame: Frame, node: ast.Assert) -> None:
    yes, _ = branches(frame, node.test)
    if yes.dead:
        _refused(frame, node)
        yes.dead = True
    frame.state = yes


def _refused(frame: Frame, node: ast.Assert) -> None:
    test = node.test
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id == "isinstance":
        with frame.silent():
            value = frame.value(test.args[0])
        use.complain(frame, node, value, f"`{ast.unparse(test)[:60]}` never holds")


def defined(frame: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    outer = None
    if frame.function is not None:
        outer = {**(frame.function.outer or {}), **frame.state.names}
        function = Function(node.name, node, frame.module, None, outer)
        outer[node.name] = Value(Func(function))
    else:
        function = frame.module.functions.get(node.name) or Function(node.name, node, frame.module)
        if function.node is not node:
            function = Function(node.name, node, frame.module)
    value = Value(Func(function), token=frame.run.token())
    from lumia.pkg.validate.boxes import marked
    from lumia.pkg.validate.flow import register_resident

    for each in reversed(node.decorator_list):
        with frame.silent():
            mark = frame.value(each)
        if isinstance(mark.type, Marking):
            marked(frame, mark.type, [value])
        elif mark.type == Ref("lumia.web.resident"):
            register_resident(frame.run, function)
    frame.state.names[node.name] = value


def class_defined(frame: Frame, node: ast.ClassDef) -> None:
    info = frame.module.classes.get(node.name) if frame.function is None else None
    if info is None or info.node is not node:
        info = class_info(frame.module, node, local=frame.function is not None)
        info.bases = tuple(_base(frame, each) for each in node.bases)
        info.decorators = tuple(frame.run.world.dotted(frame.module, one) or "?" for one in node.decorator_list)
    if any(frame.notes.library_name(base) == "lumia.Box" for base in node.bases):
        text = "nothing can inherit from Box: put the data into a class of its own and box that"
        frame.report("LUM105", node, text)
    frame.state.names[node.name] = Value(ClassOf(info))


def _base(frame: Frame, node: ast.expr) -> Class | None:
    from lumia.pkg.validate.classes import class_of

    if isinstance(node, ast.Subscript):
        node = node.value
    with frame.silent():
        found = frame.value(node).type
    return class_of(found) if isinstance(found, (ClassOf, Ref)) else None


def brought(frame: Frame, node: ast.Import | ast.ImportFrom) -> None:
    for name, target in imported(frame.module, node):
        if frame.function is None:
            frame.state.names.pop(name, None)
            continue
        found = frame.run.world.settled(target)
        from lumia.pkg.validate.frame import static_value

        if isinstance(found, ast.expr) and isinstance(target, Ref):
            alias = name if name in frame.module.imports else ""
            frame.state.names[name] = frame.lookup(alias) if alias else ANYTHING
            continue
        frame.state.names[name] = static_value(frame.run, found) if not isinstance(found, ast.expr) else ANYTHING


def removed(frame: Frame, node: ast.Delete) -> None:
    for each in node.targets:
        if isinstance(each, ast.Name):
            frame.state.names[each.id] = ANYTHING
        elif isinstance(each, ast.Subscript) and isinstance(each.value, ast.Name):
            escape(frame, each.value)


def shared(frame: Frame, node: ast.Global | ast.Nonlocal) -> None:
    if isinstance(node, ast.Global):
        frame.globals |= set(node.names)
    for name in node.names:
        frame.state.names[name] = ANYTHING


Frame.executors = {
    ast.Expr: expression, ast.Assign: assignment, ast.AnnAssign: annotated, ast.AugAssign: augmented,
    ast.Return: returned, ast.Raise: ended, ast.Break: ended, ast.Continue: ended, ast.If: condition, ast.For: loop,
    ast.AsyncFor: loop, ast.While: repeated, ast.Try: guarded, ast.TryStar: guarded, ast.With: context,
    ast.AsyncWith: context, ast.Match: matched, ast.Assert: asserted, ast.FunctionDef: defined,
    ast.AsyncFunctionDef: defined, ast.ClassDef: class_defined, ast.Import: brought, ast.ImportFrom: brought,
    ast.Delete: removed, ast.Global: shared, ast.Nonlocal: shared,
}  # fmt: skip


def names_in(nodes: Iterable[ast.AST]) -> set[str]:
    """Return every name that appears in these nodes."""
    return {each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)}
