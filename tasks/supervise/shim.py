"""Become another program, under conditions that Python's own process start can't set.

Run as a script (`python -I -S shim.py [--parent PID] [--die SIGNAL] [--user UID:GID] [--cwd DIR] -- COMMAND…`) and
replaced by COMMAND at once, under the same pid. On Linux the command is sent SIGNAL when the supervisor dies, so not
even a SIGKILL of the supervisor leaves processes behind. With `--user` root hands the program to an ordinary account,
as Postgres asks; the capability to look past folder permissions stays, since a bot may live where only root may enter.
"""

from __future__ import annotations

import ctypes
import os
import sys

_PR_SET_PDEATHSIG, _PR_SET_KEEPCAPS, _PR_CAP_AMBIENT, _AMBIENT_RAISE = 1, 8, 47, 2
_DAC_OVERRIDE, _DAC_READ_SEARCH = 1, 2
_CAPABILITY_VERSION = 0x20080522


def become(user: str) -> None:
    """Change from root to `uid:gid`; keep the right to read and enter folders where the system allows it."""
    uid, gid = (int(part) for part in user.split(":"))
    linux = sys.platform == "linux"
    if linux:
        _prctl(_PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setresgid(gid, gid, gid) if linux else os.setgid(gid)
    os.setresuid(uid, uid, uid) if linux else os.setuid(uid)
    if linux and not _keep(_DAC_READ_SEARCH) and not _keep(_DAC_OVERRIDE):
        _drop_all()


def _keep(capability: int) -> bool:
    return _capset(1 << capability) and _prctl(_PR_CAP_AMBIENT, _AMBIENT_RAISE, capability)


def _drop_all() -> None:
    _capset(0)


def _capset(mask: int) -> bool:
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    data = (ctypes.c_uint32 * 6)(mask, mask, mask, 0, 0, 0)
    return bool(ctypes.CDLL(None).capset(header, data) == 0)


def _prctl(option: int, *values: int) -> bool:
    words = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    return bool(ctypes.CDLL(None).prctl(option, *words) == 0)


def main(arguments: list[str]) -> None:
    """Apply the options and become the command; exits 125 when the parent is already gone."""
    split = arguments.index("--")
    options = dict(zip(arguments[:split:2], arguments[1:split:2], strict=True))
    command = arguments[split + 1 :]
    if "--user" in options:
        become(options["--user"])
    if "--die" in options and sys.platform == "linux":
        _prctl(_PR_SET_PDEATHSIG, int(options["--die"]))
    if "--parent" in options and os.getppid() != int(options["--parent"]):
        raise SystemExit(125)
    os.chdir(options.get("--cwd", "."))
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
