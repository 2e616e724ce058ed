"""Live resources: shared by clones, released exactly once, never while a share is left, and never in a cycle."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import textwrap
import threading
import types
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lumia.box import Box, resource
from lumia.errors import ArcError, BoxCycleError, BoxError
from tests.support.wait import until


@resource
class Session:
    """Counts how often it is closed, and by which thread."""

    def __init__(self) -> None:
        self.closed: list[int] = []

    def close(self) -> None:
        self.closed.append(threading.get_ident())


def test_the_last_of_many_clones_closes_once() -> None:
    session = Session()
    clones = [Box.any(session)]
    clones += [clones[0].clone() for _ in range(50)]
    assert all(clone.into() is session for clone in clones)
    while clones:
        assert session.closed == []
        clones.pop()
    assert session.closed == [threading.get_ident()]


def test_clones_dropped_by_many_threads_close_once() -> None:
    for _ in range(20):
        session = Session()
        box = Box.any(session)
        shares = [[box.clone() for _ in range(20)] for _ in range(8)]
        gate = threading.Barrier(8)

        def work(mine: list[Box[Session]], gate: threading.Barrier = gate) -> None:
            gate.wait()
            while mine:
                mine.pop().clone().into()

        threads = [threading.Thread(target=work, args=(mine,)) for mine in shares]
        del box
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(session.closed) == 1


def test_boxing_the_same_resource_twice_shares_one_end() -> None:
    session = Session()
    first, second = Box.any(session), Box.any(session)
    del first
    assert (session.closed, second.into()) == ([], session)
    del second
    assert len(session.closed) == 1


def test_a_resource_boxed_alone_and_in_a_container_has_one_end() -> None:
    session = Session()
    alone, inside = Box.any(session), Box.any({"sessions": [session]})
    del inside
    assert session.closed == []
    del alone
    assert len(session.closed) == 1


def test_views_for_handlers_are_shares_too() -> None:
    session = Session()
    view = Box.any(session).expecting(Session, "p.handle")
    assert session.closed == []
    del view
    assert len(session.closed) == 1


def test_a_share_can_be_given_up_early() -> None:
    session = Session()
    box = Box.any(session)
    clone = box.clone()
    box.drop()
    assert session.closed == []
    clone.drop()
    clone.drop()
    assert len(session.closed) == 1
    uses: list[Callable[[], object]] = [box.into, box.clone, box.inner_type, lambda: box.dump(b"s")]
    for use in uses:
        with pytest.raises(ArcError, match=r"gave up its share of a .*Session by drop\(\)"):
            use()
    assert repr(box) == f"<Box arc {__name__}.Session>"


def test_the_class_of_a_resource_is_known() -> None:
    assert Box.any(Session()).inner_type() is Session


def test_a_given_destructor_ends_any_value() -> None:
    ended: list[Any] = []
    for value in ({"pid": 1}, 5, "name", Session()):
        box = Box.any(value, destructor=ended.append)
        assert box.is_arc
        assert box.into() is value
        del box
        assert ended.pop() is value


def test_an_announced_destructor_is_used_for_subclasses_too_unless_another_is_given() -> None:
    ended: list[Any] = []

    class Link:
        pass

    class SubLink(Link):
        pass

    resource(Link, lambda link: ended.append(type(link).__name__))
    Box.any(SubLink()).drop()
    Box.any(Link(), destructor=lambda link: ended.append("given")).drop()
    assert ended == ["SubLink", "given"]


def test_a_second_destructor_for_the_same_resource_is_refused() -> None:
    session, ended = Session(), list[Session]()
    box = Box.any(session, destructor=ended.append)
    Box.any(session, destructor=ended.append)
    Box.any(session)
    with pytest.raises(ArcError, match="already in a Box"):
        Box.any(session, destructor=print)
    del box
    assert ended == [session]


def test_what_a_refused_construction_was_given_stays_open() -> None:
    session = Session()
    with pytest.raises(BoxError):
        Box.any(session, meta={"bad": object()})
    box = Box.any(session)
    session.box = box  # type: ignore[attr-defined]
    with pytest.raises(BoxCycleError):
        Box.any([session])
    del session.box  # type: ignore[attr-defined]
    assert session.closed == []


class TestCycles:
    def assert_refused(self, value: Any) -> None:
        with pytest.raises(BoxCycleError, match=r"refers to a Box that holds it.*weakref"):
            Box.any(value)

    def test_directly(self) -> None:
        session: Any = Session()
        session.box = Box.any(session)
        self.assert_refused(session)
        del session.box

    def test_nested_in_attributes_and_containers(self) -> None:
        session: Any = Session()
        session.state = types.SimpleNamespace(boxes={"mine": [(Box.any(session),)]})
        self.assert_refused(session)
        self.assert_refused({"session": session})
        del session.state

    def test_through_a_closure_a_default_a_partial_or_a_method(self) -> None:
        import functools

        session: Any = Session()
        box = Box.any(session)
        for callback in (lambda: box, lambda given=box: given, functools.partial(print, box), box.clone):
            session.callback = callback
            self.assert_refused(session)
        del session.callback

    def test_through_the_destructor(self) -> None:
        session: Any = Session()
        held: list[Any] = []

        def destructor(_: object) -> None:
            held.clear()

        box = Box.any(session, destructor=destructor)
        held.append(box)
        with pytest.raises(BoxCycleError):
            box.clone()
        held.clear()

    def test_over_two_resources(self) -> None:
        left: Any = Session()
        right: Any = Session()
        left.peer = Box.any(right)
        right.peer = Box.any(left)
        self.assert_refused(left)
        self.assert_refused(right)
        del left.peer, right.peer

    def test_made_after_construction_it_is_found_when_the_box_is_passed_on(self) -> None:
        session: Any = Session()
        box = Box.any(session)
        session.box = box
        with pytest.raises(BoxCycleError):
            box.clone()
        del session.box
        assert box.clone().into() is session

    def test_a_weak_reference_and_a_box_of_something_else_are_fine(self) -> None:
        session: Any = Session()
        other = Session()
        box = Box.any(session)
        session.box, session.other, session.note = weakref.ref(box), Box.any(other), Box.any({"a": 1})
        assert box.clone().into() is session
        del box
        assert (len(session.closed), other.closed) == (1, [])
        del session.other
        assert len(other.closed) == 1

    def test_a_suspended_task_that_works_with_the_box_is_no_cycle(self) -> None:
        async def main() -> None:
            server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
            async with server:
                _, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
                box = Box.any(writer)
                suspended = asyncio.ensure_future(asyncio.sleep(0, box))
                clone = await asyncio.to_thread(box.clone)
                assert clone.into() is writer
                del clone, box
                await suspended
                suspended = None  # type: ignore[assignment]
                await writer.wait_closed()

        asyncio.run(main())

    def test_a_cycle_nobody_passed_on_is_still_released_by_the_garbage_collector(self) -> None:
        session: Any = Session()
        session.box = Box.any(session)
        closed = session.closed
        del session
        gc.collect()
        assert len(closed) == 1


def run(script: str) -> subprocess.CompletedProcess[str]:
    folder = str(Path(__file__).parents[2])
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)], text=True, capture_output=True, check=False,
        env={"PYTHONPATH": folder},
    )  # fmt: skip


def test_what_is_still_shared_at_exit_is_released_then() -> None:
    ran = run("""
        from lumia.box import Box
        kept = Box.any([1], destructor=lambda value: print("released", value))
    """)
    assert (ran.stdout, ran.stderr) == ("released [1]\n", "")


def test_a_forked_child_neither_uses_nor_releases_what_its_parent_opened() -> None:
    ran = run("""
        import os
        from lumia.box import Box
        from lumia.errors import ArcError
        box = Box.any([1], destructor=lambda value: print("released", flush=True))
        if os.fork() == 0:
            try:
                box.into()
            except ArcError as error:
                print("refused:", "stays in the process that opened it" in str(error), flush=True)
            del box
            os._exit(0)
        os.wait()
        del box
    """)
    assert (ran.stdout, ran.stderr) == ("refused: True\nreleased\n", "")


def test_a_thread_that_dies_gives_up_its_share() -> None:
    session = Session()
    thread = threading.Thread(target=lambda box: box.into(), args=(Box.any(session),))
    thread.start()
    thread.join()
    del thread
    until(lambda: session.closed)
    assert len(session.closed) == 1
