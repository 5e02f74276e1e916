//! Multipart forms, of bytes at hand or with one file as a stream.

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use sha2::{Digest as _, Sha256};

use crate::port::UploadBody;

/// What stands before the content of a part. All have a file name: some servers do not see one without.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// Name of the field.
    pub name: &'a str,
    /// Type of the content.
    pub content_type: &'a str,
}

impl Head<'_> {
    /// A part of bytes under the name that servers expect a file under.
    pub const FILE: Head<'static> = Head {
        name: "file",
        content_type: "application/octet-stream",
    };

    fn bytes(&self, boundary: &str) -> Vec<u8> {
        let Self { name, content_type } = self;
        format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{name}\"\r\n\
             Content-Type: {content_type}\r\n\r\n"
        )
        .into_bytes()
    }
}

/// A form whose bytes are all at hand.
pub struct Form {
    boundary: String,
    body: Vec<u8>,
}

impl Form {
    /// A form of these parts.
    pub fn new(parts: &[(Head<'_>, &[u8])]) -> Self {
        let boundary = boundary(parts.iter().map(|(_, bytes)| *bytes));
        let mut body = Vec::new();
        for (head, bytes) in parts {
            body.extend_from_slice(&head.bytes(&boundary));
            body.extend_from_slice(bytes);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(&tail(&boundary));
        Self { boundary, body }
    }

    /// Value of the header.
    pub fn content_type(&self) -> String {
        content_type(&self.boundary)
    }

    /// How many bytes the body has.
    pub fn size_bytes(&self) -> usize {
        self.body.len()
    }

    /// The body.
    pub fn into_body(self) -> Vec<u8> {
        self.body
    }
}

/// A form whose last part is a file that comes as a stream: its content type and its body. `unique` is a text that the
/// stream does not hold.
pub fn stream(
    unique: &str,
    before: &[(Head<'_>, &[u8])],
    body: UploadBody,
) -> (
    String,
    impl Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static,
) {
    let boundary = boundary([unique.as_bytes()].into_iter());
    let mut head = Vec::new();
    for (part, bytes) in before {
        head.extend_from_slice(&part.bytes(&boundary));
        head.extend_from_slice(bytes);
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(&Head::FILE.bytes(&boundary));
    let tail = Bytes::from([&b"\r\n"[..], &tail(&boundary)].concat());
    let whole = stream::once(async { Ok(head.into()) })
        .chain(body)
        .chain(stream::once(async { Ok(tail) }));
    (content_type(&boundary), whole)
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

fn tail(boundary: &str) -> Vec<u8> {
    format!("--{boundary}--\r\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: Head<'static> = Head {
        name: "metadata",
        content_type: "application/json",
    };

    fn check(content_type: &str, body: &[u8]) {
        let (_, boundary) = content_type.split_once("boundary=").unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        let parts: Vec<_> = body.split(&format!("--{boundary}")).collect();
        assert_eq!(parts.len(), 4, "{body}");
        assert!(parts[1].contains("name=\"metadata\"; filename="), "{body}");
        assert!(parts[1].ends_with("\r\n\r\n{}\r\n"), "{body}");
        assert!(parts[2].contains("name=\"file\"; filename="), "{body}");
        assert!(parts[2].ends_with("\r\n\r\nbytes\0\r\n"), "{body}");
        assert_eq!(parts[3], "--\r\n");
    }

    #[test]
    fn every_part_has_a_file_name_and_the_body_ends() {
        let form = Form::new(&[(METADATA, b"{}"), (Head::FILE, b"bytes\0")]);
        assert_eq!(form.size_bytes(), form.body.len());
        check(&form.content_type(), &form.body);
    }

    #[tokio::test]
    async fn a_file_that_comes_as_a_stream_stands_in_the_same_form() {
        let pieces = ["by", "tes\0"].map(|piece| Ok(Bytes::from(piece)));
        let (content_type, body) = stream("/a/path", &[(METADATA, b"{}")], stream::iter(pieces).boxed());
        let body: Vec<Bytes> = body.map(Result::unwrap).collect().await;
        check(&content_type, &body.concat());
    }
}
