"""Telegram counts text in UTF-16 code units: an astral character such as 😀 is two."""

from __future__ import annotations


class Units:
    """A text that is cut by offsets in UTF-16 code units."""

    def __init__(self, text: str) -> None:
        self._data = text.encode("utf-16-le", "surrogatepass")

    def __len__(self) -> int:
        return len(self._data) // 2

    def cut(self, start: int, end: int) -> str:
        """Return what stands from `start` up to `end`; half of a character becomes U+FFFD."""
        return self._data[2 * start : 2 * end].decode("utf-16-le", "replace")
