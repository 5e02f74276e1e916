-- The index of memory search: derived from the blocks, one row of bookkeeping a conversation.
CREATE TABLE annals.recall_state (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    epoch    int8 NOT NULL,
    embedder text
);
INSERT INTO annals.recall_state (epoch) VALUES (1);

-- Whoever brings a conversation into the index locks its row. One of an older epoch counts for nothing.
CREATE TABLE annals.recall_source (
    conversation int8 PRIMARY KEY,
    scope_key    int8 NOT NULL,
    epoch        int8 NOT NULL,
    next         int8 NOT NULL,
    upto         int8 NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE annals.recall_passage (
    conversation int8 NOT NULL,
    seq          int8 NOT NULL,
    ts           int8 NOT NULL,
    place        int4 NOT NULL,
    start        int4 NOT NULL,
    length       int4 NOT NULL,
    target       int2 NOT NULL,
    vector       bytea,
    PRIMARY KEY (conversation, place)
);
CREATE INDEX recall_pending ON annals.recall_passage (conversation, place) WHERE vector IS NULL;

CREATE TABLE annals.recall_file (
    conversation int8 NOT NULL,
    digest       int8 NOT NULL,
    PRIMARY KEY (conversation, digest)
);

-- Which passages of a conversation have a term: a chunk is the conversation and the higher bits of the place, and each
-- byte of `places` the lower eight bits of one, in order.
CREATE TABLE annals.recall_term (
    scope_key int8 NOT NULL,
    chunk     int8 NOT NULL,
    term      text COLLATE "C" NOT NULL,
    places    bytea NOT NULL,
    PRIMARY KEY (scope_key, term, chunk)
) WITH (fillfactor = 80);
CREATE INDEX recall_term_chunk ON annals.recall_term (chunk);
