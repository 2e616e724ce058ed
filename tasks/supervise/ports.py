"""Whether a port is free, and who has it when it isn't."""

from __future__ import annotations

import errno
import socket
import sys

from lumia.errors import SupervisorError


def is_free(host: str, port: int) -> bool:
    """Tell whether a server could listen on `host`:`port` now."""
    return _refusal(host, port) is None


def must_be_free(host: str, port: int, *, key: str, used_by: str) -> None:
    """Raise `SupervisorError` naming the port, who has it and the config key to change."""
    refused = _refusal(host, port)
    if refused is None:
        return
    if refused.errno == errno.EADDRINUSE:
        why = f"port {port} is taken by {owner(port) or 'another process'}"
    else:
        why = f"{host}:{port} can't be listened on ({refused.strerror or refused})"
    raise SupervisorError(
        f"{why}, and {used_by} needs it; end that process, change `{key}` in config/lumia.toml, "
        "or start with `lumia up --port N` (four ports in a row from N)"
    )


def _refusal(host: str, port: int) -> OSError | None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            return error
    return None


def owner(port: int) -> str | None:
    """Name the process that listens on `port`, when the system lets this user know it."""
    import psutil

    try:
        for one in psutil.net_connections("tcp"):
            if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port and one.pid:
                return f"{psutil.Process(one.pid).name()} (pid {one.pid})"
    except psutil.Error:
        return None
    return None


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port nobody listens on at the moment."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        if sys.platform != "win32":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
