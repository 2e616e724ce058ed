"""Files of messages: those inside of a message are stored at once, others are fetched before it goes on."""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote_to_bytes, urlsplit

import lumia

from . import accounts, api, incoming

_KINDS = ("image", "audio", "video")
_PLAIN = ":/&=@!$'()*+,;~-._"
"""Signs of an address that need no escape in the path of another: a ? would end it there."""
_TYPE = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}")


def is_inside(item: Mapping[str, Any]) -> bool:
    """Tell whether a file's bytes are in the message itself."""
    return str(item["source"]).startswith(("data:", "base64://"))


def described(items: Sequence[Mapping[str, Any]], proxied: Sequence[str]) -> list[dict[str, Any]]:
    """Return files as `msg` has them; those inside of the message are stored. Synchronous."""
    return [incoming.file(_stored(item) if is_inside(item) else item, proxied) for item in items]


def _stored(item: Mapping[str, Any]) -> dict[str, Any]:
    try:
        data, declared = _decoded(str(item["source"]))
        ref = lumia.blobs.put(data, lumia.media.settled(data, declared))
    except (ValueError, lumia.errors.BlobError) as error:
        return {**item, "source": "", "error": f"it could not be stored: {error}"}
    return {**item, "source": "", "blob": ref.as_dict(), "size": ref.size, "media_type": ref.media_type}


def _decoded(source: str) -> tuple[bytes, str]:
    if source.startswith("base64://"):
        return _unbased(source.removeprefix("base64://")), ""
    head, comma, rest = source.removeprefix("data:").partition(",")
    if not comma:
        raise ValueError("no data: address")
    declared = head.partition(";")[0]
    declared = declared if _TYPE.fullmatch(declared) else ""
    return (_unbased(rest) if head.endswith(";base64") else unquote_to_bytes(rest)), declared


def _unbased(text: str) -> bytes:
    try:
        return binascii.a2b_base64("".join(text.split()).encode("ascii"), strict_mode=True)
    except UnicodeEncodeError:
        raise ValueError("no base64") from None


def locate(item: Mapping[str, Any], msg: Mapping[str, Any]) -> lumia.media.Place:
    """Return where a file is: its own address, or the server's proxy for what only that can fetch."""
    server = accounts.find(str(msg["account"]).partition("/")[0])
    if server is None:
        raise lumia.errors.MediaError(f"[accounts.{msg['account']}] is no longer in {accounts.FILE}")
    ref = str(item.get("ref") or "")
    if not ref.startswith(("internal:", "upload:", "proxy:")):
        return lumia.media.Place(str(item["url"]), allowed_hosts=server.media_hosts)
    wanted = ref.removeprefix("proxy:")
    if ".." in wanted.split("/"):
        raise lumia.errors.MediaError("its address leads out of the Satori server's proxy")
    url = f"{server.api}/proxy/{quote(wanted, safe=_PLAIN)}"
    return lumia.media.Place(url, headers=_proof(server), allowed_hosts=[urlsplit(server.api).netloc])


def never_the_same(item: Mapping[str, Any]) -> str:
    """Tell that no file is known by its address: a server that was started anew gives one address to another file."""
    return ""


def _proof(server: accounts.Server) -> dict[str, str]:
    return {key: value for key, value in api.headers(server).items() if key == "Authorization"}
