-- What the index repository holds, in a form that answers quickly. It can be read anew from there at any time; only
-- `tokens` lives nowhere else.
CREATE TABLE plugins (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    display_name TEXT NOT NULL,
    description TEXT NOT NULL,
    author TEXT NOT NULL,
    git_url TEXT NOT NULL,
    latest_tag TEXT NOT NULL,
    stars INTEGER NOT NULL DEFAULT 0,
    -- 1 + log10(1 + stars) / 4: SQLite may lack log10.
    boost REAL NOT NULL DEFAULT 1,
    -- github:<number> or author:<login>
    owner TEXT NOT NULL,
    -- The name without what the eye passes over: names that differ in no more than that are one name.
    skeleton TEXT NOT NULL UNIQUE,
    manifest TEXT NOT NULL,
    readme_md TEXT NOT NULL,
    -- Of the file in the index repository.
    blob TEXT NOT NULL
);
CREATE INDEX plugins_by_stars ON plugins (stars DESC, name);

CREATE TABLE versions (
    plugin INTEGER NOT NULL REFERENCES plugins (id) ON DELETE CASCADE,
    -- 0 is the newest.
    place INTEGER NOT NULL,
    tag TEXT NOT NULL,
    date TEXT NOT NULL,
    changelog TEXT NOT NULL,
    "commit" TEXT NOT NULL,
    digest TEXT NOT NULL,
    signature TEXT,
    yanked TEXT,
    PRIMARY KEY (plugin, place)
);

CREATE TABLE revoked_keys (fingerprint TEXT PRIMARY KEY, reason TEXT NOT NULL, date TEXT NOT NULL);
CREATE TABLE revoked_versions (
    name TEXT NOT NULL, tag TEXT NOT NULL, reason TEXT NOT NULL, date TEXT NOT NULL, PRIMARY KEY (name, tag)
);

-- Of a token only its SHA-256 is kept. It has 256 random bits, so a slow hash would add nothing.
CREATE TABLE tokens (
    hash TEXT PRIMARY KEY, login TEXT NOT NULL, created TEXT NOT NULL, revoked TEXT
);

CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT NOT NULL);

-- Words as src/terms.ts cuts them. The prefix indexes serve search while somebody types.
CREATE VIRTUAL TABLE words USING fts5 (
    name, display_name, description, author, tokenize = "unicode61 remove_diacritics 0", prefix = '1 2 3 4'
);
INSERT INTO words (words, rank) VALUES ('rank', 'bm25(10.0, 6.0, 2.0, 3.0)');

-- For a search that finds nothing: parts of words, and words with a slip in them.
CREATE VIRTUAL TABLE grams USING fts5 (name, tokenize = "trigram");
