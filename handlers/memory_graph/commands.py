"""`lumia memory …`: look into the memory, pin and forget, keep it in shape, and measure it."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import lumia

from . import engine
from .types import Calibration

if TYPE_CHECKING:
    import psycopg

Group = Annotated[str, "Only this chat: its id, or platform:account:kind:id."]
AsJson = Annotated[bool, "Print JSON."]
_COMMANDING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What could command a terminal, or turn a line around."""


@lumia.command("memory query", help="Ask the memory, as a message would, and see why each line came back")
def query(
    text: Annotated[str, "What to ask."],
    group: Group = "",
    sender: Annotated[str, "Id of who asks; their own words come a little sooner."] = "",
    top_k: Annotated[int, "How many lines."] = 10,
    json_: AsJson = False,
) -> int:
    """Ask the memory, in every chat or in one; prints score, id, day, chat, who, text and why. Strengthens nothing.

    Example: lumia memory query "where does Ann's sister live?" --group lab --top-k 5
    """
    from . import operations
    from .service import as_json

    if not text.strip() or not 1 <= top_k <= 100:
        return usage_error("TEXT is not empty and --top-k is a number from 1 to 100")
    found = operations.query(text, group, sender, top_k)
    if json_:
        print(json.dumps({chat: as_json(one) for chat, one in found}, ensure_ascii=False))
        return 0
    lines = sorted(
        ((chat, one) for chat, recalled in found for one in recalled.instances), key=lambda line: -line[1].score
    )
    for chat, one in lines[:top_k]:
        said = one.instance
        why = ", ".join(f"{reason} {reason.score:+.1f}" for reason in one.reasons)
        who = said.sender_name or said.sender or said.kind
        head = f"{one.score:6.2f}  {said.id}  {_day(said.created_at)}  {chat or '(bot)'}"
        tell(f"{head}  {who}: {_line(said.content)}  [{why}]")
    if not lines:
        note("the memory holds nothing on that")
    return 0


@lumia.command("memory stats", help="How much the memory holds, with which embedder, and where")
def stats(json_: AsJson = False) -> int:
    """Show how much the memory holds, its size on disk, its embedder, and its fullest chats.

    Example: lumia memory stats --json
    """
    from . import operations

    with reading() as connection:
        found = operations.stats(connection, engine.bot_name())
    if json_:
        print(json.dumps(found, ensure_ascii=False))
        return 0
    for name, value in found.items():
        tell(f"{name:10}  {_told(name, value)}")
    return 0


@lumia.command("memory show", help="One record or topic in full, with what hangs on it")
def show(
    id: Annotated[str, "Id of a record or topic, as `lumia memory query` prints it."], json_: AsJson = False
) -> int:
    """Show a record with its topics, or a topic with its neighbours and what was said about it.

    Example: lumia memory show 01m7zv0k3q8r2s5t6v7w8x
    """
    from . import operations

    with reading() as connection:
        found = operations.show(connection, engine.bot_name(), id, now=lumia.system.now())
    if json_:
        print(json.dumps(asdict(found), ensure_ascii=False))
        return 0
    for name, value in found.record.items():
        shown = value["chat"] or "(bot)" if name == "scope" else value
        tell(f"{name:14}  {_moment(float(value)) if name in ('created_at', 'last_accessed') else shown}")
    for weight, kind, near in found.near:
        tell(f"{kind:14}  {weight:.2f}  {near}")
    for one in found.said:
        tell(f"said            {_day(one['created_at'])}  {one['sender_name'] or one['kind']}: {_line(one['content'])}")
    return 0


@lumia.command("memory pin", help="Keep a record or topic from being forgotten by itself")
def pin(id: Annotated[str, "Id of a record or topic."]) -> int:
    """Pin a record or topic: it fades, but is never evicted.

    Example: lumia memory pin 01m7zv0k3q8r2s5t6v7w8x
    """
    return _pin(id, pinned=True)


@lumia.command("memory unpin", help="Let a pinned record or topic be forgotten again")
def unpin(id: Annotated[str, "Id of a record or topic."]) -> int:
    """Unpin a record or topic.

    Example: lumia memory unpin 01m7zv0k3q8r2s5t6v7w8x
    """
    return _pin(id, pinned=False)


@lumia.command("memory forget", help="Forget records, a person or a chat; the recycle table keeps them for a while")
def forget(
    *ids: Annotated[str, "Ids of records or topics."],
    sender: Annotated[str, "Everything this person said; their profile, relations and hints for good."] = "",
    group: Annotated[str, "Everything of this chat, with its people and hints; with --sender what they said."] = "",
    yes: Annotated[bool, "Don't ask."] = False,
) -> int:
    """Forget records or topics by id, what a person said, or a whole chat.

    Example: lumia memory forget --sender 10001 --yes
    """
    from . import operations

    if not ids and not sender and not group:
        return usage_error("name ids, --sender or --group")
    with reading() as connection:
        found = operations.selected(connection, engine.bot_name(), ids, sender, group)
        chat = operations.chat_named(connection, engine.bot_name(), group) if group else None
        whose = operations.named(connection, engine.bot_name(), sender, chat) if sender else None
    count = sum(map(len, found.values()))
    whole = bool(group) and not sender and not ids
    if not found and not whose:
        note("there is nothing to forget")
        return 0
    places = ", ".join(scope.chat or "(bot)" for scope in found)
    also = " and who takes part" if whole else " and who they are" if sender else ""
    if not yes and not _agreed(f"Forget {count} records{also} in {places or 'any chat'}?"):
        return 1
    hinted = operations.forget_hints(whose) if whose else 0  # first: the names they are looked for go afterwards
    if not found and not hinted:
        note("there is nothing to forget")
        return 0
    with progress("forgetting", count) as at:
        gone = operations.forget(found, sender=sender, group=whole, progress=at)
    what = f"{gone.instances} records, {gone.topics} topics and {gone.edges} associations"
    print(f"forgot {what}{f', and {hinted} hints' if hinted else ''}{_way_back(gone.batch)}")
    return 0


@lumia.command("memory restore", help="Bring back what was forgotten or evicted, while the recycle table has it")
def restore(batch: Annotated[str, "The batch, as `lumia memory forget` and `decay` print it."]) -> int:
    """Bring back a batch of the recycle table. A profile that was forgotten stays so.

    Example: lumia memory restore 01m7zv0k3q8r2s5t6v7w8x
    """
    from . import operations

    back = operations.restore(batch)
    print(f"brought back {back.instances} records, {back.topics} topics and {back.edges} associations")
    return 0


@lumia.command("memory decay", help="Evict what has faded now rather than tonight, or show what would go")
def decay(
    dry_run: Annotated[bool, "Change nothing, show what would go."] = False, json_: AsJson = False
) -> int:  # fmt: skip
    """Evict topics whose strength has faded and that nobody used for a month; the recycle table keeps them.

    Example: lumia memory decay --dry-run
    """
    from . import forgetting, work

    now = lumia.system.now()
    if not dry_run:
        done = work.forget_daily(now)
        if json_:
            print(json.dumps(done))
            return 0
        gone = f"{done['topics']} topics, {done['instances']} records and {done['edges']} associations"
        print(f"evicted {gone}{_way_back(done['batch'])}; {done['cleaned']} rows were kept long enough")
        return 0
    with reading() as connection:
        found = forgetting.dry_run(connection, engine.bot_name(), now=now)
    if json_:
        print(json.dumps(asdict(found), ensure_ascii=False))
        return 0
    print(f"would evict {found.topics} topics, {found.instances} records and {found.edges} associations")
    for name in found.names:
        tell(f"  {name}")
    return 0


@lumia.command(
    "memory rebuild", help="Embed everything anew with the configured model; can be ended and taken up again"
)
def rebuild(abandon: Annotated[bool, "Give up a rebuild that has begun; the old vectors stay."] = False) -> int:
    """Embed everything with the embedder that is configured now, then let it take the old one's place at once.

    The bot goes on with the old vectors meanwhile; restart its workers afterwards.

    Example: lumia memory rebuild
    """
    from . import reembed

    stored = engine.stored()
    stored.prepare()  # makes the tables of a memory that has none yet
    if abandon:
        with closing(stored.connect()) as connection:
            reembed.abandon(connection)
        print("the rebuild is given up; the old embedder stays")
        return 0
    work = engine.current()
    with progress(f"embedding with {work.embedder.model}", 0) as at:
        for step in reembed.rebuild(work.database, work.embedder):
            at(step.done, step.total)
    shown = f"{work.embedder.model} ({work.embedder.dimension} numbers)"
    print(f"{step.total} texts are embedded with {shown}" if step.total else f"everything is embedded with {shown}")
    return 0


@lumia.command("memory export", help="Write the memory to a file, one JSON object per line")
def export(
    file: Annotated[str, "Where to; - is stdout."],
    everyone: Annotated[bool, "The memories of all bots in the database."] = False,
) -> int:
    """Write this bot's memory with its vectors to a file that `lumia memory import` reads, here or elsewhere.

    Example: lumia memory export memory.jsonl
    """
    from . import exchange

    lines = exchange.export(engine.stored(), "" if everyone else engine.bot_name())
    if file == "-":
        sys.stdout.writelines(lines)
        return 0
    if not file.strip():
        return usage_error("FILE is not empty")
    count = -1
    try:
        with _private(Path(file)) as out, progress(f"writing {file}", 0) as at:
            for line in lines:
                out.write(line)
                count += 1
                at(count)
    except OSError as error:
        return _failed(f"{file}: {error.strerror or error}; name a file that can be written")
    print(f"{count} rows in {file}")
    return 0


@lumia.command("memory import", help="Read an exported memory; what is there already stays as it is")
def import_(
    file: Annotated[str, "An exported file; - is stdin."],
    reembed: Annotated[bool, "Embed the texts anew when the file comes from another model."] = False,
    everyone: Annotated[bool, "Each memory stays that of the bot it was exported from."] = False,
) -> int:
    """Add an exported memory to this bot's; doing it twice changes nothing.

    Example: lumia memory import memory.jsonl
    """
    from . import exchange

    work = engine.current()
    passages = work.embedder.passages if reembed else None
    try:
        with sys.stdin if file == "-" else Path(file).open(encoding="utf-8-sig") as lines:
            bot = "" if everyone else engine.bot_name()
            done = exchange.import_lines(work.database, lines, passages=passages, bot=bot)
    except OSError as error:
        return _failed(f"{file}: {error.strerror or error}")
    except UnicodeDecodeError:
        return _failed(f"{file}: no export of a memory, it isn't UTF-8 text")
    print(", ".join(f"{name} {count}" for name, count in done.new.items() if count) or "nothing was new")
    return 0


@lumia.command("memory eval", help="Measure recall on a file of conversations and questions (LoCoMo's format)")
def evaluate(
    file: Annotated[str, "JSON in the format of LoCoMo: conversations, questions and their evidence."],
    ablate: Annotated[str, "Parts to switch off, with commas: dense, lexical, sequence, speaker, spreading, …"] = "",
    json_: AsJson = False,
) -> int:
    """Write the conversations into a throw-away schema, ask the questions, and print how much evidence came back.

    Example: lumia memory eval locomo.json --ablate spreading
    """
    from . import evaluate as measuring

    parts = [part.strip() for part in ablate.split(",") if part.strip()]
    work = engine.current()
    try:
        found = measuring.evaluate(Path(file), work.database.url, work.embedder, ablate=parts, progress=note)
    except OSError as error:
        return _failed(f"{file}: {error.strerror or error}")
    except ValueError as error:
        return _failed(str(error))
    if json_:
        print(json.dumps(found))
        return 0
    for depth, share in found["recall_at"].items():
        print(f"recall@{depth:3}  {share:5.1f} %")
    print(f"nDCG@10     {found['ndcg_at_10']:5.1f}")
    for category, own in found["by_category"].items():
        print(f"category {category}  recall@10 {own['recall_at'].get('10', 0):5.1f} %  ({own['questions']} questions)")
    print(f"recall took {found['ms']['p50']} ms (median), {found['ms']['p95']} ms (95 %)")
    return 0


@lumia.command("memory graph", help="Draw the neighbourhood of a topic as SVG or as a page")
def graph(
    topic: Annotated[str, "Name of a topic."],
    out: Annotated[str, "File to write: FILE.svg, or FILE.html with what was said about it."] = "memory.svg",
    group: Group = "",
) -> int:
    """Draw what a topic is associated with, and what that is associated with; thicker lines are stronger.

    Without --group, in the chat that speaks most of it.

    Example: lumia memory graph Lisbon --out lisbon.html --group lab
    """
    from . import neighbourhood, operations
    from .types import Scope

    target, topic = Path(out), lumia.payloads.clean_text(topic)
    if target.suffix not in (".svg", ".html") or not topic.strip():
        return usage_error("TOPIC is not empty and --out ends with .svg or .html")
    now, bot = lumia.system.now(), engine.bot_name()
    with reading() as connection:
        named = operations.chat_named(connection, bot, group) if group else ""
        scope = Scope(bot, named or operations.chat_of_topic(connection, bot, topic))
        drawn = neighbourhood.drawn(connection, scope, topic, page=target.suffix == ".html", now=now)
    try:
        target.write_text(drawn, "utf-8")
    except OSError as error:
        return _failed(f"{out}: {error.strerror or error}; name a file that can be written")
    print(out)
    return 0


# --- how they speak


def plain(text: str) -> str:
    """Return `text` without what could command a terminal: people say what they like; tabs and line ends stay."""
    return _COMMANDING.sub("", text)


def tell(line: str) -> None:
    """Print a line of data that quotes people."""
    print(plain(line))


@contextmanager
def _private(target: Path) -> Iterator[TextIO]:
    """Give a file only its owner may read, in place of `target` once it is whole; a device or pipe is written to."""
    if target.exists() and not target.is_file():
        with target.open("w", encoding="utf-8") as out:
            yield out
        return
    target = target.resolve()  # a link stays one
    partial = target.with_name(f".{target.name}.partial")
    try:
        private = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # it holds what people said
        with os.fdopen(private, "w", encoding="utf-8") as out:
            yield out
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _told(name: str, value: Any) -> Any:
    """Return one line of `stats` for the reader."""
    if name == "bytes":
        return f"{value / 1e6:.1f} MB"
    if not value and name in ("embedder", "rebuild", "chats"):
        return "none"
    if name == "embedder":
        calibration = Calibration(**value["calibration"])
        alike = f"unrelated texts are {calibration.mean:.2f} alike"
        measured = "not measured yet" if calibration == Calibration() else alike
        return f"{value['model']} ({value['dimension']} numbers; {measured})"
    if name == "rebuild":
        return f"{value['done']} of {value['total']} texts by {value['model']}"
    return ", ".join(f"{chat or '(bot)'} {count}" for chat, count in value.items()) if name == "chats" else value


def _way_back(batch: str) -> str:
    return f"; `lumia memory restore {batch}` brings them back" if batch else ""


@contextmanager
def reading() -> Iterator[psycopg.Connection[Any]]:
    """Give a connection for the block."""
    with engine.stored().transaction() as connection:
        yield connection


def _pin(id: str, *, pinned: bool) -> int:
    from . import forgetting, operations

    with reading() as connection:
        scope, _ = operations.place_of(connection, engine.bot_name(), id)
        forgetting.pin(connection, scope, id, pinned=pinned)
    print(f"{id} is {'pinned' if pinned else 'not pinned'}")
    return 0


@contextmanager
def progress(what: str, total: int) -> Iterator[Any]:
    """Give a function of (done, total) that moves a bar on stderr, where that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=total or None)
        yield lambda done, of=0: bar.update(task, completed=done, total=of or total or None)


def _agreed(question: str) -> bool:
    if not sys.stdin.isatty():
        note(f"{question} Say --yes; there is no terminal to ask on")
        return False
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def note(text: str) -> None:
    """Print a line for the reader on stderr."""
    print(text, file=sys.stderr)


def _failed(text: str) -> int:
    note(f"error: {text}")
    return 1


def usage_error(text: str) -> int:
    """Say how the command was called wrongly; returns its exit code."""
    note(f"error: {text}")
    return 2


def _line(text: str) -> str:
    shown = " ".join(text.split())
    width = 160 if not sys.stdout.isatty() else max(40, os.get_terminal_size().columns - 60)
    return shown if len(shown) <= width else f"{shown[: width - 1]}…"


def _day(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d}"


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M:%S}"
