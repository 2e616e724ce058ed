"""The archive: the journal's life after the broker's stream, in Postgres or in files (docs/archive.md)."""
