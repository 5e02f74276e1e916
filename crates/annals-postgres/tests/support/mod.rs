//! Leases and blocks of the tests.

use std::time::Duration;

use annals_core::ids::Seq;
use annals_postgres::PostgresLog;
use annals_store::testing::{after, text_block};
use annals_store::{BlockLog as _, Lease};

pub(crate) const TTL: Duration = Duration::from_secs(600);

pub(crate) fn seq(number: u64) -> Option<Seq> {
    Seq::try_new(number).ok()
}

pub(crate) fn nth(number: u64) -> Seq {
    Seq::try_new(number).expect("from 1")
}

pub(crate) fn text(lease: &Lease, number: u64) -> String {
    format!("{}-{number}", lease.key().id)
}

/// Appends text blocks `from..=to`.
pub(crate) async fn fill(log: &PostgresLog, lease: &Lease, from: u64, to: u64) {
    let blocks = (from..=to).map(|n| text_block(n, &text(lease, n))).collect();
    let tail = log.append(lease, after(seq(from - 1), blocks)).await.unwrap();
    assert_eq!(tail, seq(to));
}
