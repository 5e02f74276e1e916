-- What is kept in the artifact store, so that nothing is removed that somebody is about to name.
-- `removing`: until when a collector may remove the bytes; `gone`: when they were removed.
CREATE TABLE annals.artifact (
    digest   bytea PRIMARY KEY,
    size     int8 NOT NULL,
    touched  int8 NOT NULL,
    removing int8,
    gone     int8
);
CREATE INDEX artifact_touched ON annals.artifact (touched) WHERE gone IS NULL;
CREATE INDEX artifact_gone ON annals.artifact (gone) WHERE gone IS NOT NULL;
