//! Multipart forms as execd reads them: pairs of `metadata` and `file`, and both must have a file name, or execd does not
//! see them.

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use sha2::{Digest as _, Sha256};

use crate::wire::UploadMetadata;

/// A form whose bytes are all at hand.
pub(crate) struct Form {
    boundary: String,
    body: Vec<u8>,
}

impl Form {
    pub(crate) fn new<'a>(files: impl Iterator<Item = (&'a UploadMetadata<'a>, &'a [u8])> + Clone) -> Self {
        let boundary = boundary(files.clone().map(|(_, bytes)| bytes));
        let mut body = Vec::new();
        for (metadata, bytes) in files {
            body.extend_from_slice(&head(&boundary, metadata));
            body.extend_from_slice(bytes);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(&tail(&boundary));
        Self { boundary, body }
    }

    pub(crate) fn content_type(&self) -> String {
        content_type(&self.boundary)
    }

    pub(crate) fn len(&self) -> usize {
        self.body.len()
    }

    pub(crate) fn into_body(self) -> Vec<u8> {
        self.body
    }
}

/// A form of one file that comes as a stream: its content type and its body.
pub(crate) fn stream(
    metadata: &UploadMetadata<'_>,
    body: impl Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static,
) -> (
    String,
    impl Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static,
) {
    // The stream's bytes are not known yet; the boundary comes from a name that is used once.
    let boundary = boundary([metadata.path.as_bytes()].into_iter());
    let head = Bytes::from(head(&boundary, metadata));
    let tail = Bytes::from([&b"\r\n"[..], &tail(&boundary)].concat());
    let content_type = content_type(&boundary);
    let whole = stream::once(async { Ok(head) })
        .chain(body)
        .chain(stream::once(async { Ok(tail) }));
    (content_type, whole)
}

/// A text that the content does not hold: a digest of the content.
fn boundary<'a>(contents: impl Iterator<Item = &'a [u8]>) -> String {
    let mut hasher = Sha256::new();
    contents.for_each(|content| hasher.update(content));
    let digest = hasher.finalize();
    let hex: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("annals-{hex}")
}

fn content_type(boundary: &str) -> String {
    format!("multipart/form-data; boundary={boundary}")
}

fn head(boundary: &str, metadata: &UploadMetadata<'_>) -> Vec<u8> {
    let json = serde_json::json!(metadata);
    format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"metadata\"; filename=\"metadata\"\r\n\
         Content-Type: application/json\r\n\r\n{json}\r\n\
         --{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"file\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n"
    )
    .into_bytes()
}

fn tail(boundary: &str) -> Vec<u8> {
    format!("--{boundary}--\r\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_parts_have_a_file_name_and_the_mode_has_octal_digits() {
        let metadata = UploadMetadata {
            path: "/tmp/ü",
            mode: crate::wire::mode_digits(0o755),
        };
        let form = Form::new([(&metadata, &b"bytes\0"[..])].into_iter());
        let boundary = form.content_type().split_once("boundary=").unwrap().1.to_owned();
        let body = String::from_utf8(form.into_body()).unwrap();
        let parts: Vec<_> = body.split(&format!("--{boundary}")).collect();
        assert_eq!(parts.len(), 4);
        assert!(parts[1].contains("name=\"metadata\"; filename="), "{body}");
        assert!(
            parts[1].ends_with("{\"path\":\"/tmp/ü\",\"mode\":755}\r\n"),
            "{body}"
        );
        assert!(parts[2].contains("name=\"file\"; filename="), "{body}");
        assert!(parts[2].ends_with("\r\n\r\nbytes\0\r\n"), "{body}");
        assert_eq!(parts[3], "--\r\n");
    }
}
