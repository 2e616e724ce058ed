"""The public face of Box: making, reading, cloning, declaring, and every prohibition."""

from __future__ import annotations

import copy
import pickle
import socket
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import dill
import pytest

from lumia import boxwire
from lumia.box import Box, require
from lumia.errors import ArcError, BoxCycleError, BoxError, BoxTypeError

SECRET = b"s" * 32


@dataclass
class Point:
    x: int


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours


def test_a_box_is_made_by_any_and_not_by_calling_it() -> None:
    for make in (Box, Box[int]):
        with pytest.raises(BoxError, match=r"write Box\.any\(value\)"):
            make(5)


def test_a_box_is_not_boxed_again() -> None:
    with pytest.raises(BoxError, match="a Box already: pass it on"):
        Box.any(Box.any(5))


def test_a_box_cannot_be_subclassed() -> None:
    with pytest.raises(BoxError, match="Mine can't inherit from Box"):
        type("Mine", (Box,), {})


def test_a_declared_alias_makes_the_same_boxes() -> None:
    assert Box[int].any(5).into() == 5


def test_undeclared_into_just_returns_the_value() -> None:
    assert Box.any({"a": 1}).into() == {"a": 1}
    assert Box.any({"a": 1}).expecting(Box, "p.handle").into() == {"a": 1}


@pytest.mark.parametrize("declared", [dict, dict[str, int], Box[dict[Any, Any]], Box[dict[str, int]], Any, dict | None])
def test_into_gives_what_the_handler_declared(declared: Any) -> None:
    assert Box.any({"a": 1}).expecting(declared, "p.handle").into() == {"a": 1}


@pytest.mark.parametrize(
    "value,declared,message",
    [
        (
            {"a": 1},
            Box[int],
            r"handler p\.handle declares Box\[int\], this Box holds dict; box what the handler declares",
        ),
        (5, str | None, r"handler p\.handle declares Box\[str \| None\], this Box holds int"),
        (Point(1), Box[None], rf"handler p\.handle declares Box\[None\], this Box holds {__name__}\.Point"),
        ("x", Point, rf"handler p\.handle declares Box\[{__name__}\.Point\], this Box holds str"),
    ],
)
def test_a_mismatch_names_handler_expected_and_actual(value: Any, declared: Any, message: str) -> None:
    with pytest.raises(BoxTypeError, match=message):
        Box.any(value).expecting(declared, "p.handle").into()


def test_a_class_inside_a_function_is_told_apart_with_the_reason() -> None:
    class Local:
        pass

    with pytest.raises(BoxTypeError, match=r"both have this name but are different classes.*top of a plugin's module"):
        Box.any(Local()).expecting(Local, "p.handle").into()


def test_a_live_resource_is_checked_too(connection: socket.socket) -> None:
    box = Box.any(connection)
    assert box.expecting(socket.socket, "p.handle").into() is connection
    with pytest.raises(BoxTypeError, match=r"declares Box\[dict\], this Box holds socket\.socket"):
        box.expecting(dict, "p.handle").into()


def test_the_view_a_handler_gets_shares_meta_and_its_clone_keeps_the_declaration() -> None:
    box = Box.any(5, meta={"account": "1"})
    view = box.expecting(str, "p.handle")
    view.meta["force_engage"] = True
    assert box.meta == {"account": "1", "force_engage": True}
    with pytest.raises(BoxTypeError):
        view.clone().into()
    assert view.expecting(Box, "p.other").into() == 5


def test_threads_that_look_at_meta_for_the_first_time_get_the_same_one(monkeypatch: pytest.MonkeyPatch) -> None:
    box, both, read = Box.any(5, meta={"account": "1"}), threading.Barrier(2), boxwire.read_meta

    def slowly(text: str) -> dict[str, Any]:
        with suppress(threading.BrokenBarrierError):
            both.wait(timeout=0.2)
        return read(text)

    monkeypatch.setattr(boxwire, "read_meta", slowly)
    threads = [threading.Thread(target=lambda name=name: box.meta.update({name: 1})) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert box.meta == {"account": "1", "a": 1, "b": 1}


def test_meta_is_edited_in_place_and_not_replaced() -> None:
    box = Box.any(5)
    assert box.meta == {}
    with pytest.raises(AttributeError):
        box.meta = {}  # type: ignore[misc]


def test_boxes_are_equal_only_to_themselves() -> None:
    box = Box.any(5)
    assert box == box
    assert box != Box.any(5)
    assert len({box, box.clone(), box}) == 2


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, Box.clone])
def test_copying_is_cloning(duplicate: Any, connection: socket.socket) -> None:
    box = Box.any({"a": [1]}, meta={"seen": ["x"]})
    twin = duplicate(box)
    twin.meta["seen"].append("y")
    assert (twin.into(), box.meta) == ({"a": [1]}, {"seen": ["x"]})
    assert duplicate(Box.any(connection)).into() is connection


@pytest.mark.parametrize("library", [pickle, dill])
@pytest.mark.parametrize("value", [5, "x", {"a": [1]}, (1, 2), Point(3)], ids=repr)
def test_a_box_of_a_copy_can_be_pickled(library: Any, value: Any) -> None:
    box = library.loads(library.dumps(Box.any(value, meta={"a": 1})))
    assert (box.into(), box.meta, type(box.into())) == (value, {"a": 1}, type(value))


@pytest.mark.parametrize("library", [pickle, dill])
def test_a_box_of_a_resource_cannot_be_pickled(library: Any, connection: socket.socket) -> None:
    with pytest.raises(ArcError, match=r"can't leave its process: it holds a live resource \(socket\)"):
        library.dumps(Box.any(connection))


def test_a_box_inside_a_value_travels_with_it() -> None:
    inner = Box.load(Box.any({"inner": Box.any([1], meta={"a": 1})}).dump(SECRET), SECRET).into()["inner"]
    assert (inner.into(), inner.meta) == ([1], {"a": 1})


def test_a_value_with_a_boxed_resource_inside_is_live(connection: socket.socket) -> None:
    box = Box.any([Box.any(connection)])
    assert box.is_arc
    assert box.into()[0].into() is connection


@pytest.mark.parametrize("value", ["sk-secret", {"token": "sk-secret"}, ("sk-secret",)], ids=["json", "dict", "dill"])
def test_repr_shows_how_and_what_but_never_the_content(value: Any) -> None:
    box = Box.any(value, meta={"account": "sk-secret", "chat": 1})
    assert repr(box) == f"<Box {box.transport} {type(value).__name__}, meta: account, chat>"
    assert "sk-secret" not in repr(Box.load(box.dump(SECRET), SECRET))
    assert repr(Box.any(1)) == "<Box json int>"


def test_dropping_a_box_of_a_copy_changes_nothing() -> None:
    box = Box.any([1])
    box.drop()
    assert box.into() == [1]


def test_the_gate_of_start_takes_boxes_only(connection: socket.socket) -> None:
    box = Box.any(5)
    assert require(box, "pipe.start('msg')") is box
    with pytest.raises(BoxError, match=r"pipe\.start\('msg'\) takes a Box, got a bare dict: write lumia\.Box\.any"):
        require({"a": 1}, "pipe.start('msg')")
    with pytest.raises(BoxError, match=r"bare socket\.socket"):
        require(connection, "pipe.start('msg')")


def test_the_gate_refuses_a_resource_that_came_to_hold_its_box() -> None:
    class Session(threading.Thread):
        box: Any = None

    session = Session()
    session.box = Box.any(session)
    with pytest.raises(BoxCycleError, match=r"refers to a Box that holds it.*weakref"):
        require(session.box, "pipe.start('msg')")
    session.box = weakref.ref(session.box)


def test_a_box_takes_no_attributes() -> None:
    with pytest.raises(AttributeError):
        Box.any(5).value = 6  # type: ignore[attr-defined]
