"""Which handlers a Box reaches, in which order, and what is in it by then (spec §4–5)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from lumia.bus import TICKS
from lumia.payloads import MODELS
from lumia.pkg.validate import boxes
from lumia.pkg.validate.annotate import Annotations, handler_type
from lumia.pkg.validate.fits import describe
from lumia.pkg.validate.frame import Frame, Handling, Run, Site, parameters
from lumia.pkg.validate.messages import message
from lumia.pkg.validate.types import (
    ANYTHING,
    FLOAT,
    NONE,
    STR,
    UNKNOWN,
    Boxed,
    Inst,
    Lit,
    Marking,
    Shape,
    Text,
    Type,
    Unknown,
    Value,
    shallow,
)
from lumia.pkg.validate.world import Function
from lumia.pkg.validate.wrapping import hands_on

ORDER = {"interceptor": 0, "chain": 1, "consumer": 2, "cron": 2, "pipe": 0}
STEPS = 4_000
"""Steps that are followed in all."""
_HOLE = "\0"
_TICK = Shape((("schedule", STR), ("due", FLOAT)))


@dataclass(eq=False)
class Handler:
    """One mark on one function."""

    kind: str
    function: Function
    marking: Marking
    order: int
    declared: Type | None = None
    kinds: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """Return its name as traces show it."""
        return f"{self.function.module.package.name}.{self.function.name}"

    @property
    def line(self) -> int:
        """Return the line of its `def`."""
        return self.function.node.lineno

    @property
    def id_text(self) -> str:
        """Return its id or pattern as far as it is known."""
        return str(self.marking.id.value) if isinstance(self.marking.id, Lit) else "…"

    @property
    def plain(self) -> bool:
        """Tell whether nothing but marks decorates it, so that it is called as it stands."""
        return all(isinstance(each, ast.Call) for each in self.function.decorators) and not self.odd

    odd: bool = False


def register(run: Run, marking: Marking, function: Function) -> None:
    """Note that a function is a handler."""
    if any(each.function.node is function.node and each.marking.call is marking.call for each in run.handlers):
        return
    handler = Handler(marking.kind, function, marking, len(run.handlers))
    notes = Annotations(run.world, function.module)
    declared, _ = handler_type(notes, function)
    names = [next(notes.unresolved(arg.annotation), None) for arg in parameters(function.node)]
    if not any(names):  # else Python can't look the annotations up, and nothing is checked
        handler.declared = None if isinstance(declared, Unknown) else declared
    handler.odd = any(_is_odd(run, function, each) for each in function.decorators)
    same = [each for each in run.handlers if each.function.node is function.node]
    handler.kinds = same[0].kinds if same else set()
    handler.kinds.add(marking.kind)
    run.handlers.append(handler)


def _is_odd(run: Run, function: Function, decorator: ast.expr) -> bool:
    """Tell whether a decorator may call the function with something else than it is given."""
    name = run.world.dotted(function.module, decorator)
    if name is not None:
        return not name.startswith(("lumia.", "functools."))
    return not hands_on(run.world, function.module, decorator)


def register_resident(run: Run, function: Function) -> None:
    """Note that a function is a resident of the gateway."""
    call = ast.Call(ast.Name("resident", ast.Load()), [], [])
    marking = Marking("resident", ast.copy_location(call, function.node), Lit(function.name))
    if not any(each.kind == "resident" and each.function.node is function.node for each in run.handlers):
        run.handlers.append(Handler("resident", function, marking, len(run.handlers), None, {"resident"}))


def follow_all(run: Run) -> None:
    """Follow every handler with what it declares, and every Box to where it goes."""
    for handler in list(run.handlers):
        if handler.kind in ORDER:
            _onward(run, handler, step(run, handler, _declared(run, handler), None))
            _from_lumia(run, handler)
    seen: set[object] = set()
    count = 0
    while run.started and count < STEPS:
        flow, target, content, frame, node = run.started.pop()
        box = content.type
        id = id_of(target)
        if not isinstance(box, Boxed) or id is None:
            continue
        key = (flow, id, box.content.type, box.content.origin)
        if key in seen:
            continue
        seen.add(key)
        count += 1
        inner = Value(shallow(box.content.type), box.content.origin, box.content.token)
        _check_payload(frame, node, id, inner)
        plan = planned(run, flow, id)
        _check_place(frame, node, box, plan)
        if not isinstance(inner.type, Unknown):
            deliver(run, flow, id, plan, inner)


def _onward(run: Run, handler: Handler, went: list[Value | None]) -> None:
    """Follow what a handler boxes anew to those that come after it, whoever started the run."""
    if handler.kind not in ("pipe", "chain") or not isinstance(handler.marking.id, Lit) or handler.marking.glob:
        return
    flow = "pipe" if handler.kind == "pipe" else "event"
    plan = planned(run, flow, handler.id_text)
    rest = plan[plan.index(handler) + 1 :] if handler in plan else []
    for box in went:
        if box is not None and rest and all(isinstance(each.marking.priv, Lit) for each in plan):
            content = _inside(box)
            if not isinstance(content.type, Unknown):
                deliver(run, flow, handler.id_text, rest, content)


def _declared(run: Run, handler: Handler) -> Value:
    if handler.declared is None or handler.odd:
        return ANYTHING
    text = f"{handler.name} declares Box[{describe(handler.declared)}]"
    return Value(handler.declared, frozenset({run.site(Site(handler.function.module, handler.line, text))}))


def _from_lumia(run: Run, handler: Handler) -> None:
    """What Lumia itself sends: the ticks of the clock, and messages."""
    id = handler.marking.id
    name = str(id.value) if isinstance(id, Lit) and not handler.marking.glob else None
    content: Type | None = None
    if handler.kind == "cron" or (handler.kind in ("consumer", "interceptor", "chain") and name in TICKS):
        content, text = _TICK, "from Lumia's clock"
    elif handler.kind == "pipe" and name == "msg" and _is_first(run, handler):
        content, text = message(run.world) or Inst(dict, (STR, UNKNOWN)), "a message from an adapter"
    if content is not None:
        went = step(run, handler, Value(content, frozenset({run.site(Site(None, 0, text))})), name)
        if handler.kind == "pipe":
            _onward(run, handler, went)


def _is_first(run: Run, handler: Handler) -> bool:
    """Only what comes before everything that may box something else gets the message as it came."""
    return not any(
        each is not handler and each.kind == "pipe" and _changes(each.function.node)
        for each in planned(run, "pipe", "msg")
    )


@cache
def _changes(node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr == "next" and each.args
        for each in ast.walk(node)
    )


def id_of(target: Type) -> str | None:
    """Return an id as text with `\\0` for each unknown piece, None when nothing of it is known."""
    if isinstance(target, Lit) and isinstance(target.value, str):
        return target.value
    if isinstance(target, Text) and any(part for part in target.parts):
        return "".join(_HOLE if part is None else part for part in target.parts)
    return None


@cache
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in glob.split("*")), re.DOTALL)


def planned(run: Run, flow: str, id: str) -> list[Handler]:
    """Return the handlers that surely take part in a run of this id, in their order."""
    key = (flow, id, len(run.handlers))
    if key not in run.plans:
        run.plans[key] = _planned(run, flow, id)
    return run.plans[key]


def _planned(run: Run, flow: str, id: str) -> list[Handler]:
    kinds = ("pipe",) if flow == "pipe" else ("interceptor", "chain", "consumer")
    found = []
    for handler in run.handlers:
        wanted = handler.marking.id
        if handler.kind not in kinds or not isinstance(wanted, Lit):
            continue
        text = str(wanted.value)
        if _pattern(text).fullmatch(id) if handler.marking.glob else text == id:
            found.append(handler)
    return sorted(found, key=lambda each: (ORDER[each.kind], -_priv(each), each.order))


def _priv(handler: Handler) -> int:
    priv = handler.marking.priv
    return priv.value if isinstance(priv, Lit) and isinstance(priv.value, int) else 0


def deliver(run: Run, flow: str, id: str, plan: list[Handler], content: Value) -> None:
    """Follow a Box through the handlers of a run."""
    contents = [content]
    for at, handler in enumerate(plan):
        if any(not isinstance(each.marking.priv, Lit) for each in plan[: at + 1]) and len(plan) > 1:
            return  # nobody knows who comes first
        after: list[Value] = []
        for each in contents:
            went = step(run, handler, each, id)
            if handler.kind in ("interceptor", "consumer"):
                went = [None]
            after += [each if box is None else _inside(box) for box in went]
        contents = [each for each in dict.fromkeys(after) if not isinstance(each.type, Unknown)]
        if not contents:
            return


def _inside(box: Value) -> Value:
    return box.type.content if isinstance(box.type, Boxed) else ANYTHING


def step(run: Run, handler: Handler, content: Value, id: str | None) -> list[Value | None]:
    """Read one handler with this content; return the Boxes it passes on, None for the one it got."""
    key = ("step", id if handler.marking.glob else "", handler, content.type, content.origin)
    done = run.steps.get(key)
    if done is not None:
        return done
    function = handler.function
    arguments = parameters(function.node)
    if handler.odd:
        content = ANYTHING
    handling = Handling(handler, content, id)
    run.steps[key] = handling.went
    frame = Frame(run, function.module, function, handling)
    frame.bind_declared()
    names = [arg.arg for arg in arguments]
    if handler.marking.glob and len(names) >= 2:
        known = Lit(id) if id is not None and _HOLE not in id else STR
        frame.state.names[names[0]] = Value(known, frozenset(-number for number in content.origin))
        names = names[1:]
    if names and isinstance(frame.state.names[names[0]].type, (Unknown, Boxed)):
        frame.state.names[names[0]] = Value(Boxed(content), token=run.token())
    run.following.add(function.node)
    frame.run_body(function.body)
    run.following.discard(function.node)
    if handler.kind == "chain":
        handling.went += _chained(frame)
    return handling.went


def _chained(frame: Frame) -> Iterator[Value | None]:
    if not frame.state.dead or not frame.return_nodes:
        yield None
    frame.state.dead = False
    for value, node in frame.return_nodes:
        if value.type == NONE:
            yield None
        elif boxes.check_box(frame, node, value, "an event chain returns a Box or nothing:"):
            yield value


def _check_payload(frame: Frame, node: ast.Call, id: str, content: Value) -> None:
    """A Box for one of Lumia's own ids has to hold its payload."""
    kind = id.split(",", 1)[0]
    model = MODELS.get(kind)
    if model is None or (kind.startswith("msg.") and not id.startswith(f"{kind}, dest=")):
        return
    site = frame.run.sites[next(iter(content.origin), 0)]
    if site.module is None or not site.module.package.own:
        return
    allowed = [dict] if kind != "msg.send" else [dict, str]
    known = content.type
    problem = ""
    if all(frame.run.fits(known, Inst(each)) is False for each in allowed):
        problem = f"this Box holds a {describe(known)}"
    elif isinstance(known, Shape):
        names = {info.alias or name for name, info in model.model_fields.items()}
        needed = {info.alias or name for name, info in model.model_fields.items() if info.is_required()}
        extra = [key for key, _ in known.items if key not in names]
        missing = sorted(needed - {key for key, _ in known.items})
        if extra:
            problem = f"this Box has the key {extra[0]!r}"
        elif missing and not known.open:
            problem = f"this Box lacks the key {missing[0]!r}"
    if problem:
        wanted = f"a dict of lumia.payloads.{model.__name__}"
        said = f"{problem}, but whoever handles {kind!r} wants {wanted}; see docs/bus.md"
        frame.note("LUM101", site.module, site.line, site.column, said, [])


def _check_place(frame: Frame, node: ast.Call, box: Boxed, plan: list[Handler]) -> None:
    """A live resource can't reach a handler on another queue."""
    why = boxes.is_live(frame, box) if plan else None
    if not why:
        return
    for handler in plan:
        queue = handler.marking.queue
        if isinstance(queue, Lit) and queue.value != "default":
            text = f"this Box holds a live resource ({why}), which can't reach {handler.name}: it runs on the queue"
            frame.report("LUM203", node, f"{text} {queue.value!r}; leave out queue, or send what is needed to open it")
