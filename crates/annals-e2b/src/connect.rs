//! Streams of Connect: messages with a flag and a length in front, the last of which says how the call ended.

use annals_remote::ApiError;
use bytes::{Buf as _, Bytes, BytesMut};
use serde::Deserialize;

use crate::wire::read_refusal;

const HEAD_BYTES: usize = 5;
/// Longest message that is kept.
const MESSAGE_MAX_BYTES: usize = 16 << 20;
const END_OF_STREAM: u8 = 2;

/// A message as it is sent.
pub(crate) fn envelope(json: &[u8]) -> Vec<u8> {
    let mut framed = Vec::with_capacity(HEAD_BYTES + json.len());
    framed.push(0);
    framed.extend_from_slice(&(json.len() as u32).to_be_bytes());
    framed.extend_from_slice(json);
    framed
}

/// A message that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    Data(Bytes),
    /// The call is over; why, if it failed.
    End(Option<Failed>),
}

/// How a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failed {
    code: String,
    message: String,
}

impl Failed {
    pub(crate) fn error(self, doing: &'static str) -> ApiError {
        ApiError::Refused {
            doing,
            status: status(&self.code),
            code: Some(self.code),
            message: self.message,
        }
    }
}

/// The HTTP status that stands for a code of Connect.
fn status(code: &str) -> u16 {
    match code {
        "invalid_argument" | "failed_precondition" | "out_of_range" => 400,
        "unauthenticated" => 401,
        "permission_denied" => 403,
        "not_found" => 404,
        "already_exists" | "aborted" => 409,
        "resource_exhausted" => 429,
        "unimplemented" => 501,
        // A proxy says so when the sandbox goes away under a call.
        "unavailable" | "canceled" => 503,
        "deadline_exceeded" => 504,
        _ => 500,
    }
}

/// A stream that does not speak the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("a message has {0} bytes; at most {MESSAGE_MAX_BYTES} are taken")]
    TooLong(usize),
    #[error("a message has the unknown flags `{0:#x}`")]
    Flags(u8),
}

/// Collects bytes and gives messages.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    bytes: BytesMut,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EndBody {
    error: Option<serde_json::Value>,
}

impl Frames {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next message that is whole.
    pub(crate) fn next(&mut self) -> Result<Option<Message>, FrameError> {
        let Some((head, _)) = self.bytes.split_at_checked(HEAD_BYTES) else {
            return Ok(None);
        };
        let flags = head[0];
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if flags & !END_OF_STREAM != 0 {
            return Err(FrameError::Flags(flags));
        }
        if length > MESSAGE_MAX_BYTES {
            return Err(FrameError::TooLong(length));
        }
        if self.bytes.len() < HEAD_BYTES + length {
            return Ok(None);
        }
        self.bytes.advance(HEAD_BYTES);
        let body = self.bytes.split_to(length).freeze();
        Ok(Some(match flags {
            END_OF_STREAM => Message::End(failed(&body)),
            _ => Message::Data(body),
        }))
    }
}

fn failed(body: &[u8]) -> Option<Failed> {
    let read: EndBody = serde_json::from_slice(body).unwrap_or_default();
    let error = read.error?.to_string();
    let (code, message) = read_refusal(error.as_bytes());
    let code = code.unwrap_or_else(|| "unknown".to_owned());
    Some(Failed { code, message })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stream() -> Vec<u8> {
        let mut bytes = envelope(b"{\"event\":{}}");
        bytes.extend(envelope("{\"text\":\"gr\u{fc}\u{df}e\"}".as_bytes()));
        let mut end = envelope(br#"{"error":{"code":"not_found","message":"no"}}"#);
        end[0] = END_OF_STREAM;
        bytes.extend(end);
        bytes
    }

    fn all(frames: &mut Frames) -> Vec<Message> {
        std::iter::from_fn(|| frames.next().unwrap()).collect()
    }

    #[test]
    fn messages_are_read_and_the_last_says_how_it_ended() {
        let mut frames = Frames::default();
        frames.push(&stream());
        let read = all(&mut frames);
        assert_eq!(read.len(), 3);
        let Message::End(Some(failed)) = read[2].clone() else {
            panic!("{read:?}")
        };
        assert!(failed.error("do it").is_not_found());
        frames.push(&[END_OF_STREAM, 0, 0, 0, 2, b'{', b'}']);
        assert_eq!(all(&mut frames), [Message::End(None)]);
    }

    #[test]
    fn what_is_no_message_is_refused_before_memory_is() {
        let mut frames = Frames::default();
        frames.push(b"<html>not what you think</html>");
        assert_eq!(frames.next(), Err(FrameError::Flags(b'<')));
        let mut frames = Frames::default();
        frames.push(&[0, 0xff, 0, 0, 0]);
        assert_eq!(frames.next(), Err(FrameError::TooLong(0xff00_0000)));
    }

    proptest! {
        #[test]
        fn any_split_of_the_bytes_gives_the_same_messages(cuts in prop::collection::vec(0usize..200, 0..12)) {
            let bytes = stream();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let (mut frames, mut read) = (Frames::default(), Vec::new());
            for pair in cuts.windows(2) {
                frames.push(&bytes[pair[0]..pair[1]]);
                read.extend(all(&mut frames));
            }
            let mut whole = Frames::default();
            whole.push(&bytes);
            prop_assert_eq!(read, all(&mut whole));
        }
    }
}
