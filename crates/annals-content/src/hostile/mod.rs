//! Hostile content, made by generators: one for each distinct mechanism by which a file can hurt its reader.
//!
//! A mechanism is named, says what it is after, and makes its file. The files are as small as the mechanism allows, for
//! limits that are small too; with the default limits they grow by nothing but [`Mechanism::make`]'s own constants.

mod archives;
mod browser;
mod drawings;
mod office;
mod pages;
mod pdf_pages;
mod pdfs;
mod pictures;
mod prose;
mod trees;
mod weight;

pub use browser::{A_FILE, ELSEWHERE};
pub use weight::excess;

/// One way to hurt a reader.
#[derive(Debug, Clone, Copy)]
pub struct Mechanism {
    /// Its name: unique, and the file's.
    pub name: &'static str,
    /// Which reader it is for.
    pub reader: Reader,
    /// What it is after.
    pub aim: Aim,
    pub make: fn() -> Vec<u8>,
}

/// Who reads the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reader {
    /// A document in markdown, rendered.
    Markdown,
    /// A document in HTML, rendered.
    Html,
    /// The same, by a browser.
    Browser,
    /// A picture in a rendered document, with this extension.
    Picture(&'static str),
    /// A page of the web, read as markdown.
    Page,
    /// A PDF, read as text and taken in as an attachment.
    Pdf,
    /// A page of a PDF, drawn as a picture.
    PdfPage,
    /// An attachment of this name, checked and described.
    Attachment(&'static str),
    /// What a page draws as a tree.
    Tree(TreeKind),
}

/// What a tree is drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TreeKind {
    /// Markdown.
    Markdown,
    /// Code in the language of this extension.
    Code(&'static str),
    /// Values separated by commas.
    Table,
    /// Two texts with a null byte between them.
    Difference,
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
    /// A result larger than anybody wants.
    Output,
}

/// Those that are for a browser, which reads a page in a second and not in a millisecond.
pub fn for_a_browser() -> Vec<Mechanism> {
    [browser::REACH, browser::COSTLY].concat()
}

/// All but those for a browser.
pub fn all() -> Vec<Mechanism> {
    [
        drawings::ALL,
        pictures::ALL,
        prose::ALL,
        pages::ALL,
        pdfs::ALL,
        pdf_pages::ALL,
        archives::ALL,
        office::ALL,
        trees::ALL,
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

/// `piece`, repeated `pieces` times and packed as zlib does. A bomb is never whole here: one piece is packed, and its block is
/// repeated.
fn packed(piece: &[u8], pieces: usize) -> Vec<u8> {
    let mut file = vec![0x78, 0xda];
    file.extend(deflated(piece, pieces));
    file.extend(adler(piece, pieces).to_be_bytes());
    file
}

/// The same without the wrapping of zlib, as archives have it.
fn deflated(piece: &[u8], pieces: usize) -> Vec<u8> {
    use flate2::{Compress, Compression, FlushCompress};
    let mut block = Vec::with_capacity(piece.len() + 4096);
    // A full flush ends the block on a whole byte and lets the next one refer to nothing before it.
    let packed =
        Compress::new(Compression::best(), false).compress_vec(piece, &mut block, FlushCompress::Full);
    assert!(packed.is_ok(), "packing into memory does not fail");
    let mut data = block.repeat(pieces);
    data.extend([0x03, 0x00]);
    data
}

/// Adler-32 of `piece`, repeated `pieces` times.
fn adler(piece: &[u8], pieces: usize) -> u32 {
    const MODULUS: u64 = 65_521;
    let (mut low, mut high) = (1_u64, 0_u64);
    // What one piece adds to each sum, beyond what it carries on.
    let (mut adds_low, mut adds_high) = (0_u64, 0_u64);
    for byte in piece {
        adds_low = (adds_low + u64::from(*byte)) % MODULUS;
        adds_high = (adds_high + adds_low) % MODULUS;
    }
    let length = piece.len() as u64 % MODULUS;
    for _ in 0..pieces {
        high = (high + low * length + adds_high) % MODULUS;
        low = (low + adds_low) % MODULUS;
    }
    ((high << 16) | low) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bomb_unpacks_to_what_it_says() {
        use std::io::Read as _;
        for (piece, pieces) in [(vec![0; 1 << 16], 3), (b"q ".repeat(1000), 7), (b"x".to_vec(), 1)] {
            let mut unpacked = Vec::new();
            flate2::read::ZlibDecoder::new(&packed(&piece, pieces)[..])
                .read_to_end(&mut unpacked)
                .unwrap();
            assert_eq!(unpacked, piece.repeat(pieces));
        }
    }
}
