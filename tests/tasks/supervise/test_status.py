"""The table of `lumia status` and the memory it shows."""

from __future__ import annotations

import io
import os
import time

from tasks.supervise.identity import start_mark
from tasks.supervise.memory import measure, megabytes
from tasks.supervise.state import ServiceState, UpState
from tasks.supervise.status import show


def state() -> UpState:
    me = ServiceState("worker", os.getpid(), "ready", None, since=time.time() - 120, restarts=2)
    other = ServiceState("redis", None, "ready", "redis://a-very-long-name-of-a-machine.example.org:6379/0")
    return UpState(os.getpid(), start_mark(os.getpid()), ready=True, services=(me, other))


def test_the_table_shows_every_service_with_its_whole_address() -> None:
    out = io.StringIO()
    show(state(), out)
    text = out.getvalue()
    assert "redis://a-very-long-name-of-a-machine.example.org:6379/0" in text
    assert "ready, 2 restarts" in text
    assert "2 min" in text
    assert str(os.getpid()) in text


def test_memory_is_summed_over_everything_that_runs() -> None:
    memory = measure(state())
    assert memory.services["worker"] > 5 << 20
    assert memory.total == sum(memory.services.values())
    assert megabytes(3 << 20) == "3 MiB"


def test_a_process_that_is_gone_takes_no_memory() -> None:
    gone = UpState(2**22 + 1, 1.0, services=(ServiceState("x", 2**22 + 1, "ready", None),))
    assert measure(gone).total == 0
