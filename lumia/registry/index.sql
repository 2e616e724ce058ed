-- The part of registry-worker/migrations that search needs.
CREATE TABLE plugins (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    display_name TEXT NOT NULL,
    description TEXT NOT NULL,
    author TEXT NOT NULL,
    git_url TEXT NOT NULL,
    latest_tag TEXT NOT NULL,
    stars INTEGER NOT NULL,
    boost REAL NOT NULL
);
CREATE INDEX plugins_by_stars ON plugins (stars DESC, name);
CREATE VIRTUAL TABLE words USING fts5 (
    name, display_name, description, author, tokenize = "unicode61 remove_diacritics 0", prefix = '1 2 3 4'
);
INSERT INTO words (words, rank) VALUES ('rank', 'bm25(10.0, 6.0, 2.0, 3.0)');
CREATE VIRTUAL TABLE grams USING fts5 (name, tokenize = "trigram");
