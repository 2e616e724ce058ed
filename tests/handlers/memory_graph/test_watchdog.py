"""Sockets that wait too long are shut, those released in time are left alone."""

from __future__ import annotations

import socket

import pytest

from handlers.memory_graph.watchdog import Watchdog
from lumia.testing import Bot, ManualClock


def test_a_read_that_takes_too_long_ends() -> None:
    here, there = socket.socketpair()
    with here, there, Watchdog().limited(here.fileno(), 0.05):
        assert here.recv(1) == b""


def test_the_earliest_ends_first_whenever_it_came() -> None:
    watchdog = Watchdog()
    one, one_peer = socket.socketpair()
    two, two_peer = socket.socketpair()
    with one, one_peer, two, two_peer, watchdog.limited(one.fileno(), 60.0):
        with watchdog.limited(two.fileno(), 0.05):
            assert two.recv(1) == b""
        one_peer.send(b"x")
        assert one.recv(1) == b"x"


def test_a_socket_that_was_released_stays_open() -> None:
    watchdog = Watchdog()
    here, there = socket.socketpair()
    other, other_peer = socket.socketpair()
    with here, there, other, other_peer:
        with watchdog.limited(here.fileno(), 0.02):
            pass
        with watchdog.limited(other.fileno(), 0.1):
            assert other.recv(1) == b""  # by now the first one's time is over, too
        there.send(b"x")
        assert here.recv(1) == b"x"


def test_a_clock_that_stands_still_or_begins_anew_changes_nothing() -> None:
    watchdog = Watchdog()
    first, first_peer = socket.socketpair()
    here, there = socket.socketpair()
    with first, first_peer, here, there:
        with Bot(clock=ManualClock()), watchdog.limited(first.fileno(), 0.0):
            assert first.recv(1) == b""
        with watchdog.limited(here.fileno(), 0.05):
            assert here.recv(1) == b""


def test_an_error_of_the_block_passes_and_releases() -> None:
    watchdog = Watchdog()
    here, there = socket.socketpair()
    with here, there:
        with pytest.raises(ZeroDivisionError), watchdog.limited(here.fileno(), 60.0):
            raise ZeroDivisionError
        assert not watchdog._watched
