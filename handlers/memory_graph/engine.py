"""The database and the embedder this process works with, made when the memory is first needed."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import lumia

from . import embedding
from .database import Database
from .errors import SchemaError
from .types import Embedder, Scope

NAME = "memory-graph"
_lock = threading.Lock()
_made: dict[bool, tuple[tuple[object, ...], Database]] = {}
"""The databases of this process with what each was made from, by whether vectors are compared in it."""


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
    return Engine(_database(embedder.model, embedder.dimension), embedder)


def stored() -> Database:
    """Return the database for work that compares no vectors, as it is: no model is asked, and none has to match.

    So what was said can be forgotten while the embedding server is away, or before a rebuild.
    """
    found = _database()
    try:
        found.prepare()
    except SchemaError:
        return current().database  # which makes the tables
    return found


def _database(model: str = "", dimension: int = 0) -> Database:
    """Return this process's database, another one once settings have changed; without a model none is asked for."""
    config, url = lumia.config.get(NAME), lumia.system.database_url()
    key = (url, config.schema, model, dimension)
    with _lock:
        known, found = _made.get(bool(model), ((), None))
        if found is None or known != key:
            if found is not None:
                found.close()
            found = Database(url, model=model, dimension=dimension, schema=config.schema, limit=config.limit)
            _made[bool(model)] = key, found
        return found


def close() -> None:
    """Close the connections; the next use opens new ones."""
    with _lock:
        for _, one in _made.values():
            one.close()
        _made.clear()


def drop() -> None:
    """Drop the schema of a temporary memory, if there is a database; never `public`, which others use, too."""
    schema, url = lumia.config.get(NAME).schema, lumia.system.database_url()
    if url and schema != "public":
        with Database(url, model="", dimension=1, schema=schema).connect() as connection:
            connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


def bot_name() -> str:
    """Return whose memory this is: the bot's name of `config/lumia.toml`."""
    return str(lumia.config.get("lumia").bot.name)


def scope(chat: str = "") -> Scope:
    """Return the scope of a chat of this bot, "" for the whole bot."""
    return Scope(bot_name(), lumia.payloads.clean_text(chat))


def retention_days() -> float:
    """Return how long the recycle table keeps what was evicted or forgotten, 0 for not at all."""
    return float(lumia.config.get(NAME).retention_days)
