-- Only established topics are in the vector index: most are named once, and then the text that names them has the same
-- vector and is in the index of instances. A topic enters it once, when it is named for the second time.
SET LOCAL statement_timeout = 0;
SET LOCAL maintenance_work_mem = '256MB';

-- Edges of a topic in an order that does not depend on where the rows lie.
CREATE INDEX topic_edges_to_from ON topic_edges (to_topic, from_topic);
DROP INDEX topic_edges_to;

DROP INDEX memory_topics_embedding;
ALTER TABLE memory_topics ADD COLUMN established boolean GENERATED ALWAYS AS (mentions > 1 OR pinned) STORED;
CREATE INDEX memory_topics_embedding ON memory_topics USING hnsw (topic_embedding vector_cosine_ops)
    WITH (m = 16, ef_construction = 64) WHERE established;
