-- Times are microseconds since 1970. Texts of people and models are bytea: PostgreSQL's text has no U+0000.
CREATE TABLE annals.meta (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    cluster    uuid NOT NULL,
    schema     int4 NOT NULL,
    oldest     int4 NOT NULL,
    partitions int2 NOT NULL
);
INSERT INTO annals.meta (cluster, schema, oldest, partitions) VALUES (gen_random_uuid(), 0, 0, /* count */);

CREATE TABLE annals.member (
    node    text COLLATE "C" PRIMARY KEY,
    epoch   int8 NOT NULL,
    address text,
    ttl     int8 NOT NULL,
    until   int8 NOT NULL,
    schema  int4 NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE annals.scope (
    key  int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    text text COLLATE "C" NOT NULL UNIQUE
);

CREATE TABLE annals.conversation (
    key       int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope_key int8 NOT NULL,
    id        text COLLATE "C",
    title     bytea,
    created   int8 NOT NULL,
    lineage   bytea,
    base      int8,
    cut       int8 NOT NULL,
    sum       int8 NOT NULL,
    UNIQUE (scope_key, id)
);
CREATE INDEX conversation_listing ON annals.conversation (scope_key, key DESC) WHERE id IS NOT NULL;
CREATE INDEX conversation_base ON annals.conversation (base) WHERE base IS NOT NULL;

-- Changed by every append: narrow, with room on each page, and no index on what an append changes.
CREATE TABLE annals.head (
    conversation int8 PRIMARY KEY,
    scope_key    int8 NOT NULL,
    token        int8 NOT NULL DEFAULT 0,
    tail         int8 NOT NULL,
    batch        int8,
    updated      int8,
    node         text COLLATE "C",
    epoch        int8,
    until        int8,
    posted       int8,
    waiting      int4 NOT NULL DEFAULT 0,
    due          int8,
    attempts     int4 NOT NULL DEFAULT 0,
    asks_from    int8
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
CREATE INDEX head_due ON annals.head (due, conversation) WHERE due IS NOT NULL;
CREATE INDEX head_asks ON annals.head (scope_key, conversation) WHERE asks_from IS NOT NULL;

CREATE TABLE annals.block (
    conversation int8 NOT NULL,
    seq          int8 NOT NULL,
    ts           int8 NOT NULL,
    tokens       int8 NOT NULL,
    step         int8,
    sum          int8 NOT NULL,
    kind         bytea NOT NULL,
    author       bytea NOT NULL,
    turn         bytea NOT NULL,
    mime         bytea NOT NULL,
    path         bytea,
    call         bytea,
    meta         bytea,
    body         bytea,
    blob         bytea,
    PRIMARY KEY (conversation, seq)
)/* divided */;
/* parts */
CREATE TABLE annals.named (
    digest       bytea NOT NULL,
    conversation int8 NOT NULL,
    PRIMARY KEY (digest, conversation)
);
CREATE INDEX named_conversation ON annals.named (conversation);

CREATE SEQUENCE annals.post;
CREATE TABLE annals.inbox (
    conversation int8 NOT NULL,
    id           int8 NOT NULL,
    client_key   bytea NOT NULL,
    kind         bytea NOT NULL,
    body         bytea,
    digest       bytea NOT NULL,
    posted       int8 NOT NULL,
    sum          int8 NOT NULL,
    PRIMARY KEY (conversation, id)
);
-- A key may be longer than an index entry.
CREATE UNIQUE INDEX inbox_client_key ON annals.inbox (conversation, sha256(client_key));
CREATE INDEX inbox_consumed ON annals.inbox (posted) WHERE body IS NULL;

-- The id is the digest of scope, route and key.
CREATE TABLE annals.answer (
    id     bytea PRIMARY KEY,
    digest bytea NOT NULL,
    status int4 NOT NULL,
    body   bytea NOT NULL,
    kept   int8 NOT NULL,
    sum    int8 NOT NULL
);
CREATE INDEX answer_kept ON annals.answer (kept);

CREATE TABLE annals.token (
    name    bytea PRIMARY KEY,
    hash    bytea NOT NULL UNIQUE,
    scope   text COLLATE "C" NOT NULL,
    roles   int2 NOT NULL,
    created int8 NOT NULL,
    expires int8,
    sum     int8 NOT NULL
);

CREATE TABLE annals.server_key (
    name bytea PRIMARY KEY,
    key  bytea NOT NULL
);
