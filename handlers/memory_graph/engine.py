"""The database and the embedder this process works with, made when the memory is first needed."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import lumia

from . import embedding
from .database import Database
from .types import Embedder, Scope

NAME = "memory-graph"
_lock = threading.Lock()
_made: dict[str, Database] = {}


@dataclass(frozen=True)
class Engine:
    """What reading and writing need; both belong together, vectors of another model are refused."""

    database: Database
    embedder: Embedder


def wanted() -> bool:
    """Tell whether the bot has a memory: switched on, and with a database to keep it in."""
    return bool(lumia.config.get(NAME).enabled and lumia.system.database_url())


def current() -> Engine:
    """Return this process's engine; nothing is opened before its database is used.

    Raises `lumia.errors.ModelError` when the embedder has to be asked and does not answer.
    """
    embedder = embedding.current()
    config = lumia.config.get(NAME)
    url = lumia.system.database_url()
    key = f"{url}\n{config.schema}\n{embedder.model}\n{embedder.dimension}"
    with _lock:
        if key not in _made:
            for old in _made.values():
                old.close()
            _made.clear()
            _made[key] = Database(
                url, model=embedder.model, dimension=embedder.dimension, schema=config.schema, limit=config.limit
            )
        return Engine(_made[key], embedder)


def close() -> None:
    """Close the connections; the next use opens new ones."""
    with _lock:
        for one in _made.values():
            one.close()
        _made.clear()


def bot_name() -> str:
    """Return whose memory this is: the bot's name of `config/lumia.toml`."""
    return str(lumia.config.get("lumia").bot.name)


def scope(chat: str = "") -> Scope:
    """Return the scope of a chat of this bot, "" for the whole bot."""
    return Scope(bot_name(), chat)
