//! What a file asks of a reader that does what it says: measured from its bytes, by none of the readers it is for.
//!
//! This is the corpus' control. An honest file stays below every ceiling here; a file of the corpus is above one of them,
//! or its own reader refuses it.

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

/// Why a file is not an honest one; none for an honest file.
pub fn excess(file: &[u8]) -> Option<String> {
    let over =
        |what: &str, is: u64, most: u64| (is > most).then(|| format!("{what} {is}, honest up to {most}"));
    over("nests", depth(file) as u64, DEPTH_MAX as u64)
        .or_else(|| over("unpacks to", unpacked_bytes(file), UNPACKED_MAX_BYTES))
        .or_else(|| over("claims pixels of", pixel_bytes(file), PIXELS_MAX_BYTES))
        .or_else(|| largest_number(file).map(|number| format!("says {number}")))
        .or_else(|| {
            over(
                "refers within itself",
                references(file) as u64,
                REFERENCES_MAX as u64,
            )
        })
        .or_else(|| over("repeats a sign", signs(file) as u64, SIGNS_MAX as u64))
        .or_else(|| over("repeats a byte", one_byte(file) as u64, ONE_BYTE_MAX as u64))
        .or_else(|| {
            let outside = OUTSIDE.iter().find(|mark| holds(file, mark))?;
            Some(format!("points to `{}`", String::from_utf8_lossy(outside)))
        })
        .or_else(|| {
            file.windows(4)
                .any(|word| word == [0xff; 4])
                .then(|| "says the largest number".to_owned())
        })
}

fn holds(file: &[u8], mark: &[u8]) -> bool {
    file.windows(mark.len()).any(|window| window == mark)
}

fn count(file: &[u8], mark: &[u8]) -> usize {
    file.windows(mark.len()).filter(|window| *window == mark).count()
}

/// The deepest nesting of elements, of brackets of one kind, or of marks at the start of a line.
fn depth(file: &[u8]) -> usize {
    let brackets = [(b'(', b')'), (b'[', b']'), (b'{', b'}')]
        .into_iter()
        .map(|(open, close)| {
            deepest(file.iter().map(|byte| match *byte {
                byte if byte == open => 1,
                byte if byte == close => -1,
                _ => 0,
            }))
        })
        .max();
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
    brackets
        .unwrap_or(0)
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
        let rest = &file[at..];
        sum += match rest {
            [0x78, 0x01 | 0x9c | 0xda, ..] => drained(flate2::read::ZlibDecoder::new(rest)),
            [0x1f, 0x8b, 8, ..] => drained(flate2::read::GzDecoder::new(rest)),
            [b'P', b'K', 3, 4, ..] => {
                packed_entry(rest).map_or(0, |data| drained(flate2::read::DeflateDecoder::new(data)))
            }
            // An entry that several places of the directory name is unpacked for each.
            [b'P', b'K', 1, 2, ..] => claimed_by_entry(rest),
            _ => 0,
        };
    }
    sum
}

fn packed_entry(rest: &[u8]) -> Option<&[u8]> {
    let half = |at: usize| {
        Some(usize::from(u16::from_le_bytes(
            rest.get(at..at + 2)?.try_into().ok()?,
        )))
    };
    (half(8)? == 8).then(|| rest.get(30 + half(26)? + half(28)?..))?
}

fn claimed_by_entry(rest: &[u8]) -> u64 {
    let word = |at: usize| {
        rest.get(at..at + 4)
            .and_then(|word| word.try_into().ok())
            .map(u32::from_le_bytes)
    };
    u64::from(word(24).unwrap_or(0).saturating_sub(word(20).unwrap_or(0)))
}

fn drained(packed: impl std::io::Read) -> u64 {
    let mut limited = packed.take(UNPACKED_MAX_BYTES + 1);
    // What is broken in the middle has come as far as it has.
    let mut buffer = vec![0; 1 << 16];
    let mut sum = 0;
    while let Ok(read) = limited.read(&mut buffer) {
        if read == 0 {
            break;
        }
        sum += read as u64;
    }
    sum
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
fn largest_number(file: &[u8]) -> Option<String> {
    let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'-');
    file.split(|byte| !is_part(byte))
        .filter(|word| (5..40).contains(&word.len()) || word.windows(2).any(|pair| pair == b"1e"))
        .filter_map(|word| std::str::from_utf8(word).ok())
        .find(|word| {
            let number = word.parse::<f64>().map(f64::abs);
            number.is_ok_and(|number| number > NUMBER_MAX || (number > 0.0 && number < 0.01))
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
