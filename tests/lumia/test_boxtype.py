"""What fits a declared `Box[T]`."""

from __future__ import annotations

import collections.abc
import typing
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, Optional, Protocol, TypedDict, TypeVar, Union

import pytest

from lumia.boxtype import conforms, describe, type_name
from lumia.errors import BoxTypeError

T = TypeVar("T")
Number = TypeVar("Number", int, float)
Named = TypeVar("Named", bound=str)
GroupId = NewType("GroupId", str)


class Message(TypedDict):
    text: str


class Pair(NamedTuple):
    a: int


class Holder(Generic[T]):
    pass


class Base:
    pass


class Child(Base):
    pass


@typing.runtime_checkable
class Sized(Protocol):
    def __len__(self) -> int: ...


class Unchecked(Protocol):
    size: int


class Alias:
    """Looks like what `type X = ...` makes on Python 3.12."""

    __value__ = list[int]


FITS: list[tuple[object, Any]] = [
    (1, int), (True, int), (1, float), (1, complex), (1.5, float), ("a", str), (None, None), (None, type(None)),
    (object(), Any), (object(), object), ([1], list), (["any"], list[int]), ([1], typing.List[int]),  # noqa: UP006
    ({"a": 1}, dict[str, int]), ({}, Message), ((1, 2), tuple[int, ...]), ((1, 2), tuple[int, str]),
    ({"a": 1}, collections.abc.Mapping), ({"a": 1}, collections.abc.Mapping[str, int]),
    (len, typing.Callable[..., int]),
    (1, int | str), ("a", Union[int, str]), (None, Optional[int]),  # noqa: UP007,UP045
    ([1], dict[str, Any] | list[int] | None),
    ("a", Literal["a", "b"]), (1, Literal[1]), (None, Literal[None]), (1, Annotated[int, "doc"]),
    (1, typing.Final[int]), (Pair(1), Pair), (Pair(1), tuple), (Holder(), Holder[int]), (Child(), Base),
    (int, type[int]),
    (5, T), (5, Number), (1.5, Number), ("a", Named), ("g", GroupId), ("a", typing.LiteralString), ([1], Sized),
    ([1], Alias()),
]  # fmt: skip
MISFITS: list[tuple[object, Any]] = [
    ("1", int), (1.5, int), (1, bool), (1, str), (1, None), (None, int), ([1], dict), ({"a": 1}, list[int]),
    ([], Message), ((1,), list), (1.5, int | str), ([1], Optional[int]), ("c", Literal["a", "b"]),  # noqa: UP045
    (True, Literal[1]), (1, Literal[True]), ("a", Annotated[int, "doc"]), ((1,), Pair), (Base(), Child),
    (1, Holder[int]), ("a", Number), (5, Named), (5, GroupId), (5, typing.LiteralString), (5, typing.Never),
    (5, typing.NoReturn), (5, Sized), ({}, Alias()), (5, collections.abc.Mapping[str, int]), (5, type[int]),
]  # fmt: skip


@pytest.mark.parametrize("value,declared", FITS)
def test_a_value_that_fits(value: object, declared: Any) -> None:
    assert conforms(value, declared)


@pytest.mark.parametrize("value,declared", MISFITS)
def test_a_value_that_does_not_fit(value: object, declared: Any) -> None:
    assert not conforms(value, declared)


@pytest.mark.parametrize("declared", ["Message", Unchecked, 5, typing.ForwardRef("Message")], ids=str)
def test_a_declaration_that_cannot_be_checked_says_so(declared: Any) -> None:
    with pytest.raises(BoxTypeError, match=r"can't be checked while running: declare a class"):
        conforms(5, declared)


@pytest.mark.parametrize(
    "declared,text",
    [
        (int, "int"), (None, "None"), (type(None), "None"), (list[int], "list[int]"), (int | None, "int | None"),
        (Base, f"{__name__}.Base"), (Literal["a"], "Literal['a']"), (Any, "Any"),
    ],
)  # fmt: skip
def test_a_type_is_named_as_an_author_writes_it(declared: Any, text: str) -> None:
    assert describe(declared) == text


def test_the_name_of_a_nested_class_is_its_whole_path() -> None:
    assert type_name(TestNested.Inner) == f"{__name__}.TestNested.Inner"


class TestNested:
    class Inner:
        pass
