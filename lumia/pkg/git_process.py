"""Running git with everything off that a repository, a server or the surroundings could make it do."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, Literal

from lumia.pkg.text import plain

Progress = Callable[[str, float | None], None]
"""Called, from a thread of its own, with what is being done and how much of it is (0 to 1, None: nobody knows)."""
Kind = Literal["offline", "absent", "denied", "late", "large", "unsafe", "dumb", "full", "foreign", "missing", "other"]

PROTOCOLS = ("http", "https", "ssh", "git", "file")
_KEPT = frozenset(
    f"GIT_{name}"
    for name in ("SSH", "SSH_COMMAND", "SSL_CAINFO", "SSL_CAPATH", "CONFIG_GLOBAL", "CONFIG_SYSTEM", "CONFIG_NOSYSTEM")
)
"""What a user sets on purpose, for all repositories."""
_SETTINGS = {
    "protocol.ext.allow": "never",
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.symlinks": "true",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "core.autocrlf": "false",
    "core.quotePath": "false",
    "core.bigFileThreshold": "16m",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "fetch.unpackLimit": "1",
    "fetch.fsckObjects": "true",
    "fetch.fsck.zeroPaddedFilemode": "ignore",
    "fetch.fsck.badTimezone": "ignore",
    "fetch.fsck.missingSpaceBeforeDate": "ignore",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "commit.gpgSign": "false",
    "tag.gpgSign": "false",
    "init.defaultBranch": "main",
    "init.templateDir": "",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "30",
    "safe.directory": "*",
}
_MEMORY = 4 * 1024 * 1024  # KiB of address space: what a pack unfolds to is inflated in memory
# The shell sets the limits on the child alone; a call between fork and exec would do it in a process with threads.
# SIGXFSZ (25) is ignored, so that git is told of a file grown too large and tidies up.
_LIMITED = 'trap "" 25; ulimit -f "$1" 2>/dev/null; ulimit -v "$2" 2>/dev/null; ulimit -c 0; shift 2; exec git "$@"'
_GRACE = 2.0
_NOT_FOUND = 127
_ERR_CHARS = 64 * 1024
_PERCENT = re.compile(r"(?:remote: )?([A-Z][A-Za-z ]{2,40}):\s+(\d{1,3})% ")
_KINDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("large", re.compile(r"File too large|File size limit|[Oo]ut of memory|malloc failed")),
    ("full", re.compile(r"No space left on device|Out of diskspace|Disk quota exceeded|Read-only file system")),
    ("foreign", re.compile(r"dubious ownership")),
    ("dumb", re.compile(r"dumb http transport does not support shallow")),
    ("unsafe", re.compile(r"fsck error|transport '[^']*' not allowed|strange (?:hostname|pathname|port)|unsafe URL")),
    (
        "offline",
        re.compile(
            r"Could not resolve host|Failed to connect|Couldn't connect|Connection (?:refused|timed out|reset)"
            r"|Operation timed out|Operation too slow|Network is unreachable|No route to host|unable to look up"
            r"|Temporary failure in name resolution|Name or service not known|unable to connect"
        ),
    ),
    (
        "denied",
        re.compile(
            r"Authentication failed|could not read (?:Username|Password)|Permission denied|Host key verification"
            r"|terminal prompts disabled|returned error: 40[13]"
        ),
    ),
    (
        "absent",
        re.compile(
            r"[Rr]epository .*not found|does not (?:exist|appear to be a git)|not a git repository|returned error: 404"
            r"|couldn't find remote ref|not our ref|no such ref|unadvertised object|Could not find remote branch"
        ),
    ),
)


class GitFailed(Exception):
    """git ended with an error. kind: what stood in the way; text: git's last words, fit to be shown."""

    def __init__(self, kind: Kind, text: str) -> None:
        super().__init__(text)
        self.kind: Kind = kind
        self.text = text


@dataclass
class _Running:
    process: subprocess.Popen[bytes]
    late: bool = False
    stopped: bool = False
    said: list[str] = field(default_factory=list)

    def stop(self) -> None:
        """End the group: git removes its lock files on SIGTERM; what ignores that is killed."""
        self.stopped = True
        self._signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_GRACE)
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def out_of_time(self) -> None:
        self.late = True
        self.stop()


def run(
    args: Sequence[str],
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    settings: Sequence[tuple[str, str]] = (),
    max_file: int = 1 << 40,
    max_out: int = 64 * 1024 * 1024,
    progress: Progress | None = None,
    stdin: bytes = b"",
) -> bytes:
    """Run `git ARGS` and return its output. max_file: bytes of the largest file it may write. Raises `GitFailed`."""
    with piped(
        args, timeout=timeout, env=env, settings=settings, max_file=max_file, progress=progress, stdin=stdin
    ) as out:
        data = out.read(max_out + 1)
        if len(data) > max_out:
            raise GitFailed("large", f"git's answer is longer than {max_out} bytes")
    return data


@contextmanager
def piped(
    args: Sequence[str],
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    settings: Sequence[tuple[str, str]] = (),
    max_file: int = 1 << 40,
    progress: Progress | None = None,
    stdin: bytes = b"",
) -> Iterator[IO[bytes]]:
    """Give `git ARGS`' output as a stream; the block may leave before its end. Raises `GitFailed`.

    git runs in a session of its own, so it has no terminal to ask passwords on, and is ended as a whole group when the
    time is over, the block raises, or it reads no further.
    """
    running = _Running(_start(args, env, settings, max_file))
    process = running.process
    assert process.stdin and process.stdout and process.stderr
    threads = [
        threading.Thread(target=_listen, args=(process.stderr, running.said, progress), daemon=True),
        threading.Thread(target=_feed, args=(process.stdin, stdin), daemon=True),
    ]
    timer = threading.Timer(timeout, running.out_of_time)
    timer.daemon = True
    for thread in (*threads, timer):
        thread.start()
    try:
        yield process.stdout
        if process.stdout.read(1):
            running.stop()
        process.wait()
    except BaseException:
        running.stop()
        raise
    finally:
        timer.cancel()
        process.wait()
        for thread in threads:
            thread.join(_GRACE)
        process.stdout.close()
        process.stderr.close()
    if running.late:
        raise GitFailed("late", f"git was not done after {timeout:g} s")
    if process.returncode and not running.stopped:
        raise failure("".join(running.said), process.returncode)


def _start(
    args: Sequence[str], env: Mapping[str, str] | None, settings: Sequence[tuple[str, str]], max_file: int
) -> subprocess.Popen[bytes]:
    options = [part for key, value in (*_SETTINGS.items(), *settings) for part in ("-c", f"{key}={value}")]
    blocks = str(max(max_file // 512, 1))
    command = ["/bin/sh", "-c", _LIMITED, "git", blocks, str(_MEMORY), "--no-pager", *options, *args]
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**clean_environment(), **(env or {})},
            start_new_session=True,
        )
    except OSError as error:
        raise GitFailed("other", f"git can't be started: {error.strerror}") from None


def clean_environment() -> dict[str, str]:
    """Return this process's environment without what would change git's ways, a surrounding hook's `GIT_DIR` first."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_") or key in _KEPT}
    return {
        **kept,
        "GIT_ALLOW_PROTOCOL": ":".join(PROTOCOLS),
        "GIT_ASKPASS": "",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
        "SSH_ASKPASS_REQUIRE": "never",
    }


def _feed(pipe: IO[bytes], data: bytes) -> None:
    with suppress(OSError):
        if data:
            pipe.write(data)
        pipe.close()


def _listen(pipe: IO[bytes], said: list[str], progress: Progress | None) -> None:
    rest, kept = "", 0
    while chunk := os.read(pipe.fileno(), 8192):
        *lines, rest = re.split(r"[\r\n]", rest[-_ERR_CHARS:] + chunk.decode("utf-8", "replace"))
        for line in (*lines, rest):
            found = _PERCENT.match(line)
            if found and progress is not None:
                progress(found[1], min(int(found[2]), 100) / 100)
        for line in lines:
            if line and not _PERCENT.match(line) and kept < _ERR_CHARS:
                said.append(line + "\n")
                kept += len(line)
    said.append(rest)


def failure(said: str, code: int) -> GitFailed:
    """Return what git's last words and exit code mean."""
    kind: Kind = next((kind for kind, pattern in _KINDS if pattern.search(said)), "other")
    if code == _NOT_FOUND:
        return GitFailed("missing", "git is not installed, or not on PATH")
    lines = [line for line in said.splitlines() if line.startswith(("fatal:", "error:", "remote:", "ssh:"))]
    words = "; ".join(dict.fromkeys(plain(line, 200) for line in lines[-4:])) or plain(said[-300:])
    return GitFailed(kind, words or f"git ended with exit code {code}")
