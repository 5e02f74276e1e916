//! The bytes of an answer: unpacked within a bound, and decoded as the text they are.

use std::io::{self, Write};

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use flate2::write::{DeflateDecoder, GzDecoder, ZlibDecoder};

/// How an answer is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// It is not.
    Plain,
    /// gzip.
    Gzip,
    /// zlib, or raw deflate from servers that misread the standard.
    Deflate,
}

/// An unpacked body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// The bytes, at most as many as allowed.
    pub bytes: Vec<u8>,
    /// Whether there was more.
    pub is_cut: bool,
}

/// Takes chunks as they arrive and unpacks them, never beyond the bound.
pub struct Unpacker {
    decoder: Decoder,
}

enum Decoder {
    Plain(Bounded),
    Gzip(GzDecoder<Bounded>),
    Zlib(ZlibDecoder<Bounded>),
    Raw(DeflateDecoder<Bounded>),
    /// Deflate whose first byte has not come yet: it tells the two kinds apart.
    Undecided(Bounded),
}

impl Unpacker {
    /// Unpacks this coding into at most this many bytes.
    pub fn new(coding: Coding, limit_bytes: usize) -> Self {
        let sink = Bounded {
            limit_bytes,
            ..Bounded::default()
        };
        let decoder = match coding {
            Coding::Plain => Decoder::Plain(sink),
            Coding::Gzip => Decoder::Gzip(GzDecoder::new(sink)),
            Coding::Deflate => Decoder::Undecided(sink),
        };
        Unpacker { decoder }
    }

    /// Takes the next chunk.
    pub fn push(&mut self, chunk: &[u8]) -> io::Result<()> {
        if chunk.is_empty() || self.is_full() {
            return Ok(());
        }
        if let Decoder::Undecided(sink) = &mut self.decoder {
            let sink = std::mem::take(sink);
            let is_zlib = chunk[0] & 0x0f == 8 && chunk[0] >> 4 <= 7;
            self.decoder = if is_zlib {
                Decoder::Zlib(ZlibDecoder::new(sink))
            } else {
                Decoder::Raw(DeflateDecoder::new(sink))
            };
        }
        let written = match &mut self.decoder {
            Decoder::Plain(sink) | Decoder::Undecided(sink) => sink.write_all(chunk),
            Decoder::Gzip(decoder) => decoder.write_all(chunk),
            Decoder::Zlib(decoder) => decoder.write_all(chunk),
            Decoder::Raw(decoder) => decoder.write_all(chunk),
        };
        // A full sink stops the decoder with an error, which is how a bomb ends.
        if self.is_full() { Ok(()) } else { written }
    }

    /// Whether the bound is reached, so that further chunks are pointless.
    pub fn is_full(&self) -> bool {
        self.sink().out.is_cut
    }

    /// Gives away what was unpacked so far; it goes on counting for the bound.
    pub fn take(&mut self) -> Vec<u8> {
        let sink = self.sink_mut();
        let bytes = std::mem::take(&mut sink.out.bytes);
        sink.taken_bytes += bytes.len();
        bytes
    }

    fn sink(&self) -> &Bounded {
        match &self.decoder {
            Decoder::Plain(sink) | Decoder::Undecided(sink) => sink,
            Decoder::Gzip(decoder) => decoder.get_ref(),
            Decoder::Zlib(decoder) => decoder.get_ref(),
            Decoder::Raw(decoder) => decoder.get_ref(),
        }
    }

    fn sink_mut(&mut self) -> &mut Bounded {
        match &mut self.decoder {
            Decoder::Plain(sink) | Decoder::Undecided(sink) => sink,
            Decoder::Gzip(decoder) => decoder.get_mut(),
            Decoder::Zlib(decoder) => decoder.get_mut(),
            Decoder::Raw(decoder) => decoder.get_mut(),
        }
    }

    /// What was unpacked and not taken.
    pub fn finish(mut self) -> io::Result<Unpacked> {
        let finished = match &mut self.decoder {
            Decoder::Plain(_) | Decoder::Undecided(_) => Ok(()),
            Decoder::Gzip(decoder) => decoder.try_finish(),
            Decoder::Zlib(decoder) => decoder.try_finish(),
            Decoder::Raw(decoder) => decoder.try_finish(),
        };
        if !self.is_full() {
            finished.or_else(tolerated)?;
        }
        Ok(std::mem::take(&mut self.sink_mut().out))
    }
}

/// A stream that ends early has still given what it gave; browsers show it too.
fn tolerated(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::WriteZero => Ok(()),
        _ => Err(error),
    }
}

/// Keeps bytes up to a bound and refuses the rest.
#[derive(Debug, Default)]
struct Bounded {
    out: Unpacked,
    taken_bytes: usize,
    limit_bytes: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.limit_bytes - self.taken_bytes - self.out.bytes.len();
        if bytes.len() <= room {
            self.out.bytes.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        self.out.bytes.extend_from_slice(&bytes[..room]);
        self.out.is_cut = true;
        Err(io::Error::new(io::ErrorKind::FileTooLarge, "more than the bound"))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where a text may declare its own encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declared {
    /// In a `<meta>` near its beginning.
    InHtml,
    /// It cannot.
    Nowhere,
}

/// A `<meta charset>` is looked for in this many bytes, as browsers do.
const META_MAX_BYTES: usize = 1_024;

/// The bytes as text: by byte order mark, by what the server said, by what the page says, by what is valid.
pub fn text(bytes: &[u8], charset: Option<&str>, declared: Declared) -> String {
    let named = |name: &str| Encoding::for_label(name.as_bytes());
    let in_page = || match declared {
        Declared::InHtml => meta_charset(&bytes[..bytes.len().min(META_MAX_BYTES)])
            .as_deref()
            .and_then(named),
        Declared::Nowhere => None,
    };
    let guessed = || if is_utf8(bytes) { UTF_8 } else { WINDOWS_1252 };
    let encoding = charset.and_then(named).or_else(in_page).unwrap_or_else(guessed);
    // A byte order mark wins over all of them.
    encoding.decode(bytes).0.into_owned()
}

/// A text that was cut within a character is still UTF-8, if it has shown before that it is.
fn is_utf8(bytes: &[u8]) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none() && !bytes[..error.valid_up_to()].is_ascii(),
    }
}

fn meta_charset(head: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let after = head
        .split("charset")
        .skip(1)
        .find_map(|rest| rest.trim_start().strip_prefix('=').map(str::to_owned))?;
    let label: String = after
        .trim_start_matches([' ', '"', '\''])
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.'))
        .collect();
    (!label.is_empty()).then_some(label)
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use proptest::prelude::*;

    use super::*;

    fn packed(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        match coding {
            Coding::Plain => bytes.to_vec(),
            Coding::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            Coding::Deflate => {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
        }
    }

    fn unpacked(
        coding: Coding,
        packed: &[u8],
        chunk_bytes: usize,
        limit_bytes: usize,
    ) -> io::Result<Unpacked> {
        let mut unpacker = Unpacker::new(coding, limit_bytes);
        packed
            .chunks(chunk_bytes)
            .try_for_each(|chunk| unpacker.push(chunk))?;
        unpacker.finish()
    }

    proptest! {
        #[test]
        fn what_was_packed_comes_out_whole_or_cut_at_the_bound(
            bytes in proptest::collection::vec(0_u8..4, 0..3_000),
            chunk_bytes in 1_usize..400,
            limit_bytes in 0_usize..4_000,
        ) {
            for coding in [Coding::Plain, Coding::Gzip, Coding::Deflate] {
                let out = unpacked(coding, &packed(coding, &bytes), chunk_bytes, limit_bytes).unwrap();
                prop_assert_eq!(&out.bytes[..], &bytes[..bytes.len().min(limit_bytes)]);
                prop_assert_eq!(out.is_cut, bytes.len() > limit_bytes);
                let mut unpacker = Unpacker::new(coding, limit_bytes);
                let mut taken = Vec::new();
                for chunk in packed(coding, &bytes).chunks(chunk_bytes) {
                    unpacker.push(chunk).unwrap();
                    taken.extend(unpacker.take());
                }
                let last = unpacker.finish().unwrap();
                taken.extend(last.bytes);
                prop_assert_eq!((taken, last.is_cut), (out.bytes, out.is_cut));
            }
        }

        #[test]
        fn no_bytes_make_the_unpacker_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for coding in [Coding::Plain, Coding::Gzip, Coding::Deflate] {
                let _ = unpacked(coding, &bytes, 7, 50);
            }
        }
    }

    #[test]
    fn raw_deflate_is_understood_too() {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(b"hello hello hello").unwrap();
        let out = unpacked(Coding::Deflate, &encoder.finish().unwrap(), 3, 100).unwrap();
        assert_eq!(out.bytes, b"hello hello hello");
    }

    #[test]
    fn a_bomb_stops_at_the_bound() {
        let bomb = packed(Coding::Gzip, &vec![0; 20_000_000]);
        assert!(bomb.len() < 1_000_000, "{}", bomb.len());
        let out = unpacked(Coding::Gzip, &bomb, 16_384, 1_000_000).unwrap();
        assert_eq!((out.bytes.len(), out.is_cut), (1_000_000, true));
    }

    #[test]
    fn a_text_is_decoded_by_the_best_witness() {
        let cases: [(&[u8], Option<&str>, &str); 7] = [
            (b"caf\xc3\xa9", None, "café"),
            (b"caf\xe9", None, "café"),
            (b"caf\xe9", Some("iso-8859-1"), "café"),
            (
                b"<meta charset=\"windows-1251\">\xcf\xf0\xe8",
                None,
                "<meta charset=\"windows-1251\">При",
            ),
            (
                b"<meta http-equiv=Content-Type content='text/html; charset=shift_jis'>\x93\xfa",
                None,
                "<meta http-equiv=Content-Type content='text/html; charset=shift_jis'>日",
            ),
            (b"\xef\xbb\xbfx\xc3\xa9", Some("latin1"), "xé"),
            (b"\xc3\xa9 ends within \xe6\x97", None, "é ends within \u{fffd}"),
        ];
        for (bytes, charset, expected) in cases {
            assert_eq!(text(bytes, charset, Declared::InHtml), expected);
        }
    }
}
