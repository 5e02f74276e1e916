//! From bytes to events, without IO: any chunking of a stream gives the same events, errors included.

use std::collections::VecDeque;

use super::fault::{self, Fault};
use super::key::ApiKey;
use super::sse::{SseEvent, SseParser};
use crate::error::ModelError;
use crate::event::Event;

/// Turns a vendor's events into ours. Has no IO, so that any chunking of a stream gives the same result.
pub(crate) trait Decoder: Send + 'static {
    /// Takes one event.
    fn event(&mut self, event: &SseEvent, out: &mut VecDeque<Event>) -> Result<(), DecodeError>;

    /// The stream is over.
    fn end(&mut self, out: &mut VecDeque<Event>) -> Result<(), DecodeError>;

    /// Whether the vendor said that nothing more comes.
    fn is_finished(&self) -> bool;
}

/// Why a vendor's event cannot be used.
#[derive(Debug)]
pub(crate) enum DecodeError {
    /// The vendor complains.
    Fault(Fault),
    /// It is not the vendor's protocol.
    Malformed(String),
    /// It ended too early.
    CutOff,
}

impl DecodeError {
    pub(crate) fn into_error(self, key: Option<&ApiKey>) -> ModelError {
        match self {
            DecodeError::Fault(fault) => fault.into_error(key),
            DecodeError::Malformed(message) => ModelError::Malformed {
                message: fault::shown(&message, key),
            },
            DecodeError::CutOff => ModelError::CutOff,
        }
    }
}

/// Reads the JSON of an event.
pub(crate) fn parse<'a, T: serde::Deserialize<'a>>(data: &'a str) -> Result<T, DecodeError> {
    serde_json::from_str(data).map_err(|error| DecodeError::Malformed(format!("{error} in `{data}`")))
}

/// A decoder fed with bytes. What was decoded comes out before the failure that came after it.
pub(crate) struct Decoding<D> {
    parser: SseParser,
    decoder: D,
    queue: VecDeque<Event>,
    failure: Option<ModelError>,
    is_closed: bool,
    key: Option<ApiKey>,
}

/// What to do next with a [`Decoding`].
pub(crate) enum Next {
    Event(Event),
    Failure(ModelError),
    NeedsBytes,
    End,
}

impl<D: Decoder> Decoding<D> {
    /// The key is taken out of every failure.
    pub(crate) fn new(decoder: D, key: Option<ApiKey>) -> Self {
        let parser = SseParser::default();
        Decoding {
            parser,
            decoder,
            queue: VecDeque::new(),
            failure: None,
            is_closed: false,
            key,
        }
    }

    pub(crate) fn next(&mut self) -> Next {
        if let Some(event) = self.queue.pop_front() {
            return Next::Event(event);
        }
        match self.failure.take() {
            Some(failure) => Next::Failure(failure),
            None if self.is_closed => Next::End,
            None => Next::NeedsBytes,
        }
    }

    /// Takes the next bytes of the body.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let mut events: Vec<SseEvent> = Vec::new();
        let overflow = self.parser.push(bytes, &mut events).err();
        self.decode(&events);
        if let Some(overflow) = overflow
            && !self.is_closed
        {
            self.fail(ModelError::TooLarge {
                max_bytes: overflow.max_bytes as u64,
            });
        }
    }

    /// The body is over.
    pub(crate) fn end(&mut self) {
        let last = self.parser.finish();
        self.decode(last.as_slice());
        if !self.is_closed {
            self.is_closed = true;
            if let Err(error) = self.decoder.end(&mut self.queue) {
                self.failure = Some(error.into_error(self.key.as_ref()));
            }
        }
    }

    /// The body cannot be read on.
    pub(crate) fn fail(&mut self, error: ModelError) {
        self.failure = Some(error);
        self.is_closed = true;
    }

    /// Whether the vendor said that nothing more comes.
    pub(crate) fn is_finished(&self) -> bool {
        self.decoder.is_finished()
    }

    fn decode(&mut self, events: &[SseEvent]) {
        for event in events {
            if self.is_closed {
                return;
            }
            match self.decoder.event(event, &mut self.queue) {
                Ok(()) => self.is_closed = self.decoder.is_finished(),
                Err(error) => self.fail(error.into_error(self.key.as_ref())),
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Everything a decoder makes of these chunks.
    pub(crate) fn replay<'a>(
        decoder: impl Decoder,
        chunks: impl IntoIterator<Item = &'a [u8]>,
    ) -> Vec<Result<Event, ModelError>> {
        let mut decoding = Decoding::new(decoder, None);
        let mut chunks = chunks.into_iter();
        let mut events = Vec::new();
        loop {
            match decoding.next() {
                Next::Event(event) => events.push(Ok(event)),
                Next::Failure(failure) => events.push(Err(failure)),
                Next::End => return events,
                Next::NeedsBytes => match chunks.next() {
                    Some(chunk) => decoding.push(chunk),
                    None => decoding.end(),
                },
            }
        }
    }

    /// A body cut at these places.
    pub(crate) fn cut<'a>(body: &'a [u8], places: &[usize]) -> Vec<&'a [u8]> {
        let mut places: Vec<usize> = places.iter().map(|place| place % (body.len() + 1)).collect();
        places.extend([0, body.len()]);
        places.sort_unstable();
        places.windows(2).map(|pair| &body[pair[0]..pair[1]]).collect()
    }
}
