"""Files as the knowledge base takes them: read, told apart, and cut into chunks that can be found and cited.

Text, Markdown and PDF. A chunk ends where a section or a page, a paragraph or a sentence ends; the next one of its
section begins with the last sentence of the one before, so that what stands on a border is found as well.
"""

from __future__ import annotations

import hashlib
import io
import logging
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import lumia

MAX_BYTES = 20 * 1024 * 1024
MAX_CHARACTERS = 10_000_000
CHUNK_WEIGHT = 1000
"""How long a chunk may be: a letter counts one, a Chinese or Japanese sign three; about 300 tokens of e5."""
OVERLAP_WEIGHT = 200
_CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_SENTENCE = re.compile(r"(?<=[.!?…])[\"'”’)]*\s+|(?<=[。！？；])(?![」』”’])|\n")
_HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*\s*$")
_FENCE = re.compile(r"\s*(```|~~~)")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_SHOWN_HEADING = 120


class KnowledgeError(lumia.errors.LumiaError):
    """A file that can't be added to the knowledge base; the message says which, why, and what to do."""


@dataclass(frozen=True)
class Document:
    """A file's text in pieces. source: its absolute path; hash: SHA-256 of its bytes."""

    source: str
    name: str
    kind: Literal["text", "markdown", "pdf"]
    hash: bytes
    bytes: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Block:
    """A paragraph. heading: the path of headings above it, with ` › ` between; page: of a PDF, from 1."""

    text: str
    heading: str = ""
    page: int | None = None


@dataclass(frozen=True)
class Chunk:
    """What is embedded and found. number: within the document, from 1; page: of a PDF."""

    number: int
    text: str
    heading: str = ""
    page: int | None = None

    @property
    def content(self) -> str:
        """Return what is stored and embedded: the text with its heading in front, which tells what it is about."""
        return f"{self.heading}\n{self.text}" if self.heading else self.text


def read(path: Path) -> Document:
    """Return the document in `path`; raises `KnowledgeError` for what can't be read as one."""
    raw = _bytes(path)
    found = _kind(path, raw)
    blocks = tuple(_pdf(path, raw) if found == "pdf" else _blocks(_text(path, raw), markdown=found == "markdown"))
    if not blocks:
        hint = "; its pages are pictures, so run OCR over it first" if found == "pdf" else ""
        raise KnowledgeError(f"{path}: there is no text in it{hint}")
    if sum(len(block.text) for block in blocks) > MAX_CHARACTERS:
        raise KnowledgeError(f"{path}: more than {MAX_CHARACTERS:,} characters of text; split it into several files")
    return Document(shown(path.resolve()), shown(path.name), found, hashlib.sha256(raw).digest(), len(raw), blocks)


def chunks(document: Document) -> list[Chunk]:
    """Return the chunks of a document, in its order."""
    found: list[Chunk] = []
    for section in _sections(document.blocks):
        heading, page = section[0].heading[:_SHOWN_HEADING], section[0].page
        found += [Chunk(len(found) + number, text, heading, page) for number, text in enumerate(_packed(section), 1)]
    return found


def weight(text: str) -> int:
    """Return how long `text` is for a model: see `CHUNK_WEIGHT`."""
    return len(text) + 2 * len(_CJK.findall(text))


def shown(name: str | Path) -> str:
    """Return a file's name as a database takes it: bytes that are no UTF-8 are written as `\\udcff`."""
    return str(name).encode("utf-8", "backslashreplace").decode()


# --- reading


def _bytes(path: Path) -> bytes:
    try:
        known = path.stat()
        if stat.S_ISDIR(known.st_mode):
            raise KnowledgeError(f"{path} is a folder; name files, for example {path}/*.md")
        if not stat.S_ISREG(known.st_mode):  # a pipe may never end, and neither does /dev/zero
            raise KnowledgeError(f"{path}: a device or a pipe; name a file")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)  # whatever its size says: it may grow, and files of /proc say 0
        if len(raw) > MAX_BYTES:
            size = max(known.st_size, len(raw)) / 2**20
            raise KnowledgeError(
                f"{path}: {size:.1f} MiB are more than the {MAX_BYTES >> 20} MiB a file may have; split it"
            )
    except OSError as error:
        raise KnowledgeError(f"{path}: {error.strerror or error}; check the name and who may read it") from error
    if not raw.strip():
        raise KnowledgeError(f"{path}: the file is empty")
    return raw


def _kind(path: Path, raw: bytes) -> Literal["text", "markdown", "pdf"]:
    if raw[:1024].lstrip().startswith(b"%PDF-"):
        return "pdf"
    if path.suffix.lower() == ".pdf":
        raise KnowledgeError(f"{path}: it is named .pdf and is none (no %PDF- at its start)")
    return "markdown" if path.suffix.lower() in (".md", ".markdown", ".mdown") else "text"


def _text(path: Path, raw: bytes) -> str:
    for mark, encoding in ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if raw.startswith(mark):
            return _clean(_decoded(path, raw, encoding))
    if b"\x00" in raw:
        raise KnowledgeError(f"{path}: a binary file; the knowledge base takes text, Markdown and PDF")
    try:
        return _clean(raw.decode("utf-8"))
    except UnicodeDecodeError:
        pass
    text = _decoded(path, raw, "gb18030")  # Chinese text from Windows
    if len(_CJK.findall(text)) * 5 < 2 * len("".join(text.split())):
        raise KnowledgeError(f"{path}: neither UTF-8 nor another text this can read; save it as UTF-8")
    return _clean(text)


def _decoded(path: Path, raw: bytes, encoding: str) -> str:
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise KnowledgeError(f"{path}: neither UTF-8 nor another text this can read; save it as UTF-8") from error


def _clean(text: str) -> str:
    return _CONTROLS.sub(" ", text.replace("\r\n", "\n").replace("\r", "\n")).encode("utf-8", "replace").decode()


def _blocks(text: str, *, markdown: bool) -> Iterator[Block]:
    """Yield paragraphs; in Markdown with the headings above them, and a fenced code block as one."""
    headings: list[tuple[int, str]] = []
    lines: list[str] = []
    fenced = False

    def paragraph() -> Iterator[Block]:
        joined = "\n".join(lines).strip()
        lines.clear()
        if joined:
            yield Block(joined, " › ".join(title for _, title in headings))

    for line in text.split("\n"):
        if markdown and _FENCE.match(line):
            fenced = not fenced
        heading = _HEADING.match(line) if markdown and not fenced else None
        if heading:
            yield from paragraph()
            level = len(heading[1])
            headings = [one for one in headings if one[0] < level] + [(level, heading[2])]
        elif line.strip() or fenced:
            lines.append(line.rstrip())
        else:
            yield from paragraph()
    yield from paragraph()


def _pdf(path: Path, raw: bytes) -> Iterator[Block]:
    from pypdf import PdfReader

    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns of every small fault that it mends
    try:
        reader = PdfReader(io.BytesIO(raw))
        if reader.is_encrypted and not reader.decrypt(""):
            raise KnowledgeError(f"{path}: encrypted with a password; save a copy without one")
        for number, page in enumerate(reader.pages, 1):
            for block in _blocks(_clean(page.extract_text()), markdown=False):
                yield Block(block.text, "", number)
    except KnowledgeError:
        raise
    except Exception as error:  # a damaged file breaks its parser in any way
        what = str(error) or repr(error)
        raise KnowledgeError(f"{path}: damaged, it can't be read as PDF: {what}; save it anew") from error


# --- cutting


def _sections(blocks: Iterable[Block]) -> Iterator[list[Block]]:
    """Yield what stands under one heading, and on one page, so that a chunk can be cited exactly."""
    section: list[Block] = []
    for block in blocks:
        if section and (block.heading, block.page) != (section[0].heading, section[0].page):
            yield section
            section = []
        section.append(block)
    if section:
        yield section


def _packed(section: list[Block]) -> Iterator[str]:
    """Yield texts of at most `CHUNK_WEIGHT` that overlap by a sentence."""
    held: list[str] = []
    size = 0
    for piece in _pieces(section):
        added = weight(piece)
        if held and size + added > CHUNK_WEIGHT:
            yield "".join(held).strip()
            last = weight(held[-1])
            keep = last <= OVERLAP_WEIGHT and last + added <= CHUNK_WEIGHT
            held, size = ([held[-1]], last) if keep else ([], 0)
        held.append(piece)
        size += added
    yield "".join(held).strip()


def _pieces(section: list[Block]) -> Iterator[str]:
    """Yield sentences, each with the space that followed it; a paragraph ends with an empty line."""
    for block in section:
        start = 0
        for end in (*(found.end() for found in _SENTENCE.finditer(block.text)), len(block.text)):
            sentence = block.text[start:end]
            start = end
            if sentence.strip():
                yield from _cut(sentence + "\n\n" if end == len(block.text) else sentence)


def _cut(sentence: str) -> Iterator[str]:
    """Yield a sentence in parts no heavier than a chunk: some texts have no sentences."""
    while weight(sentence) > CHUNK_WEIGHT:
        at = CHUNK_WEIGHT if not _CJK.search(sentence) else CHUNK_WEIGHT // 3
        space = sentence.rfind(" ", at // 2, at)
        at = space + 1 if space > 0 else at
        yield sentence[:at]
        sentence = sentence[at:]
    yield sentence
