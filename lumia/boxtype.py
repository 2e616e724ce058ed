"""Does a value fit the type a handler declared as `Box[T]`? (spec §3.3, DESIGN §7)

Classes by `isinstance`, parametrised generics by their origin (`list[int]` is any list), unions by any arm, `Literal`
by value and type, a `TypedDict` is a dict, `None` is None. An `int` fits `float`, as in PEP 484.
"""

from __future__ import annotations

import typing
from types import UnionType
from typing import Any, Literal, NewType, TypeVar, Union, get_args, get_origin

from lumia.errors import BoxTypeError

_WRAPPERS = (typing.Annotated, typing.Required, typing.NotRequired, typing.Final)
_PROMOTED: dict[object, tuple[type, ...]] = {float: (float, int), complex: (complex, float, int)}


def conforms(value: object, declared: Any) -> bool:
    """Tell whether `value` fits `declared`; raises `BoxTypeError` for a declaration that can't be checked."""
    origin = get_origin(declared)
    if origin is None:
        return _conforms_plain(value, declared)
    if origin is Union or origin is UnionType:
        return any(conforms(value, arm) for arm in get_args(declared))
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in get_args(declared))
    if origin in _WRAPPERS:
        return conforms(value, get_args(declared)[0])
    return conforms(value, origin)


def describe(declared: Any) -> str:
    """Return the declared type as an author would write it."""
    if declared is Any or declared is None or declared is type(None):
        return "Any" if declared is Any else "None"
    if isinstance(declared, type) and get_origin(declared) is None:
        return type_name(declared)
    return repr(declared).replace("typing.", "")


def type_name(kind: type) -> str:
    """Return `module.qualname`, or only the name for a built-in."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _conforms_plain(value: object, declared: Any) -> bool:
    if declared is None or declared is Any:
        return declared is Any or value is None
    if typing.is_typeddict(declared):
        return isinstance(value, dict)
    if isinstance(declared, type):
        return _is_instance(value, declared)
    return _conforms_named(value, declared)


def _conforms_named(value: object, declared: Any) -> bool:
    if isinstance(declared, TypeVar):
        arms = declared.__constraints__ or (declared.__bound__ if declared.__bound__ is not None else Any,)
        return any(conforms(value, arm) for arm in arms)
    if isinstance(declared, NewType):
        return conforms(value, declared.__supertype__)
    if declared is typing.LiteralString:
        return isinstance(value, str)
    if declared in (typing.Never, typing.NoReturn):
        return False
    if hasattr(declared, "__value__"):  # type X = ... of Python 3.12
        return conforms(value, declared.__value__)
    raise _uncheckable(declared)


def _is_instance(value: object, declared: type) -> bool:
    try:
        return isinstance(value, _PROMOTED.get(declared, declared))
    except TypeError as error:
        raise _uncheckable(declared) from error


def _uncheckable(declared: Any) -> BoxTypeError:
    return BoxTypeError(
        f"Box[{describe(declared)}] can't be checked while running: declare a class, a union, a Literal or a "
        "TypedDict; import what a name in quotes means, and mark a Protocol with @typing.runtime_checkable"
    )
