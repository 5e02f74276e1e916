//! The statement of an append, with the parts that its appends need and no others.
//!
//! Carrying out a part that has nothing to do costs the server about as much as writing the block, so the server knows one
//! statement for each shape that occurs. All of them take the same parameters.

use crate::sql::now;

/// What a statement has to carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    /// Appends of several conversations.
    pub(crate) is_merged: bool,
    /// One block in all.
    pub(crate) is_one_block: bool,
    /// Some consume posts, or must not go past a later one.
    pub(crate) minds_posts: bool,
    /// Some keep the answer to a request.
    pub(crate) keeps_answers: bool,
    /// Some name artifacts.
    pub(crate) names_artifacts: bool,
}

/// A column of the rows that a statement is given, as an array: its parameter, its type and its name.
type Given = (usize, &'static str, &'static str);

const WANT: [Given; 14] = [
    (2, "int8", "conversation"),
    (3, "int8", "token"),
    (4, "int8", "expected"),
    (5, "int8", "grows"),
    (6, "int8", "batch"),
    (7, "int8", "ttl"),
    (8, "int8", "updated"),
    (9, "int2", "work"),
    (10, "int8", "wait"),
    (11, "int4", "consumes"),
    (12, "int8", "seen"),
    (13, "bool", "bounds"),
    (14, "int8", "asks_from"),
    (15, "bytea", "answer"),
];

const BLOCK: [Given; 15] = [
    (27, "int8", "conversation"),
    (28, "int8", "seq"),
    (29, "int8", "ts"),
    (30, "int8", "tokens"),
    (31, "int8", "step"),
    (32, "int8", "sum"),
    (33, "bytea", "kind"),
    (34, "bytea", "author"),
    (35, "bytea", "turn"),
    (36, "bytea", "mime"),
    (37, "bytea", "path"),
    (38, "bytea", "call"),
    (39, "bytea", "meta"),
    (40, "bytea", "body"),
    (41, "bytea", "blob"),
];

/// The rows of these columns. Taking the only row of each array costs the server a third of what unnesting them does.
fn rows(of: &[Given], is_one: bool) -> String {
    let each = |piece: &dyn Fn(&Given) -> String| of.iter().map(piece).collect::<Vec<_>>().join(", ");
    match is_one {
        true => format!(
            "SELECT {}",
            each(&|(n, kind, name)| format!("(${n}::{kind}[])[1] AS {name}"))
        ),
        false => format!(
            "SELECT * FROM unnest({}) AS given({})",
            each(&|(n, kind, _)| format!("${n}::{kind}[]")),
            each(&|(_, _, name)| (*name).to_owned())
        ),
    }
}

const CONSUMED: &str =
    "consumed AS (SELECT * FROM unnest($16::int8[], $17::int8[]) AS k(conversation, id)),\n";

/// Whether a head is as the writer of `o` expects it.
const IS_EXPECTED: &str = "h.token = o.token AND h.tail = o.expected AND h.batch IS DISTINCT FROM o.batch";

/// Whether everything that `o` consumes waits still, and nothing came after what its writer has looked at.
fn posts_are_expected(head: &str) -> String {
    format!(
        " AND (o.consumes = 0 OR o.consumes = (SELECT count(*)
        FROM consumed k JOIN annals.inbox i ON i.conversation = k.conversation AND i.id = k.id AND i.body IS NOT NULL
        WHERE k.conversation = o.conversation))
        AND (o.seen IS NULL OR {head}.posted IS NULL OR {head}.posted <= o.seen OR {head}.waiting = (SELECT count(*)
            FROM annals.inbox i WHERE i.conversation = o.conversation AND i.id <= o.seen AND i.body IS NOT NULL))"
    )
}

const ANSWER_IS_NEW: &str = concat!(
    " AND (o.answer IS NULL OR NOT EXISTS (SELECT FROM annals.answer a WHERE a.id = o.answer AND a.kept > ",
    now!(),
    " - $18))"
);

const MOVED: &str = concat!(
    "moved AS (UPDATE annals.head h SET tail = h.tail + o.grows, batch = o.batch,
        updated = coalesce(o.updated, h.updated), waiting = h.waiting - o.consumes, attempts = 0,
        asks_from = CASE WHEN o.bounds THEN o.asks_from ELSE coalesce(h.asks_from, o.asks_from) END,
        until = CASE WHEN h.node IS NULL THEN NULL ELSE greatest(h.until, ",
    now!(),
    " + o.ttl) END,
        due = CASE WHEN o.work = 0 THEN h.due WHEN h.waiting > o.consumes THEN ",
    now!(),
    " WHEN o.work = 1 THEN ",
    now!(),
    " + o.wait ELSE NULL END\n"
);

const TAKEN: &str = "taken AS (UPDATE annals.inbox i SET body = NULL FROM consumed k
        JOIN moved m ON m.conversation = k.conversation WHERE i.conversation = k.conversation AND i.id = k.id),\n";

const ANSWERED: &str = concat!(
    "answered AS (INSERT INTO annals.answer (id, digest, status, body, kept, sum)
        SELECT a.id, a.digest, a.status, a.body, ",
    now!(),
    ", a.sum FROM unnest($19::int8[], $20::bytea[], $21::bytea[], $22::int4[], $23::bytea[], $24::int8[])
            AS a(conversation, id, digest, status, body, sum) JOIN moved m ON m.conversation = a.conversation),\n"
);

const NAMING: &str = "naming AS (INSERT INTO annals.named (digest, conversation)
        SELECT n.digest, n.conversation FROM unnest($25::int8[], $26::bytea[]) AS n(conversation, digest)
        JOIN moved m ON m.conversation = n.conversation ON CONFLICT DO NOTHING),\n";

/// How far the commit of an append goes (`synchronous_commit`), whatever somebody set for the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    /// To disk, here and on the standbys that the operator wants.
    On,
    /// Until those show it.
    Applied,
    /// As far as the operator has set it, which is less: it may be more tomorrow, so nothing is asserted.
    AsSet,
}

impl Flush {
    /// From what the operator has set.
    pub(crate) fn of(set: &str) -> Self {
        match set {
            "on" => Flush::On,
            "remote_apply" => Flush::Applied,
            _ => Flush::AsSet,
        }
    }

    /// Evaluated once, and read when the statement commits. It ends with the transaction.
    fn condition(self) -> &'static str {
        match self {
            Flush::On => " WHERE (SELECT set_config('synchronous_commit', 'on', true)) IS NOT NULL",
            Flush::Applied => {
                " WHERE (SELECT set_config('synchronous_commit', 'remote_apply', true)) IS NOT NULL"
            }
            Flush::AsSet => "",
        }
    }
}

impl Shape {
    pub(crate) fn statement(self, flush: Flush) -> String {
        let part = |is_needed: bool, part: &'static str| match is_needed {
            true => part,
            false => "",
        };
        let want = format!("WITH want AS ({}),\n", rows(&WANT, !self.is_merged));
        [
            &want,
            part(self.minds_posts, CONSUMED),
            &self.moved(),
            part(self.minds_posts, TAKEN),
            part(self.keeps_answers, ANSWERED),
            part(self.names_artifacts, NAMING),
            &self.written(),
            flush.condition(),
        ]
        .concat()
    }

    /// Writes the blocks of the heads that moved on.
    fn written(self) -> String {
        let columns: Vec<&str> = BLOCK.iter().map(|(_, _, name)| *name).collect();
        format!(
            "written AS (INSERT INTO annals.block ({}) SELECT b.* FROM ({}) b
                JOIN moved m ON m.conversation = b.conversation)
             SELECT conversation FROM moved",
            columns.join(", "),
            rows(&BLOCK, self.is_one_block)
        )
    }

    /// Moves on the heads that are as their writers expect.
    fn moved(self) -> String {
        let conditions = |head: &str| {
            let posts = self.minds_posts.then(|| posts_are_expected(head));
            let answers = self.keeps_answers.then_some(ANSWER_IS_NEW);
            format!("{}{}", posts.unwrap_or_default(), answers.unwrap_or_default())
        };
        match self.is_merged {
            // Heads are locked in the order of their keys, so that no two statements wait for each other.
            true => format!(
                "locked AS MATERIALIZED (SELECT o.*, h.posted, h.waiting
                    FROM annals.head h JOIN want o ON o.conversation = h.conversation
                    WHERE {IS_EXPECTED} ORDER BY h.conversation FOR UPDATE OF h),
                 ok AS MATERIALIZED (SELECT o.* FROM locked o WHERE true{}),
                 {MOVED} FROM ok o WHERE h.conversation = o.conversation RETURNING h.conversation),\n",
                conditions("o")
            ),
            false => format!(
                "{MOVED} FROM want o WHERE h.conversation = o.conversation AND {IS_EXPECTED}{}
                 RETURNING h.conversation),\n",
                conditions("h")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, Partitions, init};
    use annals_testbed::{Durability, Edition, PostgresServer};

    fn shapes() -> impl Iterator<Item = Shape> {
        (0..32).map(|bits: u8| Shape {
            is_merged: bits & 1 > 0,
            minds_posts: bits & 2 > 0,
            keeps_answers: bits & 4 > 0,
            names_artifacts: bits & 8 > 0,
            is_one_block: bits & 16 > 0,
        })
    }

    const PARAMETERS: usize = 41;

    /// What the parameters are, from the statement that has all of them.
    fn parameter_types() -> Vec<String> {
        let all = shapes().last().unwrap().statement(Flush::On);
        let kind = |n: usize| {
            let cast = all.split(&format!("${n}::")).nth(1)?;
            cast.split([',', ')']).next().map(str::to_owned)
        };
        (1..=PARAMETERS)
            .map(|n| kind(n).unwrap_or_else(|| "int8".to_owned()))
            .collect()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_server_plans_every_shape_by_the_keys_of_its_tables() {
        let Some(server) = PostgresServer::start(Edition::Debian, Durability::Volatile, &[]) else {
            return;
        };
        let url = server.database("a", None).await;
        init(&Address::parse(&url).unwrap(), Partitions::NONE)
            .await
            .unwrap();
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        client.batch_execute(crate::append::PLANNING).await.unwrap();
        let types = parameter_types().join(", ");
        for (at, shape) in shapes().enumerate() {
            let plan = format!(
                "PREPARE s{at} ({types}) AS {}; EXPLAIN EXECUTE s{at} ({}NULL)",
                shape.statement(Flush::On),
                "NULL, ".repeat(PARAMETERS - 1)
            );
            let rows = client.simple_query(&plan).await.unwrap();
            let lines: Vec<String> = rows
                .iter()
                .filter_map(|row| match row {
                    tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                    _ => None,
                })
                .collect();
            assert!(
                lines.iter().any(|line| line.contains("head_pkey")),
                "{shape:?}: {lines:#?}"
            );
            assert!(
                !lines.iter().any(|line| line.contains("Seq Scan")),
                "{shape:?}: {lines:#?}"
            );
        }
    }
}
