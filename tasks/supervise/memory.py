"""How much memory the supervised processes take, all their children included."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tasks.supervise.state import UpState


@dataclass(frozen=True)
class Memory:
    """Bytes per service and in all. exact: shared pages were counted once (PSS); else they count in each process."""

    services: dict[str, int]
    exact: bool

    @property
    def total(self) -> int:
        return sum(self.services.values())


def measure(state: UpState) -> Memory:
    """Return the proportional set size of each service's process tree and of the supervisor itself."""
    trees = {"supervisor": [state.pid], **{one.name: _tree(one.pid) for one in state.services if one.pid}}
    sizes = {name: _sum(pids) for name, pids in trees.items()}
    return Memory({name: size for name, (size, _) in sizes.items()}, all(exact for _, exact in sizes.values()))


def megabytes(size: int) -> str:
    """Return bytes as `123 MiB`."""
    return f"{size / 1048576:.0f} MiB"


def _tree(pid: int | None) -> list[int]:
    import psutil

    try:
        process = psutil.Process(pid)
        return [process.pid, *(child.pid for child in process.children(recursive=True))]
    except psutil.Error:
        return []


def _sum(pids: Iterable[int]) -> tuple[int, bool]:
    sizes = [_size(pid) for pid in pids]
    return sum(size for size, _ in sizes), all(exact for _, exact in sizes)


def _size(pid: int) -> tuple[int, bool]:
    import psutil

    try:
        process = psutil.Process(pid)
        try:
            full = process.memory_full_info()
            return int(getattr(full, "pss", full.rss)), hasattr(full, "pss")
        except psutil.AccessDenied:
            return int(process.memory_info().rss), False
    except psutil.Error:
        return 0, True
