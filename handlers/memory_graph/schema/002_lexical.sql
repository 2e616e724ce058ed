-- The lexical index: how often a term stands in an instance, with the instance's length so that BM25 needs no other table.
CREATE TABLE memory_terms (
    scope_id integer NOT NULL,
    term text COLLATE "C" NOT NULL,
    number bigint NOT NULL REFERENCES memory_instances (number) ON DELETE CASCADE,
    tf smallint NOT NULL,
    length integer NOT NULL,
    PRIMARY KEY (scope_id, term, number) INCLUDE (tf, length));
CREATE INDEX memory_terms_number ON memory_terms (number);
