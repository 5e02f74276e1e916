//! Signed addresses of objects, for clients that fetch from the bucket itself.

use std::sync::Arc;
use std::time::Duration;

use annals_store::artifacts::{Download, DownloadSigner};
use async_trait::async_trait;
use object_store::aws::AmazonS3;
use object_store::path::Path as ObjectPath;
use object_store::prefix::PrefixStore;
use object_store::signer::{Method, SignedUrlOptions, Signer as _};

/// Signs with the keys of the bucket. An address serves one object, with one type and name, until it expires.
#[derive(Debug)]
pub(crate) struct Downloads {
    pub(crate) objects: Arc<PrefixStore<AmazonS3>>,
    pub(crate) expires: Duration,
}

#[async_trait]
impl DownloadSigner for Downloads {
    async fn sign(&self, key: &str, download: Download<'_>) -> Result<String, String> {
        let options = SignedUrlOptions::default().with_query([
            ("response-content-disposition", download.disposition),
            ("response-content-type", download.media_type),
        ]);
        let path = ObjectPath::from(key);
        let signed = self
            .objects
            .signed_url_opts(Method::GET, &path, self.expires, &options)
            .await;
        signed.map(String::from).map_err(|error| error.to_string())
    }
}
