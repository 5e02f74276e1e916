//! What the server of a bucket is worth, asked before anything depends on it.

use annals::s3::{Bucket, Probe};

use crate::failure::Failure;

/// A bucket, and what was found of it; none for artifacts that lie elsewhere.
pub(crate) async fn examined(url: &str) -> Result<Option<(Bucket, Probe)>, Failure> {
    if !url.starts_with("s3:") {
        return Ok(None);
    }
    let bucket = Bucket::parse(url).map_err(Failure::usage)?;
    let nonce = annals::runtime::World::default().random();
    let probe = bucket.probe(nonce).await.map_err(Failure::environment)?;
    Ok(Some((bucket, probe)))
}

/// What an operator should know of a bucket before it is used. One that cannot be used is an error.
pub(crate) async fn faults(url: &str) -> Result<Vec<String>, Failure> {
    let Some((bucket, probe)) = examined(url).await? else {
        return Ok(Vec::new());
    };
    let lacks = probe.lacks().into_iter();
    Ok(lacks.map(|lack| format!("{} {lack}", bucket.name())).collect())
}
