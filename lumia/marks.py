"""What a decorator leaves on a function.

Decorators only mark: they set an attribute on the function and note it in its module. The loader collects the marks,
verifies them and hands them to the runtime, so nothing is registered at import time (DESIGN §3).
"""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, TypeVar

from lumia.errors import RegistrationError

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)

HANDLER_KINDS = frozenset({"pipe", "consumer", "chain", "interceptor", "cron"})
DEFAULT_QUEUE = "default"
PRIVATE_PREFIX = "adapter."
"""Of queues that only the process owning a connection serves."""
ISOLATED_PREFIX = "plugin."
"""Of queues that only the worker of an isolated plugin serves."""
PRIORITIES = (0, 3, 6, 9)
"""Urgent, normal, low, bulk: 0 is served first."""
NORMAL = 3
RESIDENT = "resident"
MISSED = ("skip", "once", "all")
MAX_NAME = 512
_ATTRIBUTE = "__lumia_marks__"
_LISTED = "__lumia_marked__"
_order = itertools.count(1)


def is_name(text: object) -> bool:
    """Tell whether `text` can be an id, a lane key or a dedup text: 1 to 512 printable characters."""
    return isinstance(text, str) and 0 < len(text) <= MAX_NAME and text.isprintable()


def is_queue(text: object) -> bool:
    """Tell whether `text` can name a queue: 1 to 512 printable characters without a colon."""
    return is_name(text) and ":" not in str(text)


def is_seconds(value: object) -> bool:
    """Tell whether `value` is a finite number of seconds from 0 up to a billion."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return 0 <= value < 10**9


@dataclass(frozen=True)
class Retry:
    """How often and how soon a failing step is tried again.

    attempts: tries in all, at least 1. backoff: seconds before the second try, doubled each time up to `max_delay`.
    lane: `hold` it meanwhile, or `release` it: the lane's next run goes ahead, this one comes back at the lane's front.
    Raises `RegistrationError` for figures that are none.
    """

    attempts: int = 3
    backoff: float = 1.0
    max_delay: float = 60.0
    lane: str = "hold"

    def __post_init__(self) -> None:
        if isinstance(self.attempts, bool) or not isinstance(self.attempts, int) or self.attempts < 1:
            raise RegistrationError(f"lumia.Retry: attempts is a whole number from 1 up, got {self.attempts!r}")
        for name, seconds in (("backoff", self.backoff), ("max_delay", self.max_delay)):
            if not is_seconds(seconds):
                raise RegistrationError(f"lumia.Retry: {name} is seconds from 0 up, got {seconds!r}")
        if self.lane not in ("hold", "release"):
            raise RegistrationError(f"lumia.Retry: lane is hold or release, got {self.lane!r}")

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait after try number `attempt` (from 1) has failed."""
        return float(min(self.max_delay, self.backoff * 2 ** min(attempt - 1, 30)))


@dataclass(frozen=True)
class Mark:
    """One decorator on one function.

    kind: pipe, consumer, chain, interceptor, cron, route, websocket, resident, command, check or tool. id: event id,
    glob, cron expression, path, or the name of a resident, command, check or tool. options: what else the decorator was
    given.
    """

    kind: str
    id: str
    glob: bool = False
    priv: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    order: int = field(default_factory=lambda: next(_order))


def put(mark: Mark, fn: F) -> F:
    """Leave `mark` on `fn` and return `fn` unchanged otherwise."""
    if not inspect.isfunction(fn):
        raise RegistrationError(f"{mark.kind} {mark.id!r} marks {fn!r}, which is no function; decorate a `def`")
    # A new list: functools.wraps hands the old one on to the wrapper.
    fn.__dict__[_ATTRIBUTE] = [*fn.__dict__.get(_ATTRIBUTE, ()), mark]
    # A wrapper's own globals are those of the library its decorator comes from.
    home = getattr(inspect.unwrap(fn), "__globals__", fn.__globals__)
    listed: list[tuple[Mark, Function]] = home.setdefault(_LISTED, [])
    listed.append((mark, fn))
    return fn


def marker(kind: str, id: str, *, glob: bool = False, priv: int = 0, **options: Any) -> Callable[[F], F]:
    """Return a decorator that leaves a `Mark`; options that are None are left out."""
    if not isinstance(id, str) or not id:
        raise RegistrationError(f"a {kind} needs an id as its first argument, got {id!r}; example: ('msg', priv=50)")
    if isinstance(priv, bool) or not isinstance(priv, int):
        raise RegistrationError(f"{kind} {id!r}: priv is a whole number, got {priv!r}")
    given = {name: value for name, value in options.items() if value is not None}
    return lambda fn: put(Mark(kind, id, glob, priv, given), fn)


def marks_on(fn: Function) -> list[Mark]:
    """Return the marks of one function, in the order they were left."""
    return sorted(getattr(fn, _ATTRIBUTE, ()), key=lambda mark: mark.order)


def marks_in(module: ModuleType) -> list[tuple[Mark, Function]]:
    """Return the marks of `module`, and of the loaded modules inside it when it is a package, in registration order."""
    parts = _parts(module) if hasattr(module, "__path__") else [module]
    found = [pair for part in parts for pair in part.__dict__.get(_LISTED, ())]
    return sorted(found, key=lambda pair: pair[0].order)


def marks_of(module: ModuleType) -> list[tuple[Mark, Function]]:
    """Return every mark of `module` and of the loaded modules of its package, in registration order."""
    found = [pair for part in _parts(module) for pair in part.__dict__.get(_LISTED, ())]
    return sorted(found, key=lambda pair: pair[0].order)


def _parts(module: ModuleType) -> list[ModuleType]:
    package = module.__name__ if hasattr(module, "__path__") else module.__name__.rpartition(".")[0]
    if not package:
        return [module]
    inside = [part for name, part in list(sys.modules.items()) if name.startswith(package + ".") and part is not None]
    return inside if module in inside else [module, *inside]


def verify(mark: Mark, fn: Function, plugin: str) -> None:
    """Check that `fn` can be called the way `mark` promises; raise `RegistrationError` naming plugin and function."""
    if mark.kind in HANDLER_KINDS:
        _verify_handler(mark, fn, f"{plugin}.{fn.__name__} ({mark.kind} {mark.id!r})")
    if mark.kind == RESIDENT:
        _verify_resident(fn, f"{plugin}.{fn.__name__} (resident)")
    if mark.kind == "tool":
        from lumia import mcp_local  # only who offers tools needs it

        mcp_local.verify(mark, fn, f"{plugin}.{fn.__name__} (tool {mark.id!r})")


def _verify_handler(mark: Mark, fn: Function, where: str) -> None:
    names = _required(fn, where)
    if mark.glob and (not names or names[0] != "src"):
        raise RegistrationError(
            f"{where} uses a glob, so its first parameter must be `src: str` (it receives the matched id); "
            f"write `def {fn.__name__}(src: str, content: lumia.Box)`"
        )
    wanted = 2 if mark.glob else 1
    if len(names) != wanted:
        shape = "(src: str, content: lumia.Box)" if mark.glob else "(content: lumia.Box)"
        raise RegistrationError(f"{where} takes {len(names)} parameters; write `def {fn.__name__}{shape}`")
    _verify_options(mark, where)
    if mark.kind == "cron":
        _verify_schedule(mark, where)
    elif not is_name(mark.id):
        raise RegistrationError(f"{where}: no run can have this id; an id is 1 to {MAX_NAME} printable characters")


def _verify_resident(fn: Function, where: str) -> None:
    if not inspect.iscoroutinefunction(fn):
        raise RegistrationError(f"{where} has to be `async def`: it runs beside the gateway's other work")
    if _required(fn, where):
        raise RegistrationError(f"{where} takes parameters; write `async def {fn.__name__}() -> None`")


def _verify_schedule(mark: Mark, where: str) -> None:
    from zoneinfo import ZoneInfo

    from croniter import croniter

    if not croniter.is_valid(mark.id):
        raise RegistrationError(
            f"{where}: no cron expression; five fields like '*/10 8-22 * * *', or six with seconds last"
        )
    try:
        ZoneInfo(str(mark.options.get("tz", "UTC")))
    except (KeyError, ValueError, OSError) as error:
        raise RegistrationError(f"{where}: tz is an IANA time zone such as Europe/Berlin: {error}") from error
    if mark.options.get("missed", "skip") not in MISSED:
        raise RegistrationError(f"{where}: missed is one of {', '.join(MISSED)}, got {mark.options['missed']!r}")


def _required(fn: Function, where: str) -> list[str]:
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise RegistrationError(f"{where} is a generator; a handler returns once, remove the `yield`")
    kinds = inspect.Parameter
    names = []
    for parameter in inspect.signature(fn).parameters.values():
        if parameter.kind is kinds.KEYWORD_ONLY and parameter.default is kinds.empty:
            raise RegistrationError(f"{where}: nobody can fill the keyword-only parameter {parameter.name!r}")
        positional = parameter.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
        if positional and parameter.default is kinds.empty:
            names.append(parameter.name)
    return names


def _verify_options(mark: Mark, where: str) -> None:
    timeout = mark.options.get("timeout")
    if timeout is not None and not (is_seconds(timeout) and timeout > 0):
        raise RegistrationError(f"{where}: timeout is seconds above 0, got {timeout!r}")
    retry = mark.options.get("retry")
    if retry is not None and retry_of(retry) is None:
        raise RegistrationError(f"{where}: retry is a number of tries ≥ 1 or lumia.Retry(...), got {retry!r}")
    queue = mark.options.get("queue")
    if queue is not None and not is_queue(queue):
        raise RegistrationError(f"{where}: queue is a printable name without ':', got {queue!r}")


def retry_of(value: Retry | int | None) -> Retry | None:
    """Return the `Retry` that an option names (an int is the number of tries), or None when it names none."""
    if isinstance(value, Retry):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return Retry(attempts=value)
    return None


def command(name: str, *, help: str = "") -> Callable[[F], F]:
    """Mark a function as the command `lumia NAME`; a space in the name makes a subcommand.

    The plugin's manifest lists the command with its one-line help, so `lumia --help` needs no plugin code.
    """
    return marker("command", name, help=help)
