-- Every write of a step, once: a retry finds its row and changes nothing. ids: what it wrote or strengthened.
CREATE TABLE memory_writes (
    run_id text COLLATE "C" NOT NULL,
    step integer NOT NULL,
    ordinal integer NOT NULL,
    kind text COLLATE "C" NOT NULL,
    scope_id integer NOT NULL,
    ids text[] NOT NULL DEFAULT '{}',
    written_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, step, ordinal));
CREATE INDEX memory_writes_age ON memory_writes (written_at);
