//! Pieces of statements that several of them share. Parameter `$1` is the clock of a test, or null.

/// Now, in microseconds, for what is written down.
macro_rules! now {
    () => {
        "coalesce($1, (extract(epoch FROM clock_timestamp()) * 1000000)::int8)"
    };
}

/// When the statement arrived, for judging whether a lease has expired: what was committed later than this is not
/// visible to the statement, so a later time could take a node for silent that has just been heard.
macro_rules! arrived {
    () => {
        "coalesce($1, (extract(epoch FROM statement_timestamp()) * 1000000)::int8)"
    };
}

/// Whether the conversation of head `h` may be taken by another owner.
macro_rules! is_free {
    () => {
        concat!(
            "(h.node IS NULL OR h.until <= ",
            arrived!(),
            " OR EXISTS (SELECT FROM annals.member m WHERE m.node = h.node AND (m.epoch > h.epoch",
            " OR m.epoch = h.epoch AND m.until <= ",
            arrived!(),
            ")))"
        )
    };
}

/// The conversation of scope `$2` and id `$3`, as `c`.
macro_rules! found {
    () => {
        "c AS MATERIALIZED (SELECT c.key, c.base, c.cut FROM annals.conversation c
         JOIN annals.scope s ON s.key = c.scope_key WHERE s.text = $2 AND c.id = $3)"
    };
}

pub(crate) use {arrived, found, is_free, now};
