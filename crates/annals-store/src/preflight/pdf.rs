//! How many pages a PDF has, without a reader of PDF.
//!
//! Pages are objects of type `/Page`; a tree of `/Pages` says how many it has. Since PDF 1.5 both may lie in packed
//! object streams, which are unpacked within a limit. A file that hides its pages better (encryption) gives none.

use std::io::Read;

use flate2::read::ZlibDecoder;

use super::content::find;

/// Object streams are unpacked up to this many bytes in all.
const UNPACKED_MAX_BYTES: u64 = 64_000_000;

/// How far a dictionary may reach; looking no further keeps the count linear in the file.
const DICTIONARY_MAX_BYTES: usize = 1024;

/// Pages, as far as they can be counted.
pub(super) fn count_pages(bytes: &[u8]) -> Option<u32> {
    let mut tally = Tally::default();
    tally.scan(bytes);
    let mut left = UNPACKED_MAX_BYTES;
    let mut from = 0;
    while let Some(at) = find(&bytes[from..], b"/ObjStm") {
        let marker = from + at;
        from = marker + b"/ObjStm".len();
        if let Some(packed) = stream_after(bytes, from)
            && left > 0
        {
            let mut unpacked = Vec::new();
            // A stream that breaks off still counts up to there.
            let _ = ZlibDecoder::new(packed).take(left).read_to_end(&mut unpacked);
            left = left.saturating_sub(unpacked.len() as u64);
            tally.scan(&unpacked);
        }
    }
    tally.pages()
}

/// The bytes after the `stream` keyword of the dictionary that `from` lies in.
fn stream_after(bytes: &[u8], from: usize) -> Option<&[u8]> {
    let window = &bytes[from..bytes.len().min(from + DICTIONARY_MAX_BYTES)];
    let keyword = find(window, b"stream")?;
    let start = from + keyword + b"stream".len();
    let rest = &bytes[start..];
    let rest = rest.strip_prefix(b"\r").unwrap_or(rest);
    Some(rest.strip_prefix(b"\n").unwrap_or(rest))
}

#[derive(Default)]
struct Tally {
    objects: u32,
    counted: u32,
}

impl Tally {
    fn scan(&mut self, bytes: &[u8]) {
        const TYPE: &[u8] = b"/Type";
        let mut from = 0;
        while let Some(at) = find(&bytes[from..], TYPE) {
            let here = from + at;
            from = here + TYPE.len();
            let value = skip_space(&bytes[from..]);
            if is_name(value, b"/Page") {
                self.objects = self.objects.saturating_add(1);
            } else if is_name(value, b"/Pages")
                && let Some(count) = count_near(bytes, here)
            {
                self.counted = self.counted.max(count);
            }
        }
    }

    /// The larger of what was seen and what is claimed: a file that shares pages claims more than it has objects.
    fn pages(&self) -> Option<u32> {
        Some(self.objects.max(self.counted)).filter(|pages| *pages > 0)
    }
}

fn skip_space(bytes: &[u8]) -> &[u8] {
    let space = bytes
        .iter()
        .take_while(|byte| byte.is_ascii_whitespace() || **byte == 0)
        .count();
    &bytes[space..]
}

/// Whether the bytes begin with this name and not with a longer one.
fn is_name(bytes: &[u8], name: &[u8]) -> bool {
    bytes
        .strip_prefix(name)
        .is_some_and(|rest| !rest.first().is_some_and(u8::is_ascii_alphanumeric))
}

/// `/Count n` in the dictionary around `here`, which may stand before or after the type.
fn count_near(bytes: &[u8], here: usize) -> Option<u32> {
    const KEY: &[u8] = b"/Count";
    let floor = here.saturating_sub(DICTIONARY_MAX_BYTES);
    let start = bytes[floor..here]
        .windows(2)
        .rposition(|pair| pair == b"<<")
        .map_or(floor, |at| floor + at);
    let ceiling = bytes.len().min(here + DICTIONARY_MAX_BYTES);
    let end = here + find(&bytes[here..ceiling], b">>")?;
    let dictionary = &bytes[start..end];
    let value = skip_space(&dictionary[find(dictionary, KEY)? + KEY.len()..]);
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&value[..digits]).ok()?.parse().ok()
}
