//! Event streams of execd, from bytes to events.
//!
//! execd says `text/event-stream` and sends bare JSON with a blank line after it; proxies and later versions send
//! `data:` lines. The last frame may lack its blank line, and a chunk may end anywhere, inside a character too. So bytes
//! are kept until a line is whole, and what lies behind the last line break counts when the stream ends.

use crate::wire::Event;

/// Longest line that is kept; execd sends one for each line of output.
const LINE_MAX_BYTES: usize = 16 << 20;

/// A stream that does not speak the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("an event has more than {LINE_MAX_BYTES} bytes")]
    TooLong,
    #[error("`{0}` is not an event")]
    NotJson(String),
}

/// Collects bytes and gives events.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    line: Vec<u8>,
    /// `data:` lines of a frame that has not ended.
    data: Vec<u8>,
}

impl Frames {
    /// Takes what came next and gives the events that are whole now.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, FrameError> {
        let mut events = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + self.data.len() + piece.len() > LINE_MAX_BYTES {
                return Err(FrameError::TooLong);
            }
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.end_line(&mut events)?;
            }
        }
        Ok(events)
    }

    /// Gives what the end of the stream completes. A line that was cut off in the middle is no event.
    pub(crate) fn finish(mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let _ = self.end_line(&mut events);
        let _ = self.end_frame(&mut events);
        events
    }

    fn end_line(&mut self, events: &mut Vec<Event>) -> Result<(), FrameError> {
        let line = std::mem::take(&mut self.line);
        let line = line.trim_ascii_end();
        if line.is_empty() {
            return self.end_frame(events);
        }
        if let Some(data) = line.strip_prefix(b"data:") {
            if !self.data.is_empty() {
                self.data.push(b'\n');
            }
            self.data
                .extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
            return Ok(());
        }
        if line.starts_with(b"{") {
            self.end_frame(events)?;
            events.push(event(line)?);
            return Ok(());
        }
        let is_field = [&b":"[..], b"event:", b"id:", b"retry:"]
            .iter()
            .any(|field| line.starts_with(field));
        match is_field {
            true => Ok(()),
            false => Err(not_json(line)),
        }
    }

    fn end_frame(&mut self, events: &mut Vec<Event>) -> Result<(), FrameError> {
        let data = std::mem::take(&mut self.data);
        if !data.is_empty() {
            events.push(event(&data)?);
        }
        Ok(())
    }
}

fn event(json: &[u8]) -> Result<Event, FrameError> {
    serde_json::from_slice(json).map_err(|_| not_json(json))
}

fn not_json(bytes: &[u8]) -> FrameError {
    FrameError::NotJson(String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Streams in the forms that were seen on the wire.
    const STREAMS: [&str; 6] = [
        "{\"type\":\"init\",\"text\":\"c1\",\"timestamp\":1}\n\n{\"type\":\"ping\",\"text\":\"pong\"}\n\n\
         {\"type\":\"stdout\",\"text\":\"grüße 😀\"}\n\n{\"type\":\"execution_complete\",\"execution_time\":3}\n\n",
        "data: {\"type\":\"init\",\"text\":\"c1\"}\n\ndata:{\"type\":\"stderr\",\"text\":\"ü\"}\n\n",
        "event: message\nid: 7\ndata: {\"type\":\"stdout\",\ndata: \"text\":\"two lines\"}\n\n: comment\n\n",
        "{\"type\":\"init\",\"text\":\"k\"}\n\n{\"code\":\"RUNTIME_ERROR\",\"message\":\"session is busy\"}",
        "{\"type\":\"error\",\"error\":{\"ename\":\"CommandExecError\",\"evalue\":\"7\",\"traceback\":null}}\r\n\r\n",
        "{\"type\":\"stdout\",\"text\":\"\\n\"}\n\n{\"type\":\"stdout\",\"text\":\"last\"}\n",
    ];

    fn whole(stream: &[u8]) -> Vec<Event> {
        let mut frames = Frames::default();
        let mut events = frames.push(stream).unwrap();
        events.extend(frames.finish());
        events
    }

    #[test]
    fn both_framings_an_untyped_tail_and_a_null_traceback_are_read() {
        let kinds = |stream: &str| -> Vec<String> {
            let events = whole(stream.as_bytes());
            let kind = |event: Event| event.kind.or(event.code).unwrap_or_default();
            events.into_iter().map(kind).collect()
        };
        assert_eq!(
            kinds(STREAMS[0]),
            ["init", "ping", "stdout", "execution_complete"]
        );
        assert_eq!(kinds(STREAMS[1]), ["init", "stderr"]);
        assert_eq!(kinds(STREAMS[2]), ["stdout"]);
        assert_eq!(kinds(STREAMS[3]), ["init", "RUNTIME_ERROR"]);
        let error = whole(STREAMS[4].as_bytes()).remove(0).error.unwrap();
        assert_eq!((error.evalue.as_str(), error.traceback), ("7", None));
        assert_eq!(kinds(STREAMS[5]), ["stdout", "stdout"]);
    }

    #[test]
    fn what_is_no_event_is_refused_and_a_cut_line_at_the_end_is_dropped() {
        assert!(Frames::default().push(b"<html>502</html>\n").is_err());
        assert!(Frames::default().push(b"{\"type\":\n").is_err());
        let mut frames = Frames::default();
        assert_eq!(frames.push(b"{\"type\":\"stdo").unwrap(), []);
        assert_eq!(frames.finish(), []);
    }

    #[test]
    fn a_line_without_end_is_refused_before_memory_is() {
        let mut frames = Frames::default();
        let piece = vec![b'x'; 1 << 20];
        let refused = (0..20).find_map(|_| frames.push(&piece).err());
        assert_eq!(refused, Some(FrameError::TooLong));
    }

    proptest! {
        #[test]
        fn any_split_of_the_bytes_gives_the_same_events(
            stream in prop::sample::select(STREAMS.to_vec()),
            cuts in prop::collection::vec(0usize..400, 0..12),
        ) {
            let bytes = stream.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut frames = Frames::default();
            let mut events = Vec::new();
            for pair in cuts.windows(2) {
                events.extend(frames.push(&bytes[pair[0]..pair[1]]).unwrap());
            }
            events.extend(frames.finish());
            prop_assert_eq!(events, whole(bytes));
        }
    }
}
