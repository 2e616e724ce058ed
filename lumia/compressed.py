"""Large texts as journal and ledger keep them: zlib in base64, marked so that readers know."""

from __future__ import annotations

PLAIN = 64 * 1024
"""Characters up to which a text is kept as it is."""
_MARK = "z:"


def pack(text: str) -> str:
    """Return a compressed form of `text`."""
    import base64
    import zlib

    return _MARK + base64.b64encode(zlib.compress(text.encode(), 1)).decode()


def unpack(text: str) -> str:
    """Return the text a value of `pack` stands for; any other text is returned as it is."""
    if not text.startswith(_MARK):
        return text
    import base64
    import zlib

    return zlib.decompress(base64.b64decode(text[len(_MARK) :])).decode()


def fitted(text: str) -> str:
    """Return `text`, compressed when it is large; it must not begin with the mark (Box wire text never does)."""
    return text if len(text) <= PLAIN else pack(text)
