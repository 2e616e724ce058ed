"""What Lumia's own calls do with values: boxes, starts, marks, the words of a handler."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import replace

from lumia.marks import HANDLER_KINDS
from lumia.pkg.validate import use
from lumia.pkg.validate.classes import ClassInfo
from lumia.pkg.validate.fits import describe, not_json
from lumia.pkg.validate.frame import Frame, Site
from lumia.pkg.validate.types import (
    ANYTHING,
    NONE,
    STR,
    UNKNOWN,
    Boxed,
    ClassOf,
    Func,
    Inst,
    Lit,
    Marking,
    Ref,
    Shape,
    Text,
    Type,
    Union,
    Unknown,
    Value,
)
from lumia.pkg.validate.world import Function

_MARKS = {
    "lumia.pipe.on": ("pipe", False), "lumia.pipe.on_re": ("pipe", True),
    "lumia.event.consumer": ("consumer", False), "lumia.event.consumer_re": ("consumer", True),
    "lumia.event.chain": ("chain", False), "lumia.event.chain_re": ("chain", True),
    "lumia.event.interceptor": ("interceptor", False), "lumia.event.interceptor_re": ("interceptor", True),
    "lumia.cron": ("cron", False), "lumia.command": ("command", False), "lumia.web.route": ("route", False),
    "lumia.web.websocket": ("websocket", False), "lumia.checks.check": ("check", False),
    "lumia.mcp.tool": ("tool", False),
}  # fmt: skip
_SERIALISERS = frozenset({"dill.dumps", "pickle.dumps", "dill.dump", "pickle.dump", "json.dumps", "json.dump",
                          "copy.deepcopy", "marshal.dumps", "cloudpickle.dumps"})  # fmt: skip
Args = list[Value]
Named = Mapping[str, Value]


def api(frame: Frame, node: ast.Call, name: str, args: Args, named: Named) -> Value | None:
    """Return what a call of Lumia's gives, None when it is nothing special."""
    if name in _MARKS:
        return _marking(frame, node, name, args, named)
    if name in _SERIALISERS and args:
        _check_serialised(frame, node, name, args[0])
        return None
    if not name.startswith("lumia."):
        return None
    special = _CALLS.get(name)
    return special(frame, node, args, named) if special is not None else None


def pick(args: Args, named: Named, at: int, name: str) -> Value | None:
    """Return an argument given by place or by name."""
    return args[at] if len(args) > at else named.get(name)


def _made(frame: Frame, node: ast.Call, args: Args, named: Named) -> Value:
    value = pick(args, named, 0, "value")
    if value is None:
        return ANYTHING
    if isinstance(value.type, Boxed):
        frame.report(
            "LUM105", node, "this is a Box already: pass it on as it is, clone() it, or box what into() returns"
        )
        return value
    meta = named.get("meta")
    wrong = not_json(meta.type, exact=True) if meta is not None else None
    if meta is not None and (wrong or use.plain_of(meta.type) not in (None, dict, type(None))):
        text = f"it holds a {wrong}" if wrong else f"it is a {describe(meta.type)}"
        frame.report("LUM106", node, f"meta of a Box is a dict of JSON values: {text}; put it into the content")
    site = frame.run.site(
        Site(frame.module, node.lineno, f"a {describe(value.type)} is boxed here", node.col_offset + 1)
    )
    given = named.get("destructor")
    content = Value(value.type, frozenset({site}), value.token)
    box = Boxed(content, value.token, meta.type if meta else UNKNOWN, given is not None and given.type != NONE)
    if given is not None:
        from lumia.pkg.validate.cycles import check_destructor

        check_destructor(frame, node, box)
    return Value(box, token=frame.run.token())


def _called_box(frame: Frame, node: ast.Call, args: Args, named: Named) -> Value:
    frame.report("LUM105", node, "Box(…) is not how a Box is made: write lumia.Box.any(value)")
    return ANYTHING


def _loaded(frame: Frame, node: ast.Call, args: Args, named: Named) -> Value:
    return Value(Boxed(ANYTHING))


def method(frame: Frame, node: ast.Call, owner: Value, name: str, args: Args) -> Value:
    """Return what a method of a Box gives."""
    box = owner.type
    assert isinstance(box, Boxed)
    if name == "into":
        return _opened(frame, node, box)
    if name == "clone":
        return Value(box, owner.origin, owner.token)
    if name == "expecting":
        return owner
    if name == "inner_type":
        return box.content.of(UNKNOWN)
    if name == "dump":
        if is_live(frame, box):
            frame.report(
                "LUM203", node, "a Box of a live resource can't be written down: send what is needed to open it"
            )
        return Value(STR)
    if name in ("drop", "any", "load"):
        return ANYTHING
    frame.report("LUM105", node, f"a Box has no {name}(): into() returns what it holds, meta is what travels beside it")
    return ANYTHING


def _opened(frame: Frame, node: ast.Call, box: Boxed) -> Value:
    content = box.content
    handling = frame.handling
    if handling is None or box.content != handling.incoming or handling.handler.declared is None:
        return content
    declared = handling.handler.declared
    if frame.run.fits(content.type, declared) is False:
        number = next(iter(content.origin), 0)
        site = frame.run.sites[abs(number)]
        _mismatch(frame, node, site, content, declared)
        return content.tainted(declared)
    return content if not isinstance(content.type, Unknown) else content.tainted(declared)


def _mismatch(frame: Frame, node: ast.Call, site: Site, content: Value, declared: Type) -> None:
    handling = frame.handling
    assert handling is not None
    handler = handling.handler
    if frame.quiet or frame.caught or frame.state.guards & {abs(number) for number in content.origin}:
        return
    said = f"{handler.name} declares Box[{describe(declared)}] for {handling.id or handler.id_text!r}"
    way = "box what the handler declares, or change its annotation"
    here = Site(handler.function.module, handler.line, f"{handler.name} declares Box[{describe(declared)}]")
    if site.module is not None and site.module.package.own:
        message = f"this Box holds a {describe(content.type)}, but {said}; {way}"
        frame.note("LUM101", site.module, site.line, site.column, message, [here])
    elif frame.module.package.own:
        message = f"{said}, but gets a {describe(content.type)} {_from(site)}; {way}"
        frame.note("LUM101", handler.function.module, handler.line, 1, message, [site] if site.module else [])


def _from(site: Site) -> str:
    return site.text if site.module is None else f"from {site.module.package.name}"


def is_live(frame: Frame, box: Boxed) -> str | None:
    """Return why a Box holds a live resource, None when it doesn't for sure."""
    return frame.run.live(box.content.type) or ("a value with a destructor" if box.destructor else None)


def _flow(flow: str) -> Callable[[Frame, ast.Call, Args, Named], Value]:
    def start(frame: Frame, node: ast.Call, args: Args, named: Named) -> Value:
        content = pick(args, named, 1, "content")
        target = pick(args, named, 0, "id")
        starred = any(isinstance(each, ast.Starred) for each in node.args) or "**" in named
        if starred or content is None or target is None:
            return Value(STR)
        if check_box(frame, node, content, f"{flow}.start()"):
            _begin(frame, node, flow, target, content, named)
        for each in node.keywords:
            if each.arg == "also" and isinstance(each.value, (ast.List, ast.Tuple)):
                for pair in each.value.elts:
                    if isinstance(pair, ast.Tuple) and len(pair.elts) == 2:
                        name, box = frame.value(pair.elts[0]), frame.value(pair.elts[1])
                        if check_box(frame, node, box, "also="):
                            _begin(frame, node, "event", name, box, {})
        return Value(STR)

    return start


_WAITS = {"rate": None, "cap": None, "collect": 0, "max_age": 0, "max_wait": 0, "delay": 0}


def _begin(frame: Frame, node: ast.Call, flow: str, target: Value, content: Value, named: Named) -> None:
    if isinstance(content.type, Boxed):
        why = is_live(frame, content.type)
        if why:
            _check_stays(frame, node, content.type, why, named)
            _check_open(frame, node, content.type, why)
        if not frame.quiet:
            frame.run.started.append((flow, target.type, content, frame, node))


def _check_stays(frame: Frame, node: ast.Call, box: Boxed, why: str, named: Named) -> None:
    for option, nothing in _WAITS.items():
        given = named.get(option)
        sure = given is not None and (
            isinstance(given.type, Lit) or (option == "rate" and isinstance(given.type, Inst))
        )
        if given is not None and sure and given.type not in (NONE, Lit(0), Lit(0.0)) and not (
            isinstance(given.type, Lit) and given.type.value == nothing
        ):  # fmt: skip
            text = f"this Box holds a live resource ({why}), whose run is executed here and now; leave out {option}"
            frame.report("LUM203", node, text)
    queue, dedup = named.get("queue"), named.get("dedup")
    if queue is not None and isinstance(queue.type, Lit) and queue.type.value != "default":
        text = f"this Box holds a live resource ({why}), which can't leave its process; leave out queue"
        frame.report("LUM203", node, text)
    if dedup is not None and isinstance(dedup.type, Lit) and dedup.type.value and _in_step(frame):
        text = f"this Box holds a live resource ({why}), whose run can't be a duplicate; leave out dedup"
        frame.report("LUM203", node, text)


def _in_step(frame: Frame) -> bool:
    return frame.handling is not None


def _check_open(frame: Frame, node: ast.Call, box: Boxed, why: str) -> None:
    if not _in_step(frame):
        return
    if box.subject and box.subject in frame.open:
        text = f"the {why} in this Box is closed when the `with` ends, and the run begins after that; leave out `with`"
        frame.report("LUM204", node, f"{text}: the last Box closes it")
    if frame.handling is not None and box.subject:
        frame.handling.started.add(box.subject)


def closed(frame: Frame, node: ast.Call, owner: Value) -> None:
    """Note that a resource is closed: not before the run it was boxed for has begun."""
    if frame.handling is not None and owner.token and owner.token in frame.handling.started:
        text = "this resource was handed on in a Box, and its run begins when this handler has returned; don't close it"
        frame.report("LUM204", node, f"{text}: the last Box does")


def check_box(frame: Frame, node: ast.AST, value: Value, where: str) -> bool:
    """Check that a value that is passed on is a Box; False when it surely is none."""
    known = value.type
    if isinstance(known, Union) and all(_bare(each) for each in known.members):
        known = known.members[0]
    if not _bare(known):
        return isinstance(known, (Boxed, Unknown))
    why = frame.run.live(known)
    if why:
        text = f"{where} takes a Box, got a bare live resource ({why}): write lumia.Box.any(…), the last Box closes it"
        frame.report("LUM201", node, text)
    else:
        frame.report("LUM104", node, f"{where} takes a Box, got a bare {describe(known)}: write lumia.Box.any(…)")
    return False


def _bare(known: Type) -> bool:
    return isinstance(known, (Lit, Shape, ClassOf, Text)) or (isinstance(known, Inst) and not _boxlike(known))


def _boxlike(known: Inst) -> bool:
    from types import CoroutineType

    return known.cls is CoroutineType or (isinstance(known.cls, ClassInfo) and not known.cls.known)


def check_direct(frame: Frame, node: ast.Call, function: Function, args: Args) -> None:
    """A handler that is called like a function gets a Box, too."""
    kinds = {each.kind for each in frame.run.handlers if each.function is function} & HANDLER_KINDS
    if kinds and args and not any(isinstance(each, ast.Starred) for each in node.args):
        check_box(frame, node, args[-1], f"the handler {function.name}()")


def _next(frame: Frame, node: ast.Call, args: Args, named: Named) -> Value:
    box = pick(args, named, 0, "box")
    given = box is not None and box.type != NONE
    if given and box is not None:
        check_box(frame, node, box, "next()")
        if isinstance(box.type, Boxed):
            why = is_live(frame, box.type)
            if why:
                _check_open(frame, node, box.type, why)
                _check_stays(frame, node, box.type, why, {key: named[key] for key in named if key == "delay"})
    _word(frame, node, "next()", "pipe")
    if frame.handling is not None and not frame.quiet:
        frame.handling.went.append(box if given else None)
    return Value(NONE)


def _word(frame: Frame, node: ast.Call, word: str, kind: str) -> None:
    handling = frame.handling
    if handling is None or handling.handler.kind == kind or len(handling.handler.kinds) > 1:
        return
    way = {
        "next()": "next() belongs to pipelines; events always go on, a chain changes the content by returning a Box",
        "stop()": "only a pipeline can be stopped",
        "intercept()": "only an interceptor can block an event",
    }[word]
    handler = handling.handler
    frame.report("LUM304", node, f"{handler.name} is a {handler.kind}: {way}")


def _stop(frame: Frame, node: ast.Call, args: Args, named: Named) -> Value:
    _word(frame, node, "stop()", "pipe")
    return Value(NONE)


def _intercept(frame: Frame, node: ast.Call, args: Args, named: Named) -> Value:
    _word(frame, node, "intercept()", "interceptor")
    return Value(NONE)


def _check_serialised(frame: Frame, node: ast.Call, name: str, value: Value) -> None:
    why = frame.run.live(value.type)
    if why:
        text = f"{name}() of a live resource ({why}): a copy of it works nowhere; hand it on in a Box, lumia.Box.any(…)"
        frame.report("LUM205", node, text)


def _stored(at: int, name: str) -> Callable[[Frame, ast.Call, Args, Named], Value | None]:
    def store(frame: Frame, node: ast.Call, args: Args, named: Named) -> Value | None:
        value = pick(args, named, at, name)
        if value is None:
            return None
        why = frame.run.live(value.type)
        wrong = not_json(value.type, exact=False)
        if why:
            frame.report(
                "LUM205", node, f"the store keeps JSON values, not a live resource ({why}); hand it on in a Box"
            )
        elif wrong:
            frame.report(
                "LUM107", node, f"the store keeps JSON values, not a {wrong}; write it as text, numbers, lists"
            )
        return None

    return store


def _service(frame: Frame, node: ast.Call, args: Args, named: Named) -> Value:
    wanted = pick(args, named, 1, "type")
    return Value(Inst(wanted.type.cls, wanted.type.args)) if wanted and isinstance(wanted.type, ClassOf) else ANYTHING


def _provided(frame: Frame, node: ast.Call, args: Args, named: Named) -> Value:
    name = pick(args, named, 0, "name")
    if name is not None and isinstance(name.type, Lit) and not frame.quiet:
        frame.run.provided.append((str(name.type.value), frame, node))
    return Value(NONE)


def _settings(frame: Frame, node: ast.Call, args: Args, named: Named) -> Value:
    name = pick(args, named, 0, "plugin")
    known = name.type if name is not None else UNKNOWN
    return Value(Ref("@settings:" + str(known.value))) if isinstance(known, Lit) else ANYTHING


def _resource(frame: Frame, node: ast.Call, args: Args, named: Named) -> Value:
    if args and isinstance(args[0].type, ClassOf) and isinstance(args[0].type.cls, ClassInfo):
        info = args[0].type.cls
        info.decorators = (*info.decorators, "lumia.resource")
    return args[0] if args else ANYTHING


def _effect(frame: Frame, node: ast.Call, args: Args, named: Named) -> Value:
    """lumia.effect(key, call, *args): what the call returns; an async one gives a coroutine."""
    from lumia.pkg.validate.follow import follow

    call = pick(args, named, 1, "call")
    if call is None or not isinstance(call.type, Func):
        return ANYTHING
    rest = {name: value for name, value in named.items() if name not in ("key", "call", "policy", "kind", "timeout")}
    owner = [call.type.owner] if call.type.owner is not None else []
    found = follow(frame, call.type.function, [*owner, *args[2:]], rest, None)
    return replace(found, type=found.type)


def _marking(frame: Frame, node: ast.Call, name: str, args: Args, named: Named) -> Value:
    kind, glob = _MARKS[name]
    id = pick(args, named, 0, "glob" if glob else "id")
    if kind == "tool":
        server, tool = pick(args, named, 0, "server"), pick(args, named, 1, "name")
        id = Value(UNKNOWN) if server is None or tool is None else id
    elif kind in ("command", "check"):
        id = pick(args, named, 0, "name")
    elif kind in ("route", "websocket"):
        id = pick(args, named, 0, "path")
    elif kind == "cron":
        id = pick(args, named, 0, "expression")
    priv = pick(args, named, 1, "priv") if kind in ("pipe", "consumer", "chain", "interceptor") else None
    queue = named.get("queue")
    return Value(
        Marking(
            kind, node, id.type if id else UNKNOWN, glob, priv.type if priv else Lit(0),
            queue.type if queue and queue.type != NONE else Lit("default"),
        )
    )  # fmt: skip


def marked(frame: Frame, marking: Marking, args: Args) -> Value:
    """A decorator is applied to a function."""
    from lumia.pkg.validate.flow import register

    if args and isinstance(args[0].type, Func):
        register(frame.run, marking, args[0].type.function)
    return args[0] if args else ANYTHING


_CALLS: dict[str, Callable[[Frame, ast.Call, Args, Named], Value | None]] = {
    "lumia.Box.any": _made, "lumia.Box": _called_box, "lumia.Box.load": _loaded,
    "lumia.event.start": _flow("event"), "lumia.pipe.start": _flow("pipe"), "lumia.event.ask": _flow("event"),
    "lumia.pipe.ask": _flow("pipe"), "lumia.utils.next": _next, "lumia.utils.stop": _stop,
    "lumia.utils.intercept": _intercept, "lumia.store.set": _stored(1, "value"),
    "lumia.store.append": _stored(1, "value"),
    "lumia.services.get": _service, "lumia.services.provide": _provided, "lumia.config.get": _settings,
    "lumia.resource": _resource, "lumia.effect": _effect,
}  # fmt: skip
