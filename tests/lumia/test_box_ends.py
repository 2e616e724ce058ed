"""What ends a live resource: its own method, a destructor, asynchronous ends; and ends that fail."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lumia.arc import Arc
from lumia.box import Box, resource
from lumia.errors import ArcError
from tests.lumia.test_box_arc import Session


class Resource:
    """One that is announced, with no way to end it."""


resource(Resource)


class TestWhatEndsIt:
    def test_files_and_sockets_are_closed(self) -> None:
        file = open(os.devnull)  # noqa: SIM115
        ours, theirs = socket.socketpair()
        Box.any(file).drop()
        Box.any(ours).drop()
        assert (file.closed, ours.fileno()) == (True, -1)
        theirs.close()

    def test_a_descriptor_is_free_again_after_the_last_share(self) -> None:
        box = Box.any(open(os.devnull))  # noqa: SIM115
        descriptor = box.into().fileno()
        os.fstat(descriptor)
        clone = box.clone()
        del box
        os.fstat(descriptor)
        del clone
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)

    def test_a_held_lock_is_released_and_a_free_one_left_alone(self) -> None:
        lock = threading.Lock()
        Box.any(lock).drop()
        lock.acquire()
        Box.any(lock).drop()
        assert not lock.locked()

    def test_semaphores_and_conditions_are_dropped_as_they_are(self, caplog: pytest.LogCaptureFixture) -> None:
        semaphore = threading.Semaphore(1)
        for primitive in (semaphore, threading.Condition(), threading.RLock(), asyncio.Lock(), Resource()):
            Box.any(primitive).drop()
        assert semaphore.acquire(blocking=False)
        assert not semaphore.acquire(blocking=False)
        assert caplog.records == []

    def test_release_is_called_where_there_is_no_close(self) -> None:
        view = memoryview(b"abc")
        Box.any(view).drop()
        with pytest.raises(ValueError, match="released"):
            view.tobytes()

    def test_a_generator_runs_its_finally(self) -> None:
        steps = []

        def numbers() -> Iterator[int]:
            try:
                yield 1
            finally:
                steps.append("closed")

        generator = numbers()
        next(generator)
        Box.any(generator).drop()
        assert steps == ["closed"]

    def test_a_temporary_folder_is_removed_and_an_executor_takes_no_more(self) -> None:
        folder = tempfile.TemporaryDirectory()
        executor = concurrent.futures.ThreadPoolExecutor(1)
        Box.any(folder).drop()
        Box.any(executor).drop()
        assert not Path(folder.name).exists()
        with pytest.raises(RuntimeError, match="after shutdown"):
            executor.submit(print)

    @pytest.mark.parametrize("stubborn", [False, True])
    def test_a_child_process_ends(self, stubborn: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("lumia.arc._PATIENCE", 0.05 if stubborn else 10.0)
        answer = "signal.SIG_IGN" if stubborn else "signal.SIG_DFL"
        script = f"import signal; signal.signal(signal.SIGTERM, {answer}); print('up', flush=True); signal.pause()"
        child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        Box.any(child).drop()
        assert child.returncode == -(signal.SIGKILL if stubborn else signal.SIGTERM)
        assert child.stdout.closed

    def test_the_standard_streams_stay_open(self) -> None:
        Box.any(sys.__stderr__).drop()
        Box.any([sys.stderr, sys.stdout]).drop()
        assert not sys.stderr.closed
        assert not sys.stdout.closed

    def test_modules_and_classes_that_have_a_close_are_not_called(self) -> None:
        Box.any(types.ModuleType("odd"), destructor=lambda _: None).drop()
        Box.any((Session, threading.Lock())).drop()
        Box.any(eval("lambda: lock", {"lock": threading.Lock()})).drop()

    def test_everything_in_a_container_or_dataclass_is_ended_last_one_first(self) -> None:
        order: list[str] = []

        @resource
        class Part:
            def __init__(self, name: str) -> None:
                self.name = name

            def close(self) -> None:
                order.append(self.name)

        @dataclass
        class Bundle:
            first: Any
            rest: dict[Any, Any]

        last = Part("f")
        bundle = Bundle(Part("a"), {"b": Part("b"), "c": [Part("c"), (Part("d"), {Part("e")})], last: last})
        bundle.rest["again"] = bundle
        Box.any(bundle).drop()
        assert order == ["f", "e", "d", "c", "b", "a"]

    def test_an_object_of_ones_own_ends_its_parts_itself(self) -> None:
        class Client:
            def __init__(self, *, closes: bool) -> None:
                self.session = Session()
                if closes:
                    type(self).close = lambda own: own.session.close()  # type: ignore[attr-defined]

        silent = Client(closes=False)
        Box.any(silent).drop()
        assert silent.session.closed == []
        closing = Client(closes=True)
        Box.any(closing).drop()
        assert len(closing.session.closed) == 1

    def test_a_resource_that_never_got_ready_ends_nothing(self) -> None:
        half: Arc = Arc.__new__(Arc)
        del half


class TestFailures:
    def test_a_failing_destructor_is_logged_and_stops_nobody(self, caplog: pytest.LogCaptureFixture) -> None:
        @resource
        class Broken:
            def close(self) -> None:
                raise OSError("disk gone")

        after = Session()
        Box.any([after, Broken()]).drop()
        assert len(after.closed) == 1
        (record,) = caplog.records
        assert record.name == "lumia.box"
        assert "releasing a" in record.getMessage()
        assert "Broken failed" in record.getMessage()
        assert "disk gone" in caplog.text

    def test_a_destructor_may_make_boxes(self) -> None:
        made: list[Box[Any]] = []
        Box.any(Session(), destructor=lambda session: made.append(Box.any(session))).drop()
        assert isinstance(made[0].into(), Session)
        assert made[0].into().closed == []

    def test_a_resource_that_was_released_is_refused(self) -> None:
        session = Session()
        box = Box.any(session)
        box._content.end()  # type: ignore[attr-defined]
        with pytest.raises(ArcError, match="already released"):
            box.into()
        renewed = Box.any(session)
        assert renewed.into() is session


class TestAsynchronousEnds:
    class Client:
        def __init__(self, fail: bool = False) -> None:
            self.ended: list[object] = []
            self.fail = fail

        async def aclose(self) -> None:
            await asyncio.sleep(0)
            if self.fail:
                raise OSError("gone")
            self.ended.append(asyncio.get_running_loop())

        def close(self) -> None:
            raise AssertionError("deprecated")

    def test_without_a_loop_it_runs_in_one_of_its_own(self) -> None:
        client = self.Client()
        Box.any(client).drop()
        assert len(client.ended) == 1

    def test_in_the_loop_it_was_boxed_in(self) -> None:
        client = self.Client()

        async def handler() -> None:
            Box.any(client).drop()
            while not client.ended:
                await asyncio.sleep(0)
            assert client.ended == [asyncio.get_running_loop()]

        asyncio.run(asyncio.wait_for(handler(), 10))

    def test_dropped_in_another_thread_it_still_runs_in_its_loop(self) -> None:
        client = self.Client()
        boxes: list[Box[Any]] = []

        async def handler() -> None:
            boxes.append(Box.any(client))
            await asyncio.to_thread(boxes.clear)
            while not client.ended:
                await asyncio.sleep(0)
            assert client.ended == [asyncio.get_running_loop()]

        asyncio.run(asyncio.wait_for(handler(), 10))

    def test_when_its_loop_is_gone_it_does_not_block_a_foreign_one(self) -> None:
        client = self.Client()
        boxes: list[Box[Any]] = []

        async def opens() -> None:
            boxes.append(Box.any(client))

        async def drops() -> None:
            boxes.clear()
            assert len(client.ended) == 1
            assert client.ended != [asyncio.get_running_loop()]

        asyncio.run(opens())
        asyncio.run(drops())

    def test_a_failure_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        Box.any(self.Client(fail=True)).drop()
        assert "releasing an asynchronous resource failed" in caplog.text

    def test_an_asynchronous_destructor_is_awaited(self) -> None:
        ended = []

        async def destructor(value: int) -> None:
            await asyncio.sleep(0)
            ended.append(value)

        Box.any(5, destructor=destructor).drop()
        assert ended == [5]

    def test_a_task_is_cancelled_in_its_loop_and_a_future_where_it_stands(self) -> None:
        async def handler() -> None:
            task = asyncio.ensure_future(asyncio.sleep(100))
            box = Box.any(task)
            await asyncio.to_thread(box.drop)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait_for(task, 10)
            assert task.cancelled()

        asyncio.run(handler())
        future: concurrent.futures.Future[int] = concurrent.futures.Future()
        Box.any(future).drop()
        assert future.cancelled()

    def test_a_task_of_a_closed_loop_is_left_alone(self, caplog: pytest.LogCaptureFixture) -> None:
        boxes: list[Box[Any]] = []

        async def opens() -> None:
            boxes.append(Box.any(asyncio.get_running_loop().create_future()))

        asyncio.run(opens())
        boxes.clear()
        assert caplog.records == []
