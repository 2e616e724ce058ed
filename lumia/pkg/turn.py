"""The turn to change a bot's plugins: on all its machines one process has it (docs/hot-reload.md).

On one machine it is a `flock`, which ends with its process; between machines a lease in Redis, which its holder keeps
and which ends soon after it was heard of last. Its token goes along with what is handed over, so a holder that stood
still and was overtaken changes nothing any more. It is taken before `data/pkg/lock`, never while that is held.
"""

from __future__ import annotations

import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from lumia.deployment import Deployments, Holder, lock_place
from lumia.errors import BackendUnavailableError, BusyTurnError, PkgError
from lumia.pkg import mutex
from lumia.pkg.deploying import HINDERED, reached
from lumia.pkg.layout import Layout
from lumia.pkg.text import plain

LEASE_SECONDS = 10.0
"""After so long without a sign of its holder a turn is over."""
KEEP_SECONDS = 2.5
LOOK_SECONDS = 0.1
FILE = "turn"
"""In data/pkg: the file whose `flock` the holder on this machine has."""


@contextmanager
def take(root: Path, *, timeout: float | None = None, say: Callable[[str], None] = lambda text: None) -> Iterator[int]:
    """Have the turn within the block, and give its token; 0 where the bot's broker can't be reached.

    timeout: seconds to wait for another holder, None without end. say: is told whom it is waited for. Raises
    `HeldError` naming the holder when the time is over.
    """
    with ExitStack() as held:
        yield _taken(root, timeout, timeout, say, held)


@contextmanager
def attempt(root: Path, timeout: float) -> Iterator[int]:
    """Have the turn within the block if it can be had; else give 0, and go on without it.

    timeout: seconds to wait for a holder on another machine; one on this machine is not waited for. It can't be had
    either where this process may not write, or the broker doesn't let it.
    """
    with ExitStack() as held:
        try:
            token = _taken(root, 0, timeout, lambda text: None, held)
        except (PkgError, *HINDERED):
            token = 0
        yield token


def _taken(root: Path, here: float | None, elsewhere: float | None, say: Callable[[str], None], held: ExitStack) -> int:
    try:
        transport, _ = held.enter_context(reached(root))
        deployments = transport.deployments()
        deployments.look()
    except HINDERED:
        raise  # `reached` tells it
    except BackendUnavailableError:
        return 0
    lock = held.enter_context(mutex.hold(Layout(root), FILE, timeout=here, on_wait=say))
    try:
        token = _leased(deployments, _holder(lock), elsewhere, say)
    except HINDERED:
        raise
    except BackendUnavailableError:
        return 0
    held.enter_context(_kept(deployments, token))
    return token


def _holder(lock: int) -> Holder:
    command = " ".join([os.path.basename(sys.argv[0] or "python"), *sys.argv[1:]])
    return Holder(secrets.token_hex(8), lock_place(lock), os.getpid(), plain(command, 120))


def _leased(deployments: Deployments, me: Holder, timeout: float | None, say: Callable[[str], None]) -> int:
    until = None if timeout is None else time.monotonic() + timeout
    over, told = 0, ""
    while True:
        try:
            return deployments.take_turn(me, LEASE_SECONDS, over)
        except BusyTurnError as busy:
            if busy.place == me.place:
                over = busy.token  # we have its flock, so it is dead
                continue
            if until is not None and time.monotonic() >= until:
                raise mutex.HeldError(
                    f"another operation is going on: {busy.who}; try again when it has ended, or leave out --no-wait "
                    "to wait for it"
                ) from busy
            if busy.who != told:
                say(f"waiting for {busy.who}")
                told = busy.who
        time.sleep(LOOK_SECONDS)


@contextmanager
def _kept(deployments: Deployments, token: int) -> Iterator[None]:
    ending = threading.Event()

    def keep() -> None:
        while not ending.wait(KEEP_SECONDS):
            with suppress(BackendUnavailableError):
                if not deployments.keep_turn(token, LEASE_SECONDS):
                    return  # what is handed over with this token is refused

    thread = threading.Thread(target=keep, name="lumia-pkg-turn", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join(KEEP_SECONDS)
        with suppress(BackendUnavailableError):
            deployments.end_turn(token)
