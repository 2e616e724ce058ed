"""Files of messages: fetched once and safely into the blob store, and read from it for sending (docs/media.md)."""

from lumia.media.fetching import fetch
from lumia.media.links import guarded, link, unsigned_links
from lumia.media.receiving import RETRY, Place, receive
from lumia.media.sending import KINDS, File, files, outgoing, read, safe_name
from lumia.mediatypes import settled

__all__ = [
    "KINDS",
    "RETRY",
    "File",
    "Place",
    "fetch",
    "files",
    "guarded",
    "link",
    "outgoing",
    "read",
    "receive",
    "safe_name",
    "settled",
    "unsigned_links",
]
