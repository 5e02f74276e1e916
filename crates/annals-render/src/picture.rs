//! The pictures of one document: fetched once through [`Assets`], checked, measured.
//!
//! A writer gets only pictures that are known to decode; every other reference has a warning and is drawn as
//! a placeholder. Nothing is read from disk or network here.

mod drawing;
mod expansion;

use std::collections::HashMap;

use base64::Engine as _;
use typst::foundations::{Bytes, Smart};
use typst::visualize::{ExchangeFormat, RasterImage, SvgImage};

use crate::doc::Document;
use crate::limits::{Limits, MAX_IMAGES, MAX_PIXELS_TOGETHER};
use crate::request::{Assets, Warning};
use crate::visit::{self, Leaf};

/// Kinds of pictures that can be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// The first frame of a GIF.
    Gif,
    /// WebP.
    Webp,
    /// SVG.
    Svg,
}

impl Kind {
    /// Typst's name of the format.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpg",
            Self::Gif => "gif",
            Self::Webp => "webp",
            Self::Svg => "svg",
        }
    }

    /// The media type.
    pub(crate) fn mime(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
            Self::Svg => "image/svg+xml",
        }
    }

    /// What the first bytes say.
    pub(crate) fn detect(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x89, b'P', b'N', b'G', ..] => Some(Self::Png),
            [0xFF, 0xD8, 0xFF, ..] => Some(Self::Jpeg),
            [b'G', b'I', b'F', b'8', ..] => Some(Self::Gif),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::Webp),
            _ => {
                let head = String::from_utf8_lossy(&bytes[..bytes.len().min(1024)]);
                head.contains("<svg").then_some(Self::Svg)
            }
        }
    }
}

/// A picture that can be shown.
#[derive(Debug, Clone)]
pub(crate) struct Picture {
    pub(crate) bytes: Bytes,
    /// What it is.
    pub(crate) kind: Kind,
    /// CSS pixels.
    pub(crate) width_px: f64,
    /// CSS pixels.
    pub(crate) height_px: f64,
}

impl Picture {
    /// The picture as an address of its own.
    pub(crate) fn data_address(&self) -> String {
        let encoded = base64::engine::general_purpose::STANDARD.encode(&self.bytes);
        format!("data:{};base64,{encoded}", self.kind.mime())
    }
}

/// All pictures of a document by their reference.
#[derive(Debug, Default)]
pub(crate) struct Pictures {
    list: Vec<Picture>,
    index: HashMap<String, Option<usize>>,
    /// Pixels of all of them.
    pixels: u64,
}

impl Pictures {
    /// Fetches and checks every picture `document` refers to.
    pub(crate) fn load(
        document: &Document,
        assets: &dyn Assets,
        limits: &Limits,
        warnings: &mut Vec<Warning>,
    ) -> Self {
        let mut pictures = Self::default();
        visit::leaves(document, &mut |leaf| {
            let Leaf::Image(image) = leaf else { return };
            if pictures.index.contains_key(&image.reference) {
                return;
            }
            let slot = match pictures.fetch(&image.reference, assets, limits) {
                Ok((picture, targets)) => {
                    pictures.list.push(picture);
                    if !targets.is_empty() {
                        warnings.push(Warning::LinkedImages {
                            reference: image.reference.clone(),
                            targets,
                        });
                    }
                    Some(pictures.list.len() - 1)
                }
                Err(warning) => {
                    warnings.push(warning);
                    None
                }
            };
            pictures.index.insert(image.reference.clone(), slot);
        });
        pictures
    }

    /// The picture behind `reference` and its place in [`Pictures::list`].
    pub(crate) fn get(&self, reference: &str) -> Option<(usize, &Picture)> {
        let index = (*self.index.get(reference)?)?;
        Some((index, &self.list[index]))
    }

    /// All of them.
    pub(crate) fn list(&self) -> &[Picture] {
        &self.list
    }

    /// The picture, and what it points to outside of itself, which is not shown.
    fn fetch(
        &mut self,
        reference: &str,
        assets: &dyn Assets,
        limits: &Limits,
    ) -> Result<(Picture, Vec<String>), Warning> {
        let unreadable = |reason: String| Warning::UnreadableImage {
            reference: reference.to_owned(),
            reason,
        };
        if self.list.len() >= MAX_IMAGES {
            return Err(unreadable(format!(
                "the document has more than `{MAX_IMAGES}` images"
            )));
        }
        let bytes = match reference.strip_prefix("data:") {
            Some(rest) => {
                decode_data_uri(rest).ok_or_else(|| unreadable("the data: address is broken".into()))?
            }
            None => assets.get(reference).ok_or_else(|| absent(reference))?,
        };
        let unlinked = drawing::without_links(bytes);
        let pixels = measure(&unlinked.bytes, limits).map_err(unreadable)?;
        if self.pixels + pixels > MAX_PIXELS_TOGETHER {
            return Err(unreadable(format!(
                "the images have more than `{MAX_PIXELS_TOGETHER}` pixels together: make them smaller"
            )));
        }
        let picture = decode(unlinked.bytes).map_err(unreadable)?;
        self.pixels += pixels;
        Ok((picture, unlinked.targets))
    }
}

fn absent(reference: &str) -> Warning {
    let remote = ["http:", "https:", "//", "ftp:"]
        .iter()
        .any(|scheme| reference.starts_with(scheme));
    let reference = reference.to_owned();
    if remote {
        Warning::RemoteImage { reference }
    } else {
        Warning::MissingImage { reference }
    }
}

/// How many pixels it has, found without decoding it; none in a drawing.
fn measure(bytes: &[u8], limits: &Limits) -> Result<u64, String> {
    if bytes.is_empty() {
        return Err("it is empty".to_owned());
    }
    if bytes.len() > limits.image_bytes {
        return Err(format!(
            "it has `{}` bytes, more than the `{}` allowed",
            bytes.len(),
            limits.image_bytes
        ));
    }
    if kind_of(bytes)? == Kind::Svg {
        return Ok(0);
    }
    let size = imagesize::blob_size(bytes).map_err(|error| error.to_string())?;
    let pixels = size.width as u64 * size.height as u64;
    if pixels > limits.image_pixels {
        return Err(format!(
            "it has `{pixels}` pixels, more than the `{}` allowed",
            limits.image_pixels
        ));
    }
    Ok(pixels)
}

fn kind_of(bytes: &[u8]) -> Result<Kind, String> {
    Kind::detect(bytes).ok_or_else(|| "it is neither PNG, JPEG, GIF, WebP nor SVG".to_owned())
}

fn decode(bytes: Vec<u8>) -> Result<Picture, String> {
    let kind = kind_of(&bytes)?;
    let bytes = Bytes::new(bytes);
    let (width_px, height_px) = match exchange_format(kind) {
        Some(format) => {
            let raster =
                RasterImage::new(bytes.clone(), format, Smart::Auto).map_err(|error| error.to_string())?;
            (f64::from(raster.width()), f64::from(raster.height()))
        }
        None => {
            expansion::check(&bytes)?;
            let svg = SvgImage::new(bytes.clone()).map_err(|_| "it is not valid SVG".to_owned())?;
            (svg.width(), svg.height())
        }
    };
    Ok(Picture {
        bytes,
        kind,
        width_px: width_px.max(1.0),
        height_px: height_px.max(1.0),
    })
}

fn exchange_format(kind: Kind) -> Option<ExchangeFormat> {
    match kind {
        Kind::Png => Some(ExchangeFormat::Png),
        Kind::Jpeg => Some(ExchangeFormat::Jpg),
        Kind::Gif => Some(ExchangeFormat::Gif),
        Kind::Webp => Some(ExchangeFormat::Webp),
        Kind::Svg => None,
    }
}

/// The bytes of `image/png;base64,…` (what follows `data:`).
fn decode_data_uri(rest: &str) -> Option<Vec<u8>> {
    let (meta, data) = rest.split_once(',')?;
    let plain = percent_decode(data);
    if !meta.to_ascii_lowercase().ends_with(";base64") {
        return Some(plain);
    }
    let compact: Vec<u8> = plain
        .into_iter()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let engine = base64::engine::general_purpose::GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        base64::engine::GeneralPurposeConfig::new()
            .with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent),
    );
    engine.decode(compact).ok()
}

fn percent_decode(data: &str) -> Vec<u8> {
    let bytes = data.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let pair = (bytes[at] == b'%').then(|| data.get(at + 1..at + 3)).flatten();
        match pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_addresses_are_decoded_in_both_encodings() {
        assert_eq!(
            decode_data_uri("text/plain;base64,aGk").as_deref(),
            Some(&b"hi"[..])
        );
        assert_eq!(
            decode_data_uri("image/svg+xml,%3Csvg%3E").as_deref(),
            Some(&b"<svg>"[..])
        );
        assert_eq!(decode_data_uri("no comma"), None);
        assert_eq!(decode_data_uri("x;base64,@@"), None);
    }

    #[test]
    fn a_decompression_bomb_is_refused_before_it_is_decoded() {
        let mut png = vec![0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 13];
        png.extend(b"IHDR\x00\x01\x00\x00\x00\x01\x00\x00\x08\x06\x00\x00\x00");
        let refused = measure(&png, &Limits::default()).unwrap_err();
        assert!(refused.contains("pixels"), "{refused}");
    }

    /// Claims to have ten thousand by ten thousand pixels.
    fn large_png() -> Vec<u8> {
        let mut png = vec![0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 13];
        png.extend(b"IHDR\x00\x00\x27\x10\x00\x00\x27\x10\x08\x06\x00\x00\x00");
        png
    }

    #[test]
    fn many_large_pictures_are_refused_where_they_become_too_much() {
        let mut pictures = Pictures {
            pixels: MAX_PIXELS_TOGETHER,
            ..Pictures::default()
        };
        let assets = HashMap::from([
            ("a.png".to_owned(), large_png()),
            ("e.png".to_owned(), Vec::new()),
        ]);
        let refused = |pictures: &mut Pictures, name: &str| {
            pictures
                .fetch(name, &assets, &Limits::default())
                .unwrap_err()
                .to_string()
        };
        assert!(refused(&mut pictures, "a.png").contains("together"));
        assert_eq!(
            refused(&mut pictures, "e.png"),
            "image `e.png` cannot be shown: it is empty"
        );
    }

    #[test]
    fn what_a_drawing_links_to_is_left_out_and_told() {
        let svg = b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><image href='http://x.example/a.png'/></svg>";
        let assets = HashMap::from([("a.svg".to_owned(), svg.to_vec())]);
        let document = crate::markdown::read("![a](a.svg)");
        let mut warnings = Vec::new();
        let pictures = Pictures::load(&document, &assets, &Limits::default(), &mut warnings);
        assert!(pictures.get("a.svg").is_some());
        let told: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "image `a.svg` shows `http://x.example/a.png`, which is left out: put the bytes into the drawing"
            ]
        );
    }
}
