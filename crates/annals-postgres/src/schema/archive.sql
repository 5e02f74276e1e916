-- Which conversations' own blocks lie in an object of the artifact store: blocks `first` to `first + blocks - 1`.
-- `digest` is null once they have come back, `restored` says when.
CREATE TABLE annals.archive (
    conversation int8 PRIMARY KEY,
    digest       bytea,
    size         int8 NOT NULL,
    first        int8 NOT NULL,
    blocks       int8 NOT NULL,
    archived     int8 NOT NULL,
    restored     int8
);
CREATE INDEX archive_digest ON annals.archive (digest) WHERE digest IS NOT NULL;
