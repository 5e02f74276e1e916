//! Pictures of pixels: sizes that are claimed, data that unpacks, chunks without end.

use super::{Aim, Mechanism, Reader, mechanism, packed};

const PNG: Reader = Reader::Picture("png");
const JPEG: Reader = Reader::Picture("jpg");
const GIF: Reader = Reader::Picture("gif");
const WEBP: Reader = Reader::Picture("webp");

pub(super) const ALL: &[Mechanism] = &[
    mechanism("png-claims-four-gigapixels", PNG, Aim::Memory, || {
        png(65_535, 65_535, 6, &packed(&[0; 64], 1))
    }),
    mechanism("png-of-a-hundred-megapixels", PNG, Aim::Memory, || {
        png(9_999, 9_999, 6, &packed(&vec![0; 9_999 * 4 + 1], 9_999))
    }),
    mechanism("png-unpacks-beyond-its-size", PNG, Aim::Memory, || {
        png(9, 9, 6, &packed(&[0; 1 << 16], 4_000))
    }),
    mechanism("png-profile-that-unpacks", PNG, Aim::Memory, || {
        let mut profile = b"x\0\0".to_vec();
        profile.extend(packed(&[0; 1 << 16], 4_000));
        png_with(&[(*b"iCCP", profile)])
    }),
    mechanism("png-text-that-unpacks", PNG, Aim::Memory, || {
        let mut text = b"x\0\0".to_vec();
        text.extend(packed(&[b'x'; 1 << 16], 4_000));
        png_with(&[(*b"zTXt", text)])
    }),
    mechanism("png-of-empty-chunks", PNG, Aim::Time, || {
        png_with(&vec![(*b"tEXt", b"a\0".to_vec()); 100_000])
    }),
    mechanism("png-chunk-longer-than-the-file", PNG, Aim::Trust, || {
        let mut file = SIGNATURE.to_vec();
        file.extend(0x7fff_ffff_u32.to_be_bytes());
        file.extend(b"IHDR\0\0");
        file
    }),
    mechanism("png-without-pixels", PNG, Aim::Trust, || {
        png(0, 0, 6, &packed(&[0; 1], 1))
    }),
    mechanism("png-palette-out-of-range", PNG, Aim::Trust, || {
        let row = [0, 255, 255, 255, 255, 255, 255, 255, 255, 255];
        let mut file = SIGNATURE.to_vec();
        chunk(&mut file, *b"IHDR", &header(9, 9, 3));
        chunk(&mut file, *b"PLTE", &[1, 2, 3]);
        chunk(&mut file, *b"IDAT", &packed(&row, 9));
        chunk(&mut file, *b"IEND", &[]);
        file
    }),
    mechanism("png-cut-off", PNG, Aim::Trust, || {
        png(900, 900, 6, &packed(&[0; 1 << 16], 9))[..90].to_vec()
    }),
    mechanism("png-one-pixel-wide", PNG, Aim::Memory, || {
        png(1, 2_000_000, 0, &packed(&[0; 40_000], 100))
    }),
    mechanism("gif-claims-a-large-screen", GIF, Aim::Memory, || {
        gif(65_535, 65_535, 1)
    }),
    mechanism("gif-of-many-frames", GIF, Aim::Time, || gif(2_000, 2_000, 20_000)),
    mechanism("jpeg-claims-four-gigapixels", JPEG, Aim::Memory, || {
        jpeg(65_500, 65_500, 1)
    }),
    mechanism("jpeg-of-many-scans", JPEG, Aim::Time, || {
        jpeg(4_000, 4_000, 2_000)
    }),
    mechanism("jpeg-of-empty-segments", JPEG, Aim::Time, || {
        let mut file = vec![0xff, 0xd8];
        (0..400_000).for_each(|_| file.extend([0xff, 0xfe, 0, 2]));
        file
    }),
    mechanism("webp-claims-a-large-canvas", WEBP, Aim::Memory, || {
        let mut body = b"WEBPVP8X".to_vec();
        body.extend(10_u32.to_le_bytes());
        body.extend([0x10, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        riff(&body)
    }),
    mechanism("webp-lossless-header-only", WEBP, Aim::Memory, || {
        let mut body = b"WEBPVP8L".to_vec();
        body.extend(5_u32.to_le_bytes());
        body.extend([0x2f, 0xff, 0xff, 0xff, 0x0f, 0]);
        riff(&body)
    }),
    mechanism("png-compressed-international-text", PNG, Aim::Memory, || {
        let mut text = b"x\0\x01\0\0\0".to_vec();
        text.extend(packed(&[b'x'; 1 << 16], 4_000));
        png_with(&[(*b"iTXt", text)])
    }),
    mechanism("png-two-headers", PNG, Aim::Trust, || {
        png_with(&[(*b"IHDR", header(65_535, 65_535, 6))])
    }),
    mechanism("png-two-palettes", PNG, Aim::Trust, || {
        png_with(&[(*b"PLTE", vec![1; 999_999]), (*b"PLTE", vec![2; 3])])
    }),
    mechanism("png-palette-of-half-a-colour", PNG, Aim::Trust, || {
        png_with(&[(*b"PLTE", vec![1; 4]), (*b"tRNS", vec![0; 900])])
    }),
    mechanism("png-interlaced-large", PNG, Aim::Memory, || {
        let mut file = SIGNATURE.to_vec();
        let mut head = header(20_000, 20_000, 6);
        head[12] = 1;
        chunk(&mut file, *b"IHDR", &head);
        chunk(&mut file, *b"IDAT", &packed(&[0; 1 << 16], 2_000));
        chunk(&mut file, *b"IEND", &[]);
        file
    }),
    mechanism("png-sixteen-bits-large", PNG, Aim::Memory, || {
        let mut file = SIGNATURE.to_vec();
        let mut head = header(12_000, 12_000, 6);
        head[8] = 16;
        chunk(&mut file, *b"IHDR", &head);
        chunk(&mut file, *b"IDAT", &packed(&[0; 1 << 16], 2_000));
        chunk(&mut file, *b"IEND", &[]);
        file
    }),
    mechanism("png-animation-of-many-frames", PNG, Aim::Memory, || {
        let mut control = 1_000_000_u32.to_be_bytes().to_vec();
        control.extend([0; 4]);
        png_with(&[(*b"acTL", control)])
    }),
    mechanism("png-impossible-depth", PNG, Aim::Trust, || {
        let mut file = SIGNATURE.to_vec();
        let mut head = header(9, 9, 6);
        head[8] = 200;
        chunk(&mut file, *b"IHDR", &head);
        chunk(&mut file, *b"IEND", &[]);
        file
    }),
    mechanism("png-filter-that-does-not-exist", PNG, Aim::Trust, || {
        png(99, 99, 6, &packed(&[200; 397], 99))
    }),
    mechanism("png-data-in-tiny-chunks", PNG, Aim::Time, || {
        let data = packed(&[0; 40_000], 10);
        let mut file = SIGNATURE.to_vec();
        chunk(&mut file, *b"IHDR", &header(999, 99, 6));
        data.iter().for_each(|byte| chunk(&mut file, *b"IDAT", &[*byte]));
        (0..100_000).for_each(|_| chunk(&mut file, *b"IDAT", &[]));
        chunk(&mut file, *b"IEND", &[]);
        file
    }),
    mechanism("png-exif-of-offsets", PNG, Aim::Trust, || {
        png_with(&[(*b"eXIf", b"II*\0\xff\xff\xff\xff".repeat(1_000))])
    }),
    mechanism("png-checksum-that-lies", PNG, Aim::Trust, || {
        let mut file = png(9, 9, 6, &packed(&[0; 37], 9));
        let at = file.len() / 2;
        file[at] ^= 0xff;
        file
    }),
    mechanism("gif-frames-outside-the-screen", GIF, Aim::Trust, || {
        let mut file = gif(9, 9, 1);
        let at = file.len() - 16;
        file[at..at + 4].copy_from_slice(&[0xff; 4]);
        file
    }),
    mechanism("gif-codes-beyond-the-table", GIF, Aim::Trust, || {
        let mut file = gif(99, 99, 1);
        file.pop();
        file.extend([0x2c, 0, 0, 0, 0, 99, 0, 99, 0, 0, 8, 255]);
        file.extend([0xff; 255]);
        file.extend([0, 0x3b]);
        file
    }),
    mechanism("gif-extensions-without-end", GIF, Aim::Time, || {
        let mut file = gif(9, 9, 0);
        file.pop();
        (0..300_000).for_each(|_| file.extend([0x21, 0xfe, 1, b'x', 0]));
        file.push(0x3b);
        file
    }),
    mechanism("gif-screen-of-nothing", GIF, Aim::Trust, || gif(0, 0, 1)),
    mechanism("gif-cut-off", GIF, Aim::Trust, || gif(9, 9, 1)[..20].to_vec()),
    mechanism("gif-global-table-missing", GIF, Aim::Trust, || {
        b"GIF89a\xff\xff\xff\xff\xf7\0\0".to_vec()
    }),
    mechanism("jpeg-segment-longer-than-the-file", JPEG, Aim::Trust, || {
        vec![0xff, 0xd8, 0xff, 0xe0, 0xff, 0xff, 1]
    }),
    mechanism("jpeg-of-nothing", JPEG, Aim::Trust, || jpeg(0, 0, 1)),
    mechanism("jpeg-tables-without-end", JPEG, Aim::Time, || {
        let mut file = vec![0xff, 0xd8];
        (0..30_000).for_each(|_| {
            file.extend([0xff, 0xdb, 0, 67, 0]);
            file.extend([1; 64]);
        });
        file
    }),
    mechanism("jpeg-restarts-without-end", JPEG, Aim::Time, || {
        let mut file = jpeg(9_000, 9_000, 1);
        file.truncate(file.len() - 2);
        file.extend([0xff, 0xd0].repeat(400_000));
        file
    }),
    mechanism("jpeg-profile-in-many-parts", JPEG, Aim::Memory, || {
        let mut file = vec![0xff, 0xd8];
        (0..255_u8).for_each(|n| {
            file.extend([0xff, 0xe2, 0x10, 0x10]);
            file.extend(b"ICC_PROFILE\0");
            file.extend([n, 255]);
            file.extend([0; 4096]);
        });
        file
    }),
    mechanism("jpeg-sampling-that-multiplies", JPEG, Aim::Memory, || {
        let mut file = jpeg(60_000, 60_000, 1);
        if let Some(at) = file.windows(3).position(|w| w == [1, 0x11, 0]) {
            file[at + 1] = 0xff;
        }
        file
    }),
    mechanism("jpeg-cut-off", JPEG, Aim::Trust, || {
        jpeg(900, 900, 1)[..60].to_vec()
    }),
    mechanism("webp-size-that-lies", WEBP, Aim::Trust, || {
        let mut file = riff(b"WEBPVP8L");
        file[4..8].copy_from_slice(&[0xff; 4]);
        file
    }),
    mechanism("webp-chunks-without-end", WEBP, Aim::Time, || {
        let mut body = b"WEBPVP8X".to_vec();
        body.extend(10_u32.to_le_bytes());
        body.extend([0; 10]);
        (0..100_000).for_each(|_| body.extend(b"EXIF\0\0\0\0"));
        riff(&body)
    }),
    mechanism("webp-animation-of-many-frames", WEBP, Aim::Memory, || {
        let mut body = b"WEBPVP8X".to_vec();
        body.extend(10_u32.to_le_bytes());
        body.extend([2, 0, 0, 0, 0xff, 0x3f, 0, 0xff, 0x3f, 0]);
        (0..20_000).for_each(|_| {
            body.extend(b"ANMF");
            body.extend(16_u32.to_le_bytes());
            body.extend([0xff; 16]);
        });
        riff(&body)
    }),
    mechanism("webp-codes-that-lie", WEBP, Aim::Trust, || {
        let mut body = b"WEBPVP8L".to_vec();
        body.extend(64_u32.to_le_bytes());
        body.push(0x2f);
        body.extend([0xff; 63]);
        riff(&body)
    }),
    mechanism("picture-that-is-text", PNG, Aim::Trust, || {
        b"<script>x</script>".to_vec()
    }),
    mechanism("picture-of-another-kind", JPEG, Aim::Trust, || {
        png(9, 9, 6, &packed(&[0; 37], 9))
    }),
];

const SIGNATURE: [u8; 8] = [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a];

fn header(width: u32, height: u32, colour: u8) -> Vec<u8> {
    let mut bytes = width.to_be_bytes().to_vec();
    bytes.extend(height.to_be_bytes());
    bytes.extend([8, colour, 0, 0, 0]);
    bytes
}

fn chunk(file: &mut Vec<u8>, name: [u8; 4], data: &[u8]) {
    file.extend((data.len() as u32).to_be_bytes());
    let mut crc = flate2::Crc::new();
    crc.update(&name);
    crc.update(data);
    file.extend(name);
    file.extend(data);
    file.extend(crc.sum().to_be_bytes());
}

pub(super) fn png(width: u32, height: u32, colour: u8, data: &[u8]) -> Vec<u8> {
    let mut file = SIGNATURE.to_vec();
    chunk(&mut file, *b"IHDR", &header(width, height, colour));
    chunk(&mut file, *b"IDAT", data);
    chunk(&mut file, *b"IEND", &[]);
    file
}

/// A sound picture of one pixel with these chunks before its data.
fn png_with(chunks: &[([u8; 4], Vec<u8>)]) -> Vec<u8> {
    let mut file = SIGNATURE.to_vec();
    chunk(&mut file, *b"IHDR", &header(1, 1, 6));
    for (name, data) in chunks {
        chunk(&mut file, *name, data);
    }
    chunk(&mut file, *b"IDAT", &packed(&[0; 5], 1));
    chunk(&mut file, *b"IEND", &[]);
    file
}

fn gif(width: u16, height: u16, frames: usize) -> Vec<u8> {
    let mut file = b"GIF89a".to_vec();
    file.extend(width.to_le_bytes());
    file.extend(height.to_le_bytes());
    file.extend([0x80, 0, 0, 0, 0, 0, 255, 255, 255]);
    for _ in 0..frames {
        file.push(0x2c);
        file.extend([0, 0, 0, 0]);
        file.extend(width.to_le_bytes());
        file.extend(height.to_le_bytes());
        file.extend([0, 2, 2, 0x4c, 0x01, 0]);
    }
    file.push(0x3b);
    file
}

fn jpeg(width: u16, height: u16, scans: usize) -> Vec<u8> {
    let mut file = vec![0xff, 0xd8, 0xff, 0xdb, 0, 67, 0];
    file.extend([1; 64]);
    file.extend([0xff, 0xc2, 0, 11, 8]);
    file.extend(height.to_be_bytes());
    file.extend(width.to_be_bytes());
    file.extend([1, 1, 0x11, 0]);
    let mut table = vec![0xff, 0xc4, 0, 20, 0, 1];
    table.extend([0; 15]);
    table.push(0);
    file.extend(table);
    for scan in 0..scans {
        file.extend([0xff, 0xda, 0, 8, 1, 1, 0, 0, 0, (scan % 2) as u8, 0]);
    }
    file.extend([0xff, 0xd9]);
    file
}

fn riff(body: &[u8]) -> Vec<u8> {
    let mut file = b"RIFF".to_vec();
    file.extend((body.len() as u32).to_le_bytes());
    file.extend(body);
    file
}
