//! What a file asks of a reader that does what it says: measured from its bytes, by none of the readers it is for.
//!
//! This is the corpus' control. An honest file stays below every ceiling here; a file of the corpus is above one of them,
//! or its own reader refuses it. Of files that are no text, the text in them is measured: what is packed, unpacked.

use std::io::Read as _;

/// Nesting of elements, brackets or marks.
const DEPTH_MAX: usize = 64;
/// Bytes that come out of packed parts.
const UNPACKED_MAX_BYTES: u64 = 8 << 20;
/// Bytes of the pixels that a picture says it has.
const PIXELS_MAX_BYTES: u64 = 64 << 20;
/// A number in a text.
const NUMBER_MAX: f64 = 999_999.0;
/// References within a file.
const REFERENCES_MAX: usize = 20;
/// Occurrences of one sign that structures a text.
const SIGNS_MAX: usize = 1_500;
/// Occurrences of any one byte.
const ONE_BYTE_MAX: usize = 50_000;

/// Objects of a PDF, parts of an archive.
const PARTS_MAX: usize = 2_000;
/// References of a PDF for each of its objects.
const REFERENCES_PER_OBJECT_MAX: usize = 20;
/// Occurrences of one sign in a text that a program wrote: markup is full of them.
const WRITTEN_SIGNS_MAX: usize = 100_000;

/// What only a file that wants out has.
const OUTSIDE: [&[u8]; 12] = [
    b"file:",
    b"/etc/",
    b"127.0.0.1",
    b"javascript:",
    b"/bin/sh",
    b"../../",
    b"vbaProject",
    b"macrosheets",
    b"_\0V\0B\0A\0",
    b"&lt;/",
    b"TargetMode",
    b"onerror",
];

/// Of these, what office files have that link to a page or show markup.
const OF_OFFICE: [&[u8]; 2] = [b"&lt;/", b"TargetMode"];

/// Why a file is not an honest one; none for an honest file.
pub fn excess(file: &[u8]) -> Option<String> {
    let is_text = !file.starts_with(b"%PDF") && std::str::from_utf8(file).is_ok();
    over("unpacks to", unpacked_bytes(file), UNPACKED_MAX_BYTES)
        .or_else(|| over("claims pixels of", pixel_bytes(file), PIXELS_MAX_BYTES))
        .or_else(|| {
            if is_text {
                excess_of_text(file)
            } else {
                excess_of_parts(file)
            }
        })
}

fn over(what: &str, is: u64, most: u64) -> Option<String> {
    (is > most).then(|| format!("{what} {is}, honest up to {most}"))
}

fn excess_of_text(file: &[u8]) -> Option<String> {
    over("nests", depth(file) as u64, DEPTH_MAX as u64)
        .or_else(|| largest_number(file, NUMBER_MAX).map(|number| format!("says {number}")))
        .or_else(|| {
            over(
                "refers within itself",
                references(file) as u64,
                REFERENCES_MAX as u64,
            )
        })
        .or_else(|| over("repeats a sign", signs(file) as u64, SIGNS_MAX as u64))
        .or_else(|| over("repeats a byte", one_byte(file) as u64, ONE_BYTE_MAX as u64))
        .or_else(|| pointing(file))
}

fn pointing(file: &[u8]) -> Option<String> {
    let outside = OUTSIDE.iter().find(|mark| holds(file, mark))?;
    Some(format!("points to `{}`", String::from_utf8_lossy(outside)))
}

fn excess_of_parts(file: &[u8]) -> Option<String> {
    let is_pdf = file.starts_with(b"%PDF");
    let frame = if is_pdf { without_streams(file) } else { Vec::new() };
    let parts = unpacked_parts(file);
    let is_written = |part: &&Vec<u8>| std::str::from_utf8(part).is_ok();
    let texts = || parts.iter().filter(is_written).chain([&frame]);
    let objects = count(&frame, b" obj");
    let names = count(file, b"PK\x01\x02");
    texts()
        .find_map(|text| {
            let depth = if text.starts_with(b"<") {
                depth(text)
            } else {
                bracket_depth(text)
            };
            over("nests", depth as u64, DEPTH_MAX as u64)
        })
        .or_else(|| {
            texts().find_map(|text| over("repeats a sign", signs(text) as u64, WRITTEN_SIGNS_MAX as u64))
        })
        .or_else(|| {
            let bare = if is_pdf { &frame } else { file };
            let marks = || OUTSIDE.iter().filter(|mark| !OF_OFFICE.contains(mark));
            let points = |text: &[u8]| marks().find(|mark| holds(text, mark));
            let mark = texts().find_map(|text| points(text)).or_else(|| points(bare))?;
            Some(format!("points to `{}`", String::from_utf8_lossy(mark)))
        })
        .or_else(|| over("has parts", objects.max(names) as u64, PARTS_MAX as u64))
        .or_else(|| {
            let most = REFERENCES_MAX.max(objects * REFERENCES_PER_OBJECT_MAX);
            over("refers within itself", count(&frame, b" 0 R") as u64, most as u64)
        })
        .or_else(|| {
            let most = NUMBER_MAX.max(file.len() as f64);
            let number = largest_number(&frame, most).filter(|number| !number.starts_with('0'));
            number.map(|number| format!("says {number}"))
        })
        .or_else(|| {
            let is_archive = |part: &&Vec<u8>| part.starts_with(b"PK") || part.starts_with(&[0x1f, 0x8b]);
            parts
                .iter()
                .find(is_archive)
                .map(|_| "is an archive in an archive".to_owned())
        })
}

/// A PDF without the bytes of its streams.
fn without_streams(file: &[u8]) -> Vec<u8> {
    let find = |from: usize, mark: &[u8]| {
        let at = file[from..].windows(mark.len()).position(|window| window == mark);
        at.map(|at| from + at)
    };
    let (mut frame, mut at) = (Vec::new(), 0);
    while let Some(begin) = find(at, b"stream") {
        let begin = begin + b"stream".len();
        frame.extend_from_slice(&file[at..begin]);
        at = find(begin, b"endstream").map_or(file.len(), |end| end + b"endstream".len());
    }
    frame.extend_from_slice(&file[at..]);
    frame
}

fn holds(file: &[u8], mark: &[u8]) -> bool {
    file.windows(mark.len()).any(|window| window == mark)
}

fn count(file: &[u8], mark: &[u8]) -> usize {
    file.windows(mark.len()).filter(|window| *window == mark).count()
}

/// The deepest nesting of brackets of one kind.
fn bracket_depth(file: &[u8]) -> usize {
    let of_kind = |(open, close): (u8, u8)| {
        deepest(file.iter().map(|byte| match *byte {
            byte if byte == open => 1,
            byte if byte == close => -1,
            _ => 0,
        }))
    };
    let depths = [(b'(', b')'), (b'[', b']'), (b'{', b'}')]
        .into_iter()
        .map(of_kind);
    depths.max().unwrap_or(0)
}

/// The deepest nesting of elements, of brackets of one kind, or of marks at the start of a line.
fn depth(file: &[u8]) -> usize {
    let pairs = file.windows(2).map(|pair| match pair {
        [b'<', b'/'] => -1,
        [b'/', b'>'] => -1,
        [b'<', b'!' | b'?'] => 0,
        [b'<', _] => 1,
        _ => 0,
    });
    let marks = file.split(|byte| *byte == b'\n').map(|line| {
        let is_mark = |byte: &&u8| b"> -*_`#~|\t".contains(byte);
        line.iter()
            .take_while(is_mark)
            .filter(|byte| **byte != b' ')
            .count()
    });
    bracket_depth(file)
        .max(deepest(pairs))
        .max(marks.max().unwrap_or(0))
}

fn deepest(steps: impl Iterator<Item = i64>) -> usize {
    let (mut depth, mut most) = (0_i64, 0);
    for step in steps {
        depth = (depth + step).max(0);
        most = most.max(depth);
    }
    most as usize
}

/// What all packed parts of a file come to, as far as a bit beyond the ceiling.
fn unpacked_bytes(file: &[u8]) -> u64 {
    let mut sum = 0;
    for at in 0..file.len().saturating_sub(4) {
        if sum > UNPACKED_MAX_BYTES {
            break;
        }
        sum += match &file[at..] {
            // An entry that several places of the directory name is unpacked for each.
            [b'P', b'K', 1, 2, ..] => claimed_by_entry(&file[at..]),
            rest => unpacked(rest).map_or(0, |part| part.len() as u64),
        };
    }
    sum
}

/// The packed parts of a file, each as far as a bit beyond the ceiling.
fn unpacked_parts(file: &[u8]) -> Vec<Vec<u8>> {
    let starts = 0..file.len().saturating_sub(4);
    starts.filter_map(|at| unpacked(&file[at..])).collect()
}

/// What begins here, if that is something packed.
fn unpacked(rest: &[u8]) -> Option<Vec<u8>> {
    match rest {
        [0x78, 0x01 | 0x9c | 0xda, ..] => Some(drained(flate2::read::ZlibDecoder::new(rest))),
        [0x1f, 0x8b, 8, ..] => Some(drained(flate2::read::GzDecoder::new(rest))),
        [b'P', b'K', 3, 4, ..] => unpacked_entry(rest),
        _ => None,
    }
}

/// A part of an archive, packed or as it is.
fn unpacked_entry(rest: &[u8]) -> Option<Vec<u8>> {
    const AS_IT_IS: usize = 0;
    const DEFLATED: usize = 8;
    let half = |at: usize| {
        Some(usize::from(u16::from_le_bytes(
            rest.get(at..at + 2)?.try_into().ok()?,
        )))
    };
    let data = rest.get(30 + half(26)? + half(28)?..)?;
    match half(8)? {
        AS_IT_IS => {
            let bytes = u32::from_le_bytes(rest.get(18..22)?.try_into().ok()?);
            data.get(..bytes as usize).map(<[u8]>::to_vec)
        }
        DEFLATED => Some(drained(flate2::read::DeflateDecoder::new(data))),
        _ => None,
    }
}

fn claimed_by_entry(rest: &[u8]) -> u64 {
    let word = |at: usize| {
        rest.get(at..at + 4)
            .and_then(|word| word.try_into().ok())
            .map(u32::from_le_bytes)
    };
    u64::from(word(24).unwrap_or(0).saturating_sub(word(20).unwrap_or(0)))
}

fn drained(packed: impl std::io::Read) -> Vec<u8> {
    let mut part = Vec::new();
    // What is broken in the middle has come as far as it has.
    let _ = packed.take(UNPACKED_MAX_BYTES + 1).read_to_end(&mut part);
    part
}

fn pixel_bytes(file: &[u8]) -> u64 {
    let big = |at: usize, bytes: usize| {
        file.get(at..at + bytes)
            .map(|part| part.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    let little = |at: usize| {
        file.get(at..at + 2)
            .map(|part| u64::from(part[0]) | u64::from(part[1]) << 8)
    };
    let size = match file {
        [0x89, b'P', b'N', b'G', ..] => big(16, 4).zip(big(20, 4)),
        [b'G', b'I', b'F', ..] => little(6).zip(little(8)),
        [0xff, 0xd8, ..] => {
            let frame = file
                .windows(2)
                .position(|pair| pair[0] == 0xff && (0xc0..=0xc2).contains(&pair[1]));
            frame.and_then(|at| big(at + 5, 2).zip(big(at + 7, 2)))
        }
        _ => None,
    };
    size.map_or(0, |(width, height)| {
        width.saturating_mul(height).saturating_mul(4)
    })
}

/// A number in a text that no honest file has.
fn largest_number(file: &[u8], most: f64) -> Option<String> {
    let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'-');
    file.split(|byte| !is_part(byte))
        .filter(|word| (5..40).contains(&word.len()) || word.windows(2).any(|pair| pair == b"1e"))
        .filter_map(|word| std::str::from_utf8(word).ok())
        .find(|word| {
            let number = word.parse::<f64>().map(f64::abs);
            number.is_ok_and(|number| number > most || (number > 0.0 && number < 0.001))
        })
        .map(str::to_owned)
}

fn references(file: &[u8]) -> usize {
    [
        &b"url(#"[..],
        b"href='#",
        b"href=\"#",
        b"&e",
        b"var(--",
        b"]: ",
        b"[^",
        b" 0 R",
    ]
    .into_iter()
    .map(|mark| count(file, mark))
    .max()
    .unwrap_or(0)
}

fn signs(file: &[u8]) -> usize {
    let counts = counts(file);
    b"<[({`*|$~&,\n\t\0%/>'\""
        .iter()
        .map(|sign| counts[usize::from(*sign)])
        .max()
        .unwrap_or(0)
}

fn one_byte(file: &[u8]) -> usize {
    counts(file).into_iter().max().unwrap_or(0)
}

fn counts(file: &[u8]) -> [usize; 256] {
    let mut counts = [0; 256];
    file.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    counts
}
