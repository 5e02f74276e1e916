//! Pixels as a PNG.
//!
//! Pages are mostly paper and letters: without the filters that are made for photographs they are smaller, and take a
//! fifth of the time. A page that hides nothing needs no channel for it.

use png::{BitDepth, ColorType, DeflateCompression, Encoder, EncodingError, Filter};
use tiny_skia::Pixmap;

use crate::picture::{Kind, Picture};

/// Higher levels take twice the time for a few hundredths of the size.
const LEVEL: u8 = 3;

/// What the pixels show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pixels {
    /// Letters, lines and areas.
    Drawn,
    /// Photographs, perhaps.
    Mixed,
}

impl Pixels {
    /// What pages with these pictures show.
    pub(crate) fn of(pictures: &[Picture]) -> Self {
        match pictures.iter().all(|picture| picture.kind == Kind::Svg) {
            true => Pixels::Drawn,
            false => Pixels::Mixed,
        }
    }
}

/// Encodes a picture.
pub(super) fn png(pixmap: Pixmap, pixels: Pixels) -> Result<Vec<u8>, EncodingError> {
    let (width, height) = (pixmap.width(), pixmap.height());
    let is_opaque = pixmap.pixels().iter().all(|pixel| pixel.is_opaque());
    let (color, data) = match is_opaque {
        true => (ColorType::Rgb, without_alpha(pixmap.data())),
        false => (ColorType::Rgba, pixmap.take_demultiplied()),
    };
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, width, height);
    encoder.set_color(color);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_deflate_compression(DeflateCompression::Level(LEVEL));
    encoder.set_filter(match pixels {
        Pixels::Drawn => Filter::NoFilter,
        Pixels::Mixed => Filter::Adaptive,
    });
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&data)?;
    writer.finish()?;
    Ok(bytes)
}

fn without_alpha(rgba: &[u8]) -> Vec<u8> {
    let (pixels, _) = rgba.as_chunks::<4>();
    pixels
        .iter()
        .flat_map(|[red, green, blue, _]| [*red, *green, *blue])
        .collect()
}
