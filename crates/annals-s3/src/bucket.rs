//! Where objects are, from a URL.

use std::sync::Arc;
use std::time::Duration;

use annals_store::ArtifactStore;
use object_store::aws::{AmazonS3, AmazonS3Builder, Checksum};
use object_store::path::Path as ObjectPath;
use object_store::prefix::PrefixStore;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use crate::cache::{Cache, Cached};
use crate::download::Downloads;

/// How long a signed address may hold.
const SIGNED_SECONDS: std::ops::RangeInclusive<u64> = 10..=3_600;

/// Why a text names no bucket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BucketError {
    /// The text has another form.
    #[error("the artifacts' URL cannot be used: {0}; it looks like `s3://bucket/prefix?region=eu-central-1`")]
    Malformed(String),
    /// What the URL and the environment say does not make a client.
    #[error("no client for the bucket can be made: {0}")]
    Client(#[from] object_store::Error),
    /// The cache's folder cannot be used.
    #[error("the cache `{folder}` cannot be used: {error}")]
    Cache {
        /// The folder.
        folder: String,
        /// What the file system said.
        error: std::io::Error,
    },
}

/// A bucket, or a part of one.
#[derive(Clone, Debug)]
pub struct Bucket {
    objects: Arc<PrefixStore<AmazonS3>>,
    name: String,
    /// How long a signed address of an object holds, where they are given out.
    downloads: Option<Duration>,
}

impl Bucket {
    /// Reads `s3://bucket/prefix?option=value&…`; keys come from the environment (`AWS_ACCESS_KEY_ID` and the like), a
    /// web identity or the machine's role.
    ///
    /// Options: `region`, `endpoint` (a server that is not Amazon's, with its path in the URL instead of the host),
    /// `sse_kms_key` (encrypts with this key), `signed_downloads` (clients fetch files from the bucket, by addresses that hold
    /// for this many seconds). A prefix belongs to one store: what no block of it names is removed.
    pub fn parse(url: &str) -> Result<Self, BucketError> {
        Self::build(url, AmazonS3Builder::from_env())
    }

    /// The same with these keys.
    pub fn with_keys(url: &str, key_id: &str, secret: &str) -> Result<Self, BucketError> {
        let builder = AmazonS3Builder::new()
            .with_access_key_id(key_id)
            .with_secret_access_key(secret);
        Self::build(url, builder)
    }

    fn build(url: &str, builder: AmazonS3Builder) -> Result<Self, BucketError> {
        let malformed = |what: &str| BucketError::Malformed(what.to_owned());
        let rest = url
            .strip_prefix("s3://")
            .ok_or_else(|| malformed("it does not begin with `s3://`"))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        if bucket.is_empty() || bucket.contains('@') {
            return Err(malformed("it names no bucket; keys come from the environment"));
        }
        let mut builder = builder
            .with_bucket_name(bucket)
            .with_checksum_algorithm(Checksum::SHA256)
            .with_retry(retry())
            .with_client_options(ClientOptions::new().with_timeout(Duration::from_secs(60)));
        let mut downloads = None;
        for option in query.split('&').filter(|option| !option.is_empty()) {
            builder = match option.split_once('=') {
                Some(("region", region)) => builder.with_region(region),
                Some(("endpoint", endpoint)) => builder
                    .with_endpoint(endpoint)
                    .with_allow_http(endpoint.starts_with("http://"))
                    .with_virtual_hosted_style_request(false),
                Some(("sse_kms_key", key)) => builder.with_sse_kms_encryption(key),
                Some(("signed_downloads", seconds)) => {
                    let seconds = seconds
                        .parse()
                        .ok()
                        .filter(|seconds| SIGNED_SECONDS.contains(seconds));
                    let seconds =
                        seconds.ok_or_else(|| malformed("`signed_downloads` is 10 to 3600 seconds"))?;
                    downloads = Some(Duration::from_secs(seconds));
                    builder
                }
                _ => return Err(malformed(&format!("it has an unknown option `{option}`"))),
            };
        }
        // Requests are signed and encrypted by the same provider as everywhere here; a second install does nothing.
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let prefix = ObjectPath::parse(prefix).map_err(|error| malformed(&error.to_string()))?;
        Ok(Bucket {
            name: format!("s3://{bucket}/{prefix}"),
            objects: Arc::new(PrefixStore::new(builder.build()?, prefix)),
            downloads,
        })
    }

    /// Bucket and prefix: for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The artifact store over this bucket, through a cache if there is one.
    pub fn open(&self, cache: Option<Cache>) -> Result<ArtifactStore, BucketError> {
        let objects: Arc<dyn ObjectStore> = match cache {
            Some(cache) => Arc::new(Cached::open(Arc::clone(&self.objects), cache)?),
            None => Arc::clone(&self.objects) as _,
        };
        let store = ArtifactStore::over(objects);
        Ok(match self.downloads {
            None => store,
            Some(expires) => store.with_downloads(Arc::new(Downloads {
                objects: Arc::clone(&self.objects),
                expires,
            })),
        })
    }

    pub(crate) fn objects(&self) -> &PrefixStore<AmazonS3> {
        &self.objects
    }
}

/// A put that fails for long fails the turn; the caller says so sooner than the default of minutes.
fn retry() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: 3,
        retry_timeout: Duration::from_secs(20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_url_is_said_and_keys_in_it_are_not_repeated() {
        for (url, said) in [
            ("file:/x", "s3://"),
            ("s3://", "no bucket"),
            ("s3://me:hunter2@bucket/x", "environment"),
            ("s3://bucket/x?colour=red", "colour"),
            ("s3://bucket/x?signed_downloads=9", "seconds"),
        ] {
            let error = Bucket::parse(url).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        let bucket = Bucket::parse("s3://bucket/some/prefix?region=eu-central-1").unwrap();
        assert_eq!(bucket.name(), "s3://bucket/some/prefix");
    }
}
