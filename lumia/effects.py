"""`lumia.effect`: calls to the outside world, recorded so that a retry does not make them again (DESIGN §5)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from lumia.context import active
from lumia.effect_use import KINDS, POLICIES, Use
from lumia.errors import EffectError, HeldError
from lumia.marks import MAX_NAME, is_name
from lumia.recording import inside

if TYPE_CHECKING:
    from concurrent.futures import Future


def effect(
    key: str, call: Callable[..., Any], *args: Any, policy: str = "retry", kind: str = "call", **kwargs: Any
) -> Any:
    """Run `call(*args, **kwargs)` once per (run, step, key) and return its result; a retry gets the recorded one.

    policy says what happens when a try ended between intent and result, so that nobody knows whether the call was
    made: `retry` makes it again (at least once), `hold` raises `EffectError` (at most once, the run goes to the dead
    letters until someone settles it). kind: call, model, embed, tool, send or http, for traces. An async `call` gives
    an awaitable. Outside of a step the call is simply made.

    Raises `EffectError`, too, for a key used with other arguments in the same step, and for a result that can't be
    recorded; `StaleClaimError` when another worker has taken the step over, before anything is called.
    """
    if policy not in POLICIES:
        raise EffectError(f"effect {key!r}: policy is one of {', '.join(POLICIES)}, got {policy!r}")
    if kind not in KINDS:
        raise EffectError(f"effect {key!r}: kind is one of {', '.join(KINDS)}, got {kind!r}")
    if not is_name(key):
        raise EffectError(f"an effect's key is 1 to {MAX_NAME} printable characters, got {str(key)[:80]!r}")
    step = active("lumia.effect()")
    if step is None:
        return call(*args, **kwargs)
    if kind == "send" and step.claim.hold:
        from lumia.held import HELD  # only a live replay needs it

        raise HeldError(f"{HELD} (effect {key!r})")
    use = Use(step, key, policy, kind, (args, kwargs))
    if inspect.iscoroutinefunction(call):
        return _awaited(use, call(*args, **kwargs))
    if use.known_here() or use.begin():
        return use.result
    return _made(use, call, args, kwargs)


def _made(use: Use, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        with inside(f"effect {use.key}"):
            value = call(*args, **kwargs)
        done = use.done(value)
    except BaseException as error:
        use.end(use.failed(error))
        raise
    use.end(done)
    return value


async def _awaited(use: Use, call: Awaitable[Any]) -> Any:
    try:
        active("lumia.effect()")  # an awaitable may be awaited after its step
        known = use.known_here() or await _off_loop(use, use.begin)
    except BaseException:
        _close(call)
        raise
    if known:
        _close(call)
        return use.result
    try:
        with inside(f"effect {use.key}"):
            value = await call
        done = use.done(value)
    except Exception as error:
        await _off_loop(use, use.end, use.failed(error))
        raise
    except BaseException as error:
        # Cancelled: the step's limit is over, so nothing is waited for.
        _submitted(use, use.end, use.failed(error))
        raise
    await _off_loop(use, use.end, done)
    return value


async def _off_loop(use: Use, fn: Callable[..., Any], *args: Any) -> Any:
    """Call `fn` without holding up the event loop: the ledger is on the network."""
    import asyncio

    if use.step.player is not None:
        return fn(*args)
    return await asyncio.wrap_future(_submitted(use, fn, *args))


def _submitted(use: Use, fn: Callable[..., Any], *args: Any) -> Future[Any]:
    return use.step.runtime.beside().submit(fn, *args)


def _close(call: Any) -> None:
    if inspect.iscoroutine(call):
        call.close()
