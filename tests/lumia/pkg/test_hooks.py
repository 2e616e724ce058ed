"""Hooks in processes of their own: their environment, output, time limit and end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lumia.errors import HookError
from lumia.pkg import hooks
from tests.support.wait import until


def make(folder: Path, code: str, name: hooks.HookName = "post_install") -> hooks.Hook:
    (folder / "hooks").mkdir(exist_ok=True)
    (folder / "hooks" / f"{name}.py").write_text(code, "utf-8")
    found = hooks.find(name, "dice", folder, folder, "v1.0.0")
    assert found is not None
    return found


def gone(process: int) -> bool:
    """Tell whether a process has ended, be it that nobody has asked for its end yet."""
    try:
        return Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        return False


def test_a_plugin_without_the_hook_has_none(tmp_path: Path) -> None:
    assert hooks.find("post_install", "dice", tmp_path, tmp_path, "v1.0.0") is None


def test_output_is_given_line_by_line_without_what_acts_on_terminals(tmp_path: Path) -> None:
    seen: list[str] = []
    code = (
        "import sys\nprint('one\\x1b[2J', flush=True)\nprint('two', file=sys.stderr, flush=True)\nprint('x' * 9000)\n"
    )
    hooks.run(make(tmp_path, code + "print('end', end='')"), on_line=seen.append)
    assert seen[:2] == ["one", "two"]
    assert max(map(len, seen)) <= 2_000
    assert seen[-1] == "end"


def test_bytecode_hooks_run_too(tmp_path: Path) -> None:
    hook = make(tmp_path, "print('compiled')")
    code = "import py_compile, sys; py_compile.compile(sys.argv[1], sys.argv[1] + 'c')"
    subprocess.run([sys.executable, "-c", code, str(hook.file)], check=True)
    hook.file.unlink()
    seen: list[str] = []
    compiled = hooks.find("post_install", "dice", tmp_path, tmp_path, "v1.0.0")
    assert compiled is not None and compiled.file.suffix == ".pyc"
    hooks.run(compiled, on_line=seen.append)
    assert seen == ["compiled"]


@pytest.mark.parametrize(
    "code,said",
    [
        ("raise SystemExit(7)", "ended with exit code 7"),
        ("import os; os.kill(os.getpid(), 9)", "was ended by signal 9"),
        ("import os; os.kill(os.getppid(), 9)", "its guard was killed"),
        ("raise KeyError('x')", r"exit code 1; it said: .*KeyError: 'x'"),
    ],
)
def test_a_hook_that_fails_is_named_with_how_it_ended(tmp_path: Path, code: str, said: str) -> None:
    with pytest.raises(HookError, match=f"the post_install hook of dice .*{said}"):
        hooks.run(make(tmp_path, code))


def test_secrets_are_taken_out_of_output_and_error(tmp_path: Path) -> None:
    seen: list[str] = []
    with pytest.raises(HookError, match=r"it said: key \*\*\*$"):
        hooks.run(
            make(tmp_path, "print('key hunter22'); raise SystemExit(1)"),
            on_line=seen.append,
            redact=lambda text: text.replace("hunter22", "***"),
        )
    assert seen == ["key ***"]


def test_a_hook_that_takes_too_long_is_killed_with_all_it_started(tmp_path: Path) -> None:
    code = (
        "import os, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"
        f"print(os.getpid(), child.pid, file=open({str(tmp_path / 'pids')!r}, 'w'), flush=True)\nchild.wait()\n"
    )
    start = time.monotonic()
    with pytest.raises(HookError, match=r"took longer than 2 seconds and was stopped \(\[pkg\] hook_seconds"):
        hooks.run(make(tmp_path, code), seconds=2)
    assert time.monotonic() - start < 30
    for process in (tmp_path / "pids").read_text("ascii").split():
        until(lambda process=process: gone(int(process)))  # type: ignore[misc]


def test_what_a_hook_leaves_behind_ends_with_it_and_is_not_waited_for(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\nprint(child.pid)\n"
    )
    seen: list[str] = []
    hooks.run(make(tmp_path, code), on_line=seen.append)
    until(lambda: gone(int(seen[0])))


def test_a_hook_dies_with_the_pkg_that_runs_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()) + '.')\nwhile True: time.sleep(9)\n"
    make(tmp_path, code)
    run = (
        "import sys\nfrom pathlib import Path\nfrom lumia.pkg import hooks\nfolder = Path(sys.argv[1])\n"
        "hooks.run(hooks.find('post_install', 'dice', folder, folder, 'v1'))\n"
    )
    with subprocess.Popen([sys.executable, "-c", run, str(tmp_path)]) as pkg:
        until(lambda: pid.exists() and pid.read_text("ascii").endswith("."), timeout=30)
        pkg.send_signal(signal.SIGKILL)
    hook = int(pid.read_text("ascii").strip("."))
    until(lambda: gone(hook), timeout=30)
