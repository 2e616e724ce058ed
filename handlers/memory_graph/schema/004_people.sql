-- Who takes part in a scope. names: earlier ones as [{"name", "until"}], oldest first.
CREATE TABLE memory_people (
    scope_id integer NOT NULL REFERENCES memory_scopes (id),
    person text COLLATE "C" NOT NULL,
    name text NOT NULL DEFAULT '',
    names jsonb NOT NULL DEFAULT '[]',
    messages bigint NOT NULL DEFAULT 0,
    first_seen timestamptz NOT NULL,
    last_seen timestamptz NOT NULL,
    metadata jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (scope_id, person))
    WITH (fillfactor = 80);

-- What one person is to another in a scope, 'self' being the bot; and every change that led there.
CREATE TABLE memory_relations (
    id text COLLATE "C" PRIMARY KEY,
    scope_id integer NOT NULL REFERENCES memory_scopes (id),
    from_person text COLLATE "C" NOT NULL,
    to_person text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    weight double precision NOT NULL CHECK (weight BETWEEN 0 AND 1),
    changes integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    UNIQUE (scope_id, from_person, to_person, type));
CREATE INDEX memory_relations_to ON memory_relations (scope_id, to_person);

CREATE TABLE memory_relation_changes (
    relation_id text COLLATE "C" NOT NULL REFERENCES memory_relations (id) ON DELETE CASCADE,
    ordinal integer NOT NULL,
    at timestamptz NOT NULL,
    delta double precision NOT NULL,
    weight double precision NOT NULL,
    run_id text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (relation_id, ordinal));
