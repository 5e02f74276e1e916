//! Server-sent events, as far as models use them.
//!
//! Takes bytes in any chunking and gives whole events. Knows comments, `event`, multi-line `data`, all three line
//! ends and a byte order mark; ignores `id` and `retry`. Never panics, and never holds more than its bound.

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The `event` field; empty if there was none.
    pub name: String,
    /// The `data` lines, joined by line feeds.
    pub data: String,
}

/// An event that is longer than the parser's bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is longer than {max_bytes} bytes")]
pub struct SseOverflow {
    /// The bound.
    pub max_bytes: usize,
}

/// Finds events in a stream of bytes.
#[derive(Debug)]
pub struct SseParser {
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// The last byte was a carriage return that has ended its line: a line feed right after it ends nothing.
    after_cr: bool,
    is_first_line: bool,
    max_bytes: usize,
}

impl Default for SseParser {
    fn default() -> Self {
        SseParser::new(annals_core::limits::MODEL_EVENT_MAX_BYTES)
    }
}

impl SseParser {
    /// A parser that refuses events longer than this.
    pub fn new(max_bytes: usize) -> Self {
        SseParser {
            line: Vec::new(),
            name: Vec::new(),
            data: Vec::new(),
            has_data: false,
            after_cr: false,
            is_first_line: true,
            max_bytes,
        }
    }

    /// Takes the next bytes; whole events go to `events`. A character may be split between calls.
    pub fn push(&mut self, mut bytes: &[u8], events: &mut impl Extend<SseEvent>) -> Result<(), SseOverflow> {
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|&byte| byte == b'\n' || byte == b'\r');
            let (part, ended_by) = match end {
                Some(at) => (&bytes[..at], Some(bytes[at])),
                None => (bytes, None),
            };
            self.line.extend_from_slice(part);
            if self.line.len() + self.data.len() > self.max_bytes {
                return Err(SseOverflow {
                    max_bytes: self.max_bytes,
                });
            }
            bytes = &bytes[(part.len() + usize::from(ended_by.is_some())).min(bytes.len())..];
            if let Some(byte) = ended_by {
                self.after_cr = byte == b'\r';
                events.extend(self.end_line());
            }
        }
        Ok(())
    }

    /// The event that lacks its empty line because the stream ended; servers are careless there.
    pub fn finish(&mut self) -> Option<SseEvent> {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.dispatch()
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let mut line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.is_first_line) && line.starts_with(b"\xEF\xBB\xBF") {
            line.drain(..3);
        }
        let event = if line.is_empty() {
            self.dispatch()
        } else {
            self.field(&line);
            None
        };
        line.clear();
        self.line = line; // its capacity is worth keeping
        event
    }

    fn field(&mut self, line: &[u8]) {
        let (name, value) = match line.iter().position(|&byte| byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"event" => self.name = value.to_owned(),
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            _ => {}
        }
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        std::mem::take(&mut self.has_data).then(|| SseEvent {
            name: into_text(name),
            data: into_text(data),
        })
    }
}

/// Whole lines only come here, so that a split character is whole again.
fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(chunks: &[&[u8]]) -> Vec<SseEvent> {
        let mut parser = SseParser::default();
        let mut events = Vec::new();
        for chunk in chunks {
            parser.push(chunk, &mut events).unwrap();
        }
        events.extend(parser.finish());
        events
    }

    fn event(name: &str, data: &str) -> SseEvent {
        SseEvent {
            name: name.into(),
            data: data.into(),
        }
    }

    #[test]
    fn names_comments_and_several_data_lines_are_understood() {
        let text = b"\xEF\xBB\xBF: hello\nevent: ping\ndata: one\ndata:  two\nid: 7\nretry: 1\n\ndata\n\nevent: lonely\n\n";
        assert_eq!(parse(&[text]), [event("ping", "one\n two"), event("", "")]);
    }

    #[test]
    fn every_line_end_counts_once_even_when_it_is_split() {
        let expected = [event("", "a\nb"), event("", "c")];
        assert_eq!(parse(&[b"data:a\r\ndata:b\r\n\r\ndata:c\r\n\r\n"]), expected);
        assert_eq!(parse(&[b"data:a\rdata:b\r\rdata:c\r\r"]), expected);
        assert_eq!(
            parse(&[b"data:a\r", b"\ndata:b\r", b"\n\r", b"\ndata:c\r", b"\n\r", b"\n"]),
            expected
        );
    }

    #[test]
    fn a_last_event_without_its_empty_line_is_not_lost() {
        assert_eq!(parse(&[b"data: [DONE]"]), [event("", "[DONE]")]);
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut parser = SseParser::new(64);
        let mut events: Vec<SseEvent> = Vec::new();
        let result = (0..100).try_for_each(|_| parser.push(b"data: 0123456789\n", &mut events));
        assert_eq!(result, Err(SseOverflow { max_bytes: 64 }));
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_events(
            text in r#"((data|event|: c|x): ?[aé🦀]{0,3}(\r\n|\n|\r)|(\r\n|\n|\r)){0,12}"#,
            cuts in prop::collection::vec(0usize..120, 0..8),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
            prop_assert_eq!(parse(&chunks), parse(&[bytes]));
        }

        #[test]
        fn no_bytes_make_the_parser_panic(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..12)) {
            let mut parser = SseParser::new(128);
            let mut events: Vec<SseEvent> = Vec::new();
            for chunk in &chunks {
                if parser.push(chunk, &mut events).is_err() {
                    break;
                }
            }
            parser.finish();
        }
    }
}
