"""What the loader would refuse about marks: asked of its own rules, with a stand-in of each function (spec §4.3).

A stand-in has the parameters of the real function and no body, default or annotation of it, so no code of the plugin
is executed; the decorator that marks it is Lumia's own, given the constants the plugin gives it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lumia
from lumia import marks
from lumia.errors import LumiaError
from lumia.manifest import MANIFEST_FILE, Manifest, hyphenated
from lumia.marks import HANDLER_KINDS
from lumia.pkg.validate.annotate import Annotations
from lumia.pkg.validate.finding import Finding, finding
from lumia.pkg.validate.fits import describe
from lumia.pkg.validate.flow import Handler
from lumia.pkg.validate.frame import Run, parameters
from lumia.pkg.validate.package import line_of
from lumia.pkg.validate.types import Boxed, Inst, Lit, Shape
from lumia.pkg.validate.world import Package

_DECORATORS: dict[tuple[str, bool], Callable[..., Any]] = {
    ("pipe", False): lumia.pipe.on, ("pipe", True): lumia.pipe.on_re,
    ("consumer", False): lumia.event.consumer, ("consumer", True): lumia.event.consumer_re,
    ("chain", False): lumia.event.chain, ("chain", True): lumia.event.chain_re,
    ("interceptor", False): lumia.event.interceptor, ("interceptor", True): lumia.event.interceptor_re,
    ("cron", False): lumia.cron, ("command", False): lumia.command, ("route", False): lumia.web.route,
    ("websocket", False): lumia.web.websocket,
}  # fmt: skip


def check_marks(run: Run, own: Package, manifest: Manifest | None, folder: Path) -> list[Finding]:
    """Return what is wrong with the marks of a plugin."""
    mine = [each for each in run.handlers if each.function.module.package is own]
    found = [one for handler in mine for one in _one(run, handler)]
    found += _clashes(mine)
    found += _handed(run, own, mine)
    return [*found, *(_against(mine, manifest, folder) if manifest is not None else ())]


def _one(run: Run, handler: Handler) -> Iterator[Finding]:
    function, file = handler.function, handler.function.module.file
    if isinstance(function.node, ast.Lambda):
        text = f"{handler.kind} {handler.id_text!r} marks a lambda; write a named `def`"
        yield finding("LUM302", file, function.node.lineno, text)
        return
    if handler.odd or function.cls is not None:
        return
    yield from _annotations(run, handler)
    make = _DECORATORS.get((handler.kind, handler.marking.glob))
    try:
        arguments = _constants(run, handler)
        stand_in = _stand_in(function.node)
        if handler.kind == "resident":
            lumia.web.resident(stand_in)
            marks.verify(marks.marks_on(stand_in)[0], stand_in, hyphenated(function.module.package.name))
        elif make is not None:
            _verified(make, arguments, stand_in, handler)
    except (LumiaError, TypeError) as error:
        node = handler.marking.call
        rule = "LUM301" if _about_signature(str(error)) else "LUM302"
        at = function.node.lineno if rule == "LUM301" else node.lineno
        text = str(error) if isinstance(error, LumiaError) else f"{handler.kind}: {error}"
        yield finding(rule, file, at, text)


def _verified(make: Callable[..., Any], arguments: tuple[list[Any], dict[str, Any]], fn: Any, handler: Handler) -> None:
    make(*arguments[0], **arguments[1])(fn)
    marks.verify(marks.marks_on(fn)[-1], fn, hyphenated(handler.function.module.package.name))


def _about_signature(text: str) -> bool:
    return any(word in text for word in ("parameter", "`yield`", "async def"))


def _constants(run: Run, handler: Handler) -> tuple[list[Any], dict[str, Any]]:
    """Return what the decorator is given, with something harmless for what isn't a constant."""
    call = handler.marking.call
    harmless: dict[str, Any] = {
        "priv": 0,
        "id": "x",
        "glob": "x*",
        "expression": "* * * * *",
        "path": "/x",
        "name": "x",
    }
    places = {"pipe": ["id", "priv"], "cron": ["expression"], "route": ["path", "methods"], "websocket": ["path"]}
    names = places.get(handler.kind, ["name"] if handler.kind == "command" else ["id", "priv"])
    positional: list[Any] = []
    for index, node in enumerate(call.args):
        known, value = _constant(run, handler, node)
        name = names[index] if index < len(names) else ""
        if not known and name == "methods":
            break
        positional.append(value if known else harmless.get(name))
    named = {}
    for each in call.keywords:
        known, value = _constant(run, handler, each.value)
        if each.arg is not None and (known or each.arg in harmless):
            named[each.arg] = value if known else harmless[each.arg]
    return positional, named


def _constant(run: Run, handler: Handler, node: ast.expr) -> tuple[bool, Any]:
    try:
        return True, ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        pass
    module = handler.function.module
    if isinstance(node, ast.Call) and run.world.dotted(module, node) in ("lumia.Retry", "lumia.Rate"):
        try:
            args = [ast.literal_eval(each) for each in node.args]
            named = {each.arg: ast.literal_eval(each.value) for each in node.keywords if each.arg}
        except (ValueError, TypeError):
            return False, None
        return True, lumia.Retry(*args, **named)
    known = run.world.find(module, node)
    if isinstance(known, ast.Constant):
        return True, known.value
    return False, None


def _stand_in(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Any:
    """Return a function with the same name and parameters that does nothing."""
    args = node.args
    bare = ast.arguments(
        posonlyargs=[ast.arg(each.arg) for each in args.posonlyargs],
        args=[ast.arg(each.arg) for each in args.args],
        vararg=ast.arg(args.vararg.arg) if args.vararg else None,
        kwonlyargs=[ast.arg(each.arg) for each in args.kwonlyargs],
        kw_defaults=[None if each is None else ast.Constant(None) for each in args.kw_defaults],
        kwarg=ast.arg(args.kwarg.arg) if args.kwarg else None,
        defaults=[ast.Constant(None) for _ in args.defaults],
    )
    from lumia.pkg.validate.follow import is_generator

    body: list[ast.stmt] = [ast.Expr(ast.Yield())] if is_generator(node) else [ast.Pass()]
    make = type(node)(name=node.name, args=bare, body=body, decorator_list=[], returns=None, type_comment=None)
    tree = ast.fix_missing_locations(ast.Module([make], []))
    scope: dict[str, Any] = {"__name__": "stand_in"}
    exec(compile(tree, "<stand-in>", "exec"), scope)  # parameter names only, see above
    return scope[node.name]


def _annotations(run: Run, handler: Handler) -> Iterator[Finding]:
    if handler.kind not in HANDLER_KINDS or isinstance(handler.function.node, ast.Lambda):
        return
    notes, file = Annotations(run.world, handler.function.module), handler.function.module.file
    names = parameters(handler.function.node)
    wanted = names[1:2] if handler.marking.glob else names[:1]
    for arg in wanted:
        if arg.annotation is None:
            continue
        known = notes.type(arg.annotation)
        why = run.live(known)
        line = arg.annotation.lineno
        if why:
            text = f"{handler.name} takes a bare live resource ({why}); a handler gets a Box: `{arg.arg}: lumia.Box`"
            yield finding("LUM201", file, line, text)
        elif isinstance(known, (Inst, Shape, Lit)):
            text = f"{handler.name} declares a bare {describe(known)}; a handler gets a Box: `{arg.arg}: lumia.Box[…]`"
            yield finding("LUM301", file, line, text)
        lost = next(notes.unresolved(arg.annotation), None)
        if lost is not None:
            text = f"{lost!r} is imported for type checkers only, so into() can't check it; import it for real"
            yield finding("LUM103", file, line, text)
        elif isinstance(known, Boxed) and _unchecked(known):
            text = f"Box[{describe(known.content.type)}] is a plain protocol: mark it with @typing.runtime_checkable"
            yield finding("LUM103", file, line, text)


def _unchecked(known: Boxed) -> bool:
    from lumia.pkg.validate.classes import ClassInfo

    declared = known.content.type
    if not isinstance(declared, Inst) or not isinstance(declared.cls, ClassInfo) or not declared.cls.protocol:
        return False
    return not any(name.endswith("runtime_checkable") for name in declared.cls.decorators)


def _clashes(mine: list[Handler]) -> Iterator[Finding]:
    names: dict[str, Handler] = {}
    placed: set[tuple[str, str, str, bool]] = set()
    for handler in mine:
        function, id = handler.function, handler.marking.id
        other = names.setdefault(function.name, handler)
        if other.function.node is not function.node and not isinstance(function.node, ast.Lambda):
            at = f"{other.function.module.file}:{other.line}"
            text = f"two functions are named {handler.name}, the other one at {at}; rename one"
            yield finding("LUM303", function.module.file, handler.line, text)
        if not isinstance(id, Lit):
            continue
        place = (function.name, handler.kind, str(id.value), handler.marking.glob)
        if place in placed and other.function.node is function.node:
            text = f"{handler.name} has the mark {handler.kind} {handler.id_text!r} twice; remove one"
            yield finding("LUM303", function.module.file, handler.marking.call.lineno, text)
        placed.add(place)


def _handed(run: Run, own: Package, mine: list[Handler]) -> Iterator[Finding]:
    """A live resource that one handler leaves in a variable and another one takes: it may run in another process."""
    for name, why, frame, node in run.handed:
        if frame.module.package is not own or frame.function is None:
            continue
        takers = [
            each
            for each in mine
            if each.function.module is frame.module
            and each.function.node is not frame.function.node
            and _takes(each.function.node, name)
        ]
        if takers:
            text = (
                f"{takers[0].name} finds this live resource ({why}) in {name!r} only when it runs in the same process: "
                "hand it on in a Box, or open it where it is needed"
            )
            yield finding("LUM201", frame.module.file, getattr(node, "lineno", 1), text)


def _takes(node: ast.AST, name: str) -> bool:
    names = [each for each in ast.walk(node) if isinstance(each, ast.Name) and each.id == name]
    tests = [each.test for each in ast.walk(node) if isinstance(each, (ast.If, ast.While, ast.IfExp))]
    asked = {each.id for test in tests for each in ast.walk(test) if isinstance(each, ast.Name)}
    return bool(names) and all(isinstance(each.ctx, ast.Load) for each in names) and name not in asked


def _against(mine: list[Handler], manifest: Manifest, folder: Path) -> Iterator[Finding]:
    for handler in mine:
        name, file, line = handler.function.name, handler.function.module.file, handler.line
        known = isinstance(handler.marking.id, Lit)
        if handler.kind == "command" and known and handler.id_text not in manifest.commands:
            text = (
                f"{name} is the command {handler.id_text!r}, which the manifest doesn't list; add "
                f'"commands": {{"{handler.id_text}": "one line of help"}}'
            )
            yield finding("LUM305", file, line, text)
        if handler.kind in ("route", "websocket", "resident") and not manifest.gateway:
            does = "is a resident" if handler.kind == "resident" else f"serves {handler.id_text}"
            text = f'{name} {does}, but the gateway doesn\'t load this plugin; add "gateway": true to its manifest'
            yield finding("LUM305", file, line, text)
    commands = [each for each in mine if each.kind == "command"]
    if manifest.closed_source or any(not isinstance(each.marking.id, Lit) for each in commands):
        return
    marked = {each.id_text for each in commands}
    for listed in manifest.commands:
        if listed not in marked and not listed.endswith(" *"):
            text = f"the manifest lists the command {listed!r}, but no function is marked @lumia.command({listed!r})"
            yield finding("LUM305", MANIFEST_FILE, line_of(folder, f'"{listed}"'), f"{text}; mark one, or remove it")
