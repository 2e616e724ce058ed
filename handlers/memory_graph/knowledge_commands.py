"""`lumia memory kb …`: the files of the knowledge base."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated

import lumia

from . import engine
from .commands import Group, note, plain, progress, reading, tell, usage_error


@lumia.command("memory kb add", help="Add files to the knowledge base: text, Markdown, PDF; a changed file is replaced")
def add(
    *files: Annotated[str, "Files, at most 20 MB each."],
    group: Annotated[str, "Serve them in this chat only; without it in all."] = "",
) -> int:
    """Add files, each as a whole or not at all; one that can't be read is named, and the others are added.

    Example: lumia memory kb add docs/*.md handbook.pdf
    """
    from . import documents, knowledge, operations

    if not files:
        return usage_error("name files")
    work, failed = engine.current(), 0
    with reading() as connection:
        chat = operations.chat_named(connection, engine.bot_name(), group) if group else ""
    for file in files:
        try:
            document = documents.read(Path(file))
            with progress(file, 0) as at:
                done = knowledge.add(
                    work.database, work.embedder, engine.scope(chat), document, now=lumia.system.now(), progress=at
                )
        except knowledge.KnowledgeError as error:
            failed += 1
            note(f"error: {plain(str(error))}")
            continue
        tell(f"{done.outcome:9}  {done.source.id}  {done.source.chunks:5} chunks  {file}")
    return 1 if failed else 0


@lumia.command("memory kb list", help="The files of the knowledge base")
def list_(json_: Annotated[bool, "Print JSON."] = False) -> int:
    """List the files with their ids, chunks and where they are served.

    Example: lumia memory kb list --json
    """
    from . import knowledge

    with reading() as connection:
        found = knowledge.sources(connection, engine.bot_name())
    if json_:
        print(json.dumps([asdict(one) for one in found], ensure_ascii=False))
        return 0
    for one in found:
        day = f"{datetime.fromtimestamp(one.added_at).astimezone():%Y-%m-%d}"
        place = one.scope.chat or "all chats"
        tell(f"{one.id}  {day}  {one.chunks:5} chunks  {one.kind:8}  {place}  {one.name}  ({one.source})")
    if not found:
        note("the knowledge base is empty; `lumia memory kb add FILE` fills it")
    return 0


@lumia.command("memory kb remove", help="Take a file out of the knowledge base")
def remove(
    file: Annotated[str, "Its name, path or id."],
    group: Annotated[str, "The chat it is served in, where several have one of this name."] = "",
) -> int:
    """Take a file out.

    Example: lumia memory kb remove handbook.pdf
    """
    from . import knowledge, operations

    bot = engine.bot_name()
    with reading() as connection:
        chat = operations.chat_named(connection, bot, group) if group else None
        gone = knowledge.remove(connection, bot, file, chat)
    tell(f"removed {gone.name} ({gone.chunks} chunks)")
    return 0


@lumia.command("memory kb search", help="Search the knowledge base as a message would")
def search(
    text: Annotated[str, "What to look for."],
    group: Group = "",
    top_k: Annotated[int, "How many passages."] = 5,
    json_: Annotated[bool, "Print JSON."] = False,
) -> int:
    """Print the nearest passages with score and source.

    Example: lumia memory kb search "how do I return a bicycle?" --top-k 3
    """
    from . import embedding, knowledge, operations

    if not text.strip() or not 1 <= top_k <= 50:
        return usage_error("TEXT is not empty and --top-k is a number from 1 to 50")
    work, bot = engine.current(), engine.bot_name()
    vector, scale = work.embedder.query(text), embedding.calibrated(work.database, work.embedder)
    with reading() as connection:
        scope = engine.scope(operations.chat_named(connection, bot, group) if group else "")
        found = knowledge.search(connection, scope, text, vector, top_k=top_k, calibration=scale)
    if json_:
        print(json.dumps([{**asdict(one), "source": one.cited} for one in found], ensure_ascii=False))
        return 0
    for one in found:
        tell(f"{one.score:5.2f}  {one.cited}\n{one.text}\n")
    if not found:
        note("the knowledge base holds nothing here")
    sys.stdout.flush()
    return 0
