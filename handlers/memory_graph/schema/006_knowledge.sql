-- The knowledge base: files, and their text in chunks. source: the file's path; a changed file replaces its chunks.
CREATE TABLE memory_documents (
    id text COLLATE "C" PRIMARY KEY,
    scope_id integer NOT NULL REFERENCES memory_scopes (id),
    source text COLLATE "C" NOT NULL,
    name text NOT NULL,
    kind text COLLATE "C" NOT NULL,
    hash bytea NOT NULL,
    bytes bigint NOT NULL,
    chunks integer NOT NULL,
    added_at timestamptz NOT NULL,
    UNIQUE (scope_id, source));

CREATE TABLE memory_chunks (
    id text COLLATE "C" PRIMARY KEY,
    document_id text COLLATE "C" NOT NULL REFERENCES memory_documents (id) ON DELETE CASCADE,
    scope_id integer NOT NULL,
    number integer NOT NULL,
    heading text NOT NULL DEFAULT '',
    page integer,
    content text NOT NULL,
    content_embedding vector(:dimension) NOT NULL,
    embedder_id smallint NOT NULL REFERENCES memory_embedders (id),
    UNIQUE (document_id, number));
COMMENT ON COLUMN memory_chunks.content_embedding IS 'embeds content';
ALTER TABLE memory_chunks ALTER COLUMN content_embedding SET STORAGE MAIN;
CREATE INDEX memory_chunks_scope ON memory_chunks (scope_id);
CREATE INDEX memory_chunks_embedding ON memory_chunks USING hnsw (content_embedding vector_cosine_ops)
    WITH (m = 16, ef_construction = 64);
