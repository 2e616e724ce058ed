"""Lifecycle hooks: scripts of a plugin that run when it comes, changes and goes (spec §7.4; docs/pkg-operations.md).

A hook is `hooks/<name>.py` or `.pyc` in the plugin, run by the bot's own Python in the plugin's folder, with nothing to
read on its standard input. It is a plugin's code and as trusted as the plugin; it never runs in `pkg`'s own process.
"""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lumia.errors import HookError
from lumia.pkg import failpoints
from lumia.pkg.text import plain

HookName = Literal["pre_install", "post_install", "pre_upgrade", "post_upgrade", "pre_uninstall", "post_uninstall"]
SECONDS = 120
_GUARD = Path(__file__).with_name("hook_guard.py")
_MOST_LINES = 10_000
_LONGEST = 2_000
_SHOWN = 5


@dataclass(frozen=True)
class Hook:
    """One hook of one plugin. folder: where the plugin's files are now. before: the version that is replaced."""

    name: HookName
    plugin: str
    file: Path
    folder: Path
    root: Path
    version: str
    before: str | None = None

    def environment(self) -> Mapping[str, str]:
        """Return the environment of the specification, on top of this process's own."""
        mine = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        mine |= {"PLUGIN_NAME": self.plugin, "PLUGIN_VERSION": self.version, "BOT_ROOT": str(self.root)}
        mine |= {"PLUGIN_DIR": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
        for name in ("PREV_VERSION", failpoints.VARIABLE):
            mine.pop(name, None)
        return mine | ({"PREV_VERSION": self.before} if self.before is not None else {})


def find(name: HookName, plugin: str, folder: Path, root: Path, version: str, before: str | None = None) -> Hook | None:
    """Return the hook `name` of the plugin in `folder`; None when it has none."""
    for suffix in (".py", ".pyc"):
        file = folder / "hooks" / f"{name}{suffix}"
        if file.is_file():
            return Hook(name, plugin, file.absolute(), folder.absolute(), root.absolute(), version, before)
    return None


def run(
    hook: Hook,
    *,
    seconds: float = SECONDS,
    on_line: Callable[[str], None] = lambda line: None,
    redact: Callable[[str], str] = str,
    keep: int | None = None,
) -> None:
    """Run a hook to its end, giving each line it prints to `on_line` at once, fit to be shown.

    redact: takes secrets out of a line. keep: a descriptor that lives as long as the hook does, even if this process is
    killed. Raises `HookError` when the hook ends with another exit code than 0, or takes longer than `seconds`; it is
    killed then, with all it started.
    """
    last: list[str] = []

    def told(line: str) -> None:
        shown = redact(line)
        last[:] = [*last[1 - _SHOWN :], shown]
        on_line(shown)

    result = _run(hook, seconds, told, keep)
    if result == "exit 0":
        return
    said = f"; it said: {' / '.join(last)}" if last else ""
    raise HookError(f"the {hook.name} hook of {hook.plugin} {_ended(result, seconds)}{said}")


def _ended(result: str, seconds: float) -> str:
    kind, _, detail = result.partition(" ")
    if kind == "exit":
        return f"ended with exit code {detail}"
    if kind == "signal":
        return f"was ended by signal {detail}"
    if kind == "timeout":
        return f"took longer than {seconds:g} seconds and was stopped ([pkg] hook_seconds in config/lumia.toml)"
    return f"can't be run: {plain(detail) or 'its guard was killed'}"


def _run(hook: Hook, seconds: float, on_line: Callable[[str], None], keep: int | None) -> str:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [sys.executable, "-I", "-S", str(_GUARD), str(theirs.fileno()), str(seconds)]
        inherited = (theirs.fileno(),) if keep is None else (theirs.fileno(), keep)
        guard = subprocess.Popen(
            [*command, sys.executable, str(hook.file)], cwd=hook.folder, env=hook.environment(),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=inherited,
            start_new_session=True,
        )  # fmt: skip
        theirs.close()
        try:
            return _followed(guard, ours, on_line)
        finally:
            ours.close()  # the guard kills the hook then
            guard.wait()
            if guard.stdout is not None:
                guard.stdout.close()


def _followed(guard: subprocess.Popen[bytes], control: socket.socket, on_line: Callable[[str], None]) -> str:
    """Return what the guard tells in the end; until then give lines on; what comes later is dropped."""
    assert guard.stdout is not None
    output = guard.stdout.fileno()
    os.set_blocking(output, False)
    lines = _Lines(on_line)
    with selectors.DefaultSelector() as ready:
        ready.register(output, selectors.EVENT_READ)
        ready.register(control, selectors.EVENT_READ)
        while True:
            found = {key.fd for key, _ in ready.select()}
            if output in found and not lines.take(output):
                ready.unregister(output)
            if control.fileno() in found:
                result = control.recv(4096).decode("utf-8", "replace")
                for _ in range(4):  # more than a pipe holds: what is left behind may be written to for ever
                    if not lines.take(output):
                        break
                lines.end()
                return result


class _Lines:
    """Cuts a stream of bytes into lines fit to be shown; a very long line into pieces, so none fills our memory."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line, self._rest, self._left = on_line, b"", _MOST_LINES

    def take(self, descriptor: int) -> bool:
        """Read what there is; False when there is nothing, now or ever."""
        try:
            data = os.read(descriptor, 65536)
        except BlockingIOError:
            return False
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            self._give(line)
        if len(self._rest) > _LONGEST:
            self.end()
        return bool(data)

    def end(self) -> None:
        """Give what came after the last line end."""
        self._give(self._rest)
        self._rest = b""

    def _give(self, line: bytes) -> None:
        text = plain(line.decode("utf-8", "replace"), _LONGEST)
        if text and self._left:
            self._left -= 1
            self._on_line(text)
