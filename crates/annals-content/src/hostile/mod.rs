//! Hostile content, made by generators: one for each distinct mechanism by which a file can hurt its reader.
//!
//! A mechanism is named, says what it is after, and makes its file. The files are as small as the mechanism allows, for
//! limits that are small too; with the default limits they grow by nothing but [`Mechanism::make`]'s own constants.

mod archives;
mod drawings;
mod pages;
mod pdfs;
mod pictures;
mod prose;

/// One way to hurt a reader.
#[derive(Debug, Clone, Copy)]
pub struct Mechanism {
    /// Its name: unique, and the file's.
    pub name: &'static str,
    /// Which reader it is for.
    pub reader: Reader,
    /// What it is after.
    pub aim: Aim,
    /// The file.
    pub make: fn() -> Vec<u8>,
}

/// Who reads the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reader {
    /// A document in markdown, rendered.
    Markdown,
    /// A document in HTML, rendered.
    Html,
    /// A picture in a rendered document, with this extension.
    Picture(&'static str),
    /// A page of the web, read as markdown.
    Page,
    /// A PDF, read as text and taken in as an attachment.
    Pdf,
    /// An attachment of this name.
    Attachment(&'static str),
}

/// What a mechanism is after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aim {
    /// The stack of a parser that recurses.
    Stack,
    /// Memory: something small that grows.
    Memory,
    /// Time: something that costs more than its size.
    Time,
    /// A parser that trusts a number, a length or a reference.
    Trust,
    /// Files or addresses outside.
    Reach,
}

/// All of them.
pub fn all() -> Vec<Mechanism> {
    [
        drawings::ALL,
        pictures::ALL,
        prose::ALL,
        pages::ALL,
        pdfs::ALL,
        archives::ALL,
    ]
    .concat()
}

const fn mechanism(name: &'static str, reader: Reader, aim: Aim, make: fn() -> Vec<u8>) -> Mechanism {
    Mechanism {
        name,
        reader,
        aim,
        make,
    }
}

/// `unit` this many times.
fn times(unit: &str, count: usize) -> String {
    unit.repeat(count)
}

/// One text for each number, joined.
fn each(count: usize, text: impl Fn(usize) -> String) -> String {
    (0..count).map(text).collect()
}

/// Bytes packed as zlib does; the data is made in pieces, so that a bomb is never whole.
fn packed(piece: &[u8], pieces: usize) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..pieces {
        // Writing to memory does not fail.
        let _ = encoder.write_all(piece);
    }
    encoder.finish().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn mechanisms_are_distinct_many_and_small() {
        let all = all();
        let names: BTreeSet<&str> = all.iter().map(|mechanism| mechanism.name).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.len() >= 100, "{}", all.len());
        for mechanism in &all {
            let file = (mechanism.make)();
            assert!(
                (1..=4 << 20).contains(&file.len()),
                "{}: {} bytes",
                mechanism.name,
                file.len()
            );
        }
    }
}
