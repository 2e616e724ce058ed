"""What can be wrong with the memory's database; each says the way out.

::

    lumia.errors.BackendUnavailableError
    └── MemoryUnavailableError     base: the chain answers without memory
        ├── DatabaseAwayError      not configured, unreachable, or too slow
        ├── ReadOnlyError          a standby, or a full disk
        ├── ExtensionError         pgvector is missing or too old
        ├── SchemaError            tables are missing, half-migrated or newer than this Lumia
        └── EmbedderError          vectors of another model or dimension
"""

from __future__ import annotations

import lumia


class MemoryUnavailableError(lumia.errors.BackendUnavailableError):
    """The memory can't be read or written now."""


class DatabaseAwayError(MemoryUnavailableError):
    """There is no database, it does not answer, or not in time."""


class ReadOnlyError(MemoryUnavailableError):
    """The database takes no writes."""


class ExtensionError(MemoryUnavailableError):
    """pgvector is missing or too old, and this account may not install it."""


class SchemaError(MemoryUnavailableError):
    """The tables are half-migrated, damaged, or of a newer Lumia."""


class EmbedderError(MemoryUnavailableError):
    """The vectors in the database come from another model, or have another dimension, than those at hand."""
