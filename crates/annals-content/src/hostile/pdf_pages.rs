//! PDF pages as a person looks at them: pictures in every packing, forms and patterns within each other, and font programs.

use super::pdfs::{file, stream};
use super::{Aim, Mechanism, Reader, mechanism, packed, times};

const PAGE: Reader = Reader::PdfPage;

pub(super) const ALL: &[Mechanism] = &[
    mechanism(
        "page-picture-of-pixels-that-are-claimed",
        PAGE,
        Aim::Memory,
        || {
            picture(
                "/Width 100000/Height 100000/Filter/FlateDecode",
                &packed(&[0; 64], 1),
            )
        },
    ),
    mechanism("page-picture-that-unpacks", PAGE, Aim::Memory, || {
        picture(
            "/Width 9/Height 9/Filter/FlateDecode",
            &packed(&[0; 1 << 16], 9_000),
        )
    }),
    mechanism("page-picture-of-run-lengths", PAGE, Aim::Memory, || {
        picture(
            "/Width 90000/Height 9000/Filter/RunLengthDecode",
            &[129, 7].repeat(2_000_000),
        )
    }),
    mechanism("page-picture-of-filters-in-filters", PAGE, Aim::Time, || {
        let filters = times("/ASCIIHexDecode", 3_000);
        picture(&format!("/Width 9/Height 9/Filter[{filters}]"), b"00>")
    }),
    mechanism("page-predictor-of-columns-beyond-all", PAGE, Aim::Trust, || {
        let parameters = "/DecodeParms<</Predictor 15/Colors 99/Columns 2147483647/BitsPerComponent 16>>";
        picture(
            &format!("/Width 9/Height 9/Filter/FlateDecode{parameters}"),
            &packed(&[2; 64], 1),
        )
    }),
    mechanism("page-jbig2-of-a-huge-page", PAGE, Aim::Memory, || {
        let mut page = [0xff_u8; 8].to_vec();
        page.extend([0; 8]);
        page.extend([0, 0x80, 0]);
        picture(
            "/Width 60000/Height 60000/Filter/JBIG2Decode",
            &segment(0, 48, &[], &page),
        )
    }),
    mechanism("page-jbig2-of-symbols-beyond-all", PAGE, Aim::Memory, || {
        let mut symbols = vec![0, 0];
        symbols.extend([3, 255, 253, 255, 2, 254, 254, 254]);
        symbols.extend([0xff; 8]);
        symbols.extend([0; 64]);
        picture(
            "/Width 9/Height 9/Filter/JBIG2Decode",
            &segment(0, 0, &[], &symbols),
        )
    }),
    mechanism("page-jbig2-segment-of-itself", PAGE, Aim::Trust, || {
        picture(
            "/Width 9/Height 9/Filter/JBIG2Decode",
            &segment(1, 6, &[1, 1, 1], &[0; 64]),
        )
    }),
    mechanism("page-jpx-of-a-huge-size", PAGE, Aim::Memory, || {
        picture(
            "/Width 9/Height 9/Filter/JPXDecode",
            &jpx(0x7fff_ffff, 0x7fff_ffff, 3),
        )
    }),
    mechanism("page-jpx-of-tiles-without-end", PAGE, Aim::Memory, || {
        picture("/Width 9/Height 9/Filter/JPXDecode", &jpx(60_000, 1, 3))
    }),
    mechanism("page-jpx-of-components-beyond-all", PAGE, Aim::Memory, || {
        picture("/Width 9/Height 9/Filter/JPXDecode", &jpx(9_000, 9_000, 16_384))
    }),
    mechanism("page-fax-of-rows-without-end", PAGE, Aim::Memory, || {
        let parameters = "/DecodeParms<</K -1/Columns 60000/Rows 60000/EndOfBlock false>>";
        picture(
            &format!("/Width 60000/Height 60000/Filter/CCITTFaxDecode{parameters}"),
            &[0xff; 4096],
        )
    }),
    mechanism("page-fax-of-columns-beyond-all", PAGE, Aim::Trust, || {
        let parameters = "/DecodeParms<</K 0/Columns 2147483647/Rows 2147483647>>";
        picture(
            &format!("/Width 9/Height 9/Filter/CCITTFaxDecode{parameters}"),
            &[0x35; 4096],
        )
    }),
    mechanism("page-jpeg-of-a-huge-frame", PAGE, Aim::Memory, || {
        let mut jpeg = vec![0xff, 0xd8, 0xff, 0xc0, 0, 17, 8, 0xff, 0xff, 0xff, 0xff, 3];
        jpeg.extend([1, 0x44, 0, 2, 0x11, 0, 3, 0x11, 0]);
        jpeg.extend([0xff, 0xda, 0, 12, 3, 1, 0, 2, 0, 3, 0, 0, 63, 0]);
        jpeg.extend([0; 512]);
        picture("/Width 65535/Height 65535/Filter/DCTDecode", &jpeg)
    }),
    mechanism("page-soft-mask-of-itself", PAGE, Aim::Trust, || {
        picture(
            "/Width 9/Height 9/SMask 5 0 R/Filter/FlateDecode",
            &packed(&[0; 243], 1),
        )
    }),
    mechanism("page-form-of-itself", PAGE, Aim::Stack, || {
        shown(
            "/X Do",
            "/XObject<</X 5 0 R>>",
            &[form("/X Do", "/XObject<</X 5 0 R>>")],
        )
    }),
    mechanism("page-forms-that-double", PAGE, Aim::Time, || {
        layers(
            |next| form("/X Do /X Do", &format!("/XObject<</X {next} 0 R>>")),
            "/X Do",
            "/XObject<</X 5 0 R>>",
        )
    }),
    mechanism("page-forms-in-forms", PAGE, Aim::Stack, || {
        let forms: Vec<Vec<u8>> = (0..20_000)
            .map(|n| form("/X Do", &format!("/XObject<</X {} 0 R>>", n + 6)))
            .collect();
        shown("/X Do", "/XObject<</X 5 0 R>>", &forms)
    }),
    mechanism("page-states-saved-without-end", PAGE, Aim::Memory, || {
        drawn(&packed(&b"q ".repeat(1 << 15), 950))
    }),
    mechanism("page-clips-without-end", PAGE, Aim::Time, || {
        drawn(&packed(
            &b"0 0 500 500 re W n 0 0 500 500 re f ".repeat(1 << 10),
            200,
        ))
    }),
    mechanism("page-curves-without-end", PAGE, Aim::Memory, || {
        drawn(&packed(&b"0 0 m 1 2 3 4 5 6 c ".repeat(1 << 12), 400))
    }),
    mechanism("page-dashes-beyond-all", PAGE, Aim::Memory, || {
        shown("[0.0001] 0 d 1 w 0 0 m 100000 100000 l S", "", &[])
    }),
    mechanism("page-tiles-without-end", PAGE, Aim::Time, || {
        let tile = "/Type/Pattern/PatternType 1/PaintType 1/TilingType 1/BBox[0 0 1 1]/XStep 0.001/YStep 0.001/Resources<<>>";
        shown(
            "/Pattern cs /P scn 0 0 600 800 re f",
            "/Pattern<</P 5 0 R>>",
            &[stream(tile, b"0 0 1 1 re f")],
        )
    }),
    mechanism("page-tiles-of-tiles", PAGE, Aim::Time, || {
        let tile = |next: usize| {
            let entries = format!(
                "/Type/Pattern/PatternType 1/PaintType 1/TilingType 1/BBox[0 0 90 90]/XStep 9/YStep 9\
                 /Resources<</Pattern<</P {next} 0 R>>>>"
            );
            stream(
                &entries,
                b"/Pattern cs /P scn 0 0 90 90 re f /P scn 0 0 90 90 re f",
            )
        };
        layers(
            tile,
            "/Pattern cs /P scn 0 0 600 800 re f",
            "/Pattern<</P 5 0 R>>",
        )
    }),
    mechanism("page-function-of-samples-beyond-all", PAGE, Aim::Memory, || {
        let function =
            "/FunctionType 0/Domain[0 1 0 1 0 1]/Range[0 1 0 1 0 1]/Size[40960 40960 40960]/BitsPerSample 32";
        shaded("/ShadingType 1/Domain[0 1 0 1]", &[stream(function, &[0; 64])])
    }),
    mechanism("page-function-program-that-nests", PAGE, Aim::Stack, || {
        let program = format!("{{{}}}", times("{", 300_000));
        let function = "/FunctionType 4/Domain[0 1 0 1]/Range[0 1 0 1 0 1]";
        shaded(
            "/ShadingType 1/Domain[0 1 0 1]",
            &[stream(function, program.as_bytes())],
        )
    }),
    mechanism("page-function-of-itself", PAGE, Aim::Stack, || {
        let function = b"<</FunctionType 3/Domain[0 1]/Functions[6 0 R 6 0 R]/Bounds[0.5]/Encode[0 1 0 1]>>";
        shaded("/ShadingType 2/Coords[0 0 9 9]", &[function.to_vec()])
    }),
    mechanism("page-mesh-without-end", PAGE, Aim::Memory, || {
        let mesh = "/ShadingType 4/ColorSpace/DeviceRGB/BitsPerCoordinate 8/BitsPerComponent 8/BitsPerFlag 8\
                    /Decode[0 600 0 800 0 1 0 1 0 1]/Filter/FlateDecode";
        shown(
            "/S sh",
            "/Shading<</S 5 0 R>>",
            &[stream(mesh, &packed(&[0, 9, 200, 1, 2, 3].repeat(1 << 12), 800))],
        )
    }),
    mechanism("page-of-a-size-beyond-all", PAGE, Aim::Memory, || {
        file(&[
            b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
            b"<</Type/Pages/Count 1/Kids[3 0 R]/MediaBox[0 0 1 100000000]>>".to_vec(),
            b"<</Type/Page/Parent 2 0 R>>".to_vec(),
        ])
    }),
    mechanism("page-glyph-of-itself", PAGE, Aim::Stack, || {
        let font = b"<</Type/Font/Subtype/Type3/FontBBox[0 0 9 9]/FontMatrix[1 0 0 1 0 0]/CharProcs<</a 6 0 R>>\
                     /Encoding<</Differences[97/a]>>/FirstChar 97/LastChar 97/Widths[9]/Resources<</Font<</F 5 0 R>>>>>>";
        let glyph = stream("", b"9 0 d0 BT /F 9 Tf (aa) Tj ET");
        shown(
            "BT /F 9 Tf (aa) Tj ET",
            "/Font<</F 5 0 R>>",
            &[font.to_vec(), glyph],
        )
    }),
    mechanism("page-font-type1-program-that-nests", PAGE, Aim::Stack, || {
        let program = format!("%!PS-AdobeFont-1.0: X\n/Encoding {}", times("{", 400_000));
        written("/Subtype/Type1", "FontFile", "", program.as_bytes())
    }),
    mechanism("page-font-type1-subroutine-of-itself", PAGE, Aim::Stack, || {
        written("/Subtype/Type1", "FontFile", "", &type1())
    }),
    mechanism("page-font-cff-subroutines-that-multiply", PAGE, Aim::Time, || {
        written("/Subtype/Type1", "FontFile3", "/Subtype/Type1C", &cff(0))
    }),
    mechanism("page-font-cff-index-beyond-the-file", PAGE, Aim::Trust, || {
        written("/Subtype/Type1", "FontFile3", "/Subtype/Type1C", &cff(0xffff))
    }),
    mechanism(
        "page-font-truetype-composites-that-double",
        PAGE,
        Aim::Time,
        || {
            written(
                "/Subtype/TrueType",
                "FontFile2",
                "",
                &truetype(composites(), &[0; 4]),
            )
        },
    ),
    mechanism("page-font-truetype-composite-of-itself", PAGE, Aim::Stack, || {
        written(
            "/Subtype/TrueType",
            "FontFile2",
            "",
            &truetype(vec![composite(0)], &[0; 4]),
        )
    }),
    mechanism(
        "page-font-truetype-points-beyond-the-file",
        PAGE,
        Aim::Trust,
        || {
            let mut glyph = vec![0x7f, 0xff];
            glyph.extend([0; 8]);
            glyph.extend([0xff; 64]);
            written(
                "/Subtype/TrueType",
                "FontFile2",
                "",
                &truetype(vec![glyph], &[0; 4]),
            )
        },
    ),
    mechanism(
        "page-font-truetype-map-of-all-characters",
        PAGE,
        Aim::Time,
        || {
            // One group for every number there is.
            let mut map = vec![0, 0, 0, 1, 0, 3, 0, 10, 0, 0, 0, 12, 0, 12, 0, 0];
            map.extend([0xff; 4]);
            map.extend([0; 4]);
            map.extend([0x0f, 0xff, 0xff, 0xff]);
            map.extend([0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0].repeat(100));
            written(
                "/Subtype/TrueType",
                "FontFile2",
                "",
                &truetype(vec![vec![0; 12]], &map),
            )
        },
    ),
    mechanism("page-font-tables-beyond-the-file", PAGE, Aim::Trust, || {
        let mut font = vec![0, 1, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0];
        for name in [b"glyf", b"loca", b"head", b"maxp", b"cmap"] {
            font.extend(name);
            font.extend([0xff; 12]);
        }
        written("/Subtype/TrueType", "FontFile2", "", &font)
    }),
];

/// A page that draws `content` with these resources; its objects begin with number 5.
fn shown(content: &str, resources: &str, objects: &[Vec<u8>]) -> Vec<u8> {
    let mut all = vec![
        b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
        b"<</Type/Pages/Count 1/Kids[3 0 R]/MediaBox[0 0 600 800]>>".to_vec(),
        format!("<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<<{resources}>>>>").into_bytes(),
        stream("", content.as_bytes()),
    ];
    all.extend_from_slice(objects);
    file(&all)
}

/// A page whose content is packed.
fn drawn(content: &[u8]) -> Vec<u8> {
    file(&[
        b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
        b"<</Type/Pages/Count 1/Kids[3 0 R]/MediaBox[0 0 600 800]>>".to_vec(),
        b"<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<<>>>>".to_vec(),
        stream("/Filter/FlateDecode", content),
    ])
}

fn picture(entries: &str, data: &[u8]) -> Vec<u8> {
    let entries = format!("/Type/XObject/Subtype/Image/ColorSpace/DeviceRGB/BitsPerComponent 8{entries}");
    shown(
        "600 0 0 800 0 0 cm /I Do",
        "/XObject<</I 5 0 R>>",
        &[stream(&entries, data)],
    )
}

fn form(content: &str, resources: &str) -> Vec<u8> {
    let entries = format!("/Type/XObject/Subtype/Form/BBox[0 0 600 800]/Resources<<{resources}>>");
    stream(&entries, content.as_bytes())
}

/// Thirty objects that each use the next, which has this number.
fn layers(layer: impl Fn(usize) -> Vec<u8>, content: &str, resources: &str) -> Vec<u8> {
    let mut objects: Vec<Vec<u8>> = (0..30).map(|n| layer(n + 6)).collect();
    objects.push(form("0 0 9 9 re f", ""));
    shown(content, resources, &objects)
}

/// A page filled by a shading whose function is object 6.
fn shaded(entries: &str, functions: &[Vec<u8>]) -> Vec<u8> {
    let shading = format!("<<{entries}/ColorSpace/DeviceRGB/Function 6 0 R>>").into_bytes();
    let mut objects = vec![shading];
    objects.extend_from_slice(functions);
    shown("/S sh", "/Shading<</S 5 0 R>>", &objects)
}

/// A page written in a font that brings its own program.
fn written(kind: &str, key: &str, entries: &str, program: &[u8]) -> Vec<u8> {
    let font = format!(
        "<</Type/Font{kind}/BaseFont/X/FirstChar 97/LastChar 98/Widths[9 9]/FontDescriptor 6 0 R/Encoding/WinAnsiEncoding>>"
    );
    let descriptor = format!("<</Type/FontDescriptor/FontName/X/Flags 4/{key} 7 0 R>>");
    let length = program.len();
    let entries = format!("/Length1 {length}/Length2 0/Length3 0{entries}");
    shown(
        "BT /F 90 Tf 9 400 Td (abab) Tj ET",
        "/Font<</F 5 0 R>>",
        &[
            font.into_bytes(),
            descriptor.into_bytes(),
            stream(&entries, program),
        ],
    )
}

/// A segment of JBIG2 for page 1.
fn segment(number: u8, kind: u8, refers: &[u8], data: &[u8]) -> Vec<u8> {
    let mut segment = vec![0, 0, 0, number, kind, (refers.len() as u8) << 5];
    segment.extend(refers);
    segment.push(1);
    segment.extend((data.len() as u32).to_be_bytes());
    segment.extend(data);
    segment
}

/// A codestream of JPEG 2000: a square of this size, in tiles of this size, with this number of components.
fn jpx(side: u32, tile: u32, components: u16) -> Vec<u8> {
    let mut codes = vec![0xff, 0x4f, 0xff, 0x51];
    codes.extend((38 + 3 * components).to_be_bytes());
    codes.extend([0, 0]);
    for number in [side, side, 0, 0, tile, tile, 0, 0] {
        codes.extend(number.to_be_bytes());
    }
    codes.extend(components.to_be_bytes());
    codes.extend([7, 1, 1].repeat(components.into()));
    codes.extend([0xff, 0x52, 0, 12, 0, 0, 0, 1, 1, 5, 4, 4, 0, 0]);
    codes.extend([0xff, 0x5c, 0, 19, 0x40]);
    codes.extend([0x48; 16]);
    codes.extend([0xff, 0x90, 0, 10, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0x93]);
    codes.extend([0; 64]);
    codes.extend([0xff, 0xd9]);
    codes
}

/// The cipher that hides parts of Type 1 fonts.
fn hidden(plain: &[u8], key: u16) -> Vec<u8> {
    let mut state = key;
    let lead = [0; 4];
    lead.iter()
        .chain(plain)
        .map(|byte| {
            let cipher = byte ^ (state >> 8) as u8;
            state = (u16::from(cipher).wrapping_add(state))
                .wrapping_mul(52_845)
                .wrapping_add(22_719);
            cipher
        })
        .collect()
}

/// A font whose first subroutine calls itself twice.
fn type1() -> Vec<u8> {
    let open = b"%!PS-AdobeFont-1.0: X\n/FontName /X def /FontMatrix [0.001 0 0 0.001 0 0] def\n\
                 /Encoding StandardEncoding def currentfile eexec\n";
    // Push 0, call that subroutine; again; return.
    let subroutine = hidden(&[139, 10, 139, 10, 11], 4_330);
    let glyph = hidden(&[139, 239, 13, 139, 10, 14], 4_330);
    let mut private = b"dup /Private 9 dict dup begin /lenIV 4 def /Subrs 1 array\ndup 0 ".to_vec();
    let mut add = |name: &str, data: &[u8], end: &str| {
        private.extend(format!("{name}{} RD ", data.len()).bytes());
        private.extend(data);
        private.extend(end.bytes());
    };
    add(
        "",
        &subroutine,
        " NP\nND\n2 index /CharStrings 3 dict dup begin\n",
    );
    add("/.notdef ", &glyph, " ND\n");
    add("/a ", &glyph, " ND\n");
    add("/b ", &glyph, " ND\nend\nend\nmark currentfile closefile\n");
    [
        open.to_vec(),
        hidden(&private, 55_665),
        times("0", 512).into_bytes(),
    ]
    .concat()
}

/// An index of the Compact Font Format.
fn index(items: &[Vec<u8>]) -> Vec<u8> {
    let mut index = (items.len() as u16).to_be_bytes().to_vec();
    if items.is_empty() {
        return index;
    }
    index.push(4);
    let mut at = 1_u32;
    index.extend(at.to_be_bytes());
    for item in items {
        at += item.len() as u32;
        index.extend(at.to_be_bytes());
    }
    index.extend(items.concat());
    index
}

/// A font whose ten subroutines each call the next two hundred times. `claimed` is added to where the glyphs are said to be.
fn cff(claimed: u32) -> Vec<u8> {
    let call = |number: u8| [32 + number, 29];
    let mut subroutines: Vec<Vec<u8>> = (0..9)
        .map(|n| [call(n + 1).repeat(200), vec![11]].concat())
        .collect();
    subroutines.push([[140, 140, 5].repeat(200), vec![11]].concat());
    let glyph = [vec![139, 21], call(0).to_vec(), vec![14]].concat();
    let number = |n: u32| [vec![29], n.to_be_bytes().to_vec()].concat();
    // Its length does not depend on the numbers in it.
    let top = |glyphs: u32| [number(glyphs), vec![17], number(0), vec![15]].concat();
    let before = |glyphs: u32| {
        let parts = [
            vec![1, 0, 4, 4],
            index(&[b"X".to_vec()]),
            index(&[top(glyphs)]),
            index(&[]),
            index(&subroutines),
        ];
        parts.concat()
    };
    let at = before(0).len() as u32;
    [
        before(at + claimed),
        index(&[glyph.clone(), glyph.clone(), glyph]),
    ]
    .concat()
}

/// A glyph made of two copies of another.
fn composite(of: u16) -> Vec<u8> {
    let mut glyph = vec![0xff, 0xff, 0, 0, 0, 0, 0, 9, 0, 9];
    for flags in [0x22_u16, 0x02] {
        glyph.extend(flags.to_be_bytes());
        glyph.extend(of.to_be_bytes());
        glyph.extend([0, 0]);
    }
    glyph
}

fn composites() -> Vec<Vec<u8>> {
    let mut glyphs: Vec<Vec<u8>> = (0..40).map(|n| composite(n + 1)).collect();
    // A triangle.
    glyphs.push(vec![
        0, 1, 0, 0, 0, 0, 0, 9, 0, 9, 0, 2, 0, 0, 1, 1, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 9, 0,
    ]);
    glyphs
}

/// A TrueType font of these glyphs, with this map of characters.
fn truetype(glyphs: Vec<Vec<u8>>, map: &[u8]) -> Vec<u8> {
    let count = glyphs.len() as u16;
    let mut places = vec![0_u32];
    for glyph in &glyphs {
        places.push(places[places.len() - 1] + glyph.len() as u32);
    }
    let mut head = vec![
        0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x5f, 0x0f, 0x3c, 0xf5, 0, 0, 3, 0xe8,
    ];
    head.extend([0; 16]);
    head.extend([0, 0, 0, 0, 0, 9, 0, 9, 0, 0, 0, 9, 0, 2, 0, 1, 0, 0]);
    let mut extents = vec![0, 1, 0, 0, 0, 9, 0, 0];
    extents.extend([0; 26]);
    extents.extend(count.to_be_bytes());
    let mut most = vec![0, 1, 0, 0];
    most.extend(count.to_be_bytes());
    most.extend([0xff; 26]);
    let tables: [(&[u8; 4], Vec<u8>); 7] = [
        (b"cmap", map.to_vec()),
        (b"glyf", glyphs.concat()),
        (b"head", head),
        (b"hhea", extents),
        (b"hmtx", [0, 9, 0, 0].repeat(count.into())),
        (
            b"loca",
            places.iter().flat_map(|place| place.to_be_bytes()).collect(),
        ),
        (b"maxp", most),
    ];
    let mut font = vec![0, 1, 0, 0, 0, tables.len() as u8, 0, 64, 0, 2, 0, 48];
    let mut at = 12 + 16 * tables.len();
    for (name, table) in &tables {
        font.extend(*name);
        font.extend([0; 4]);
        font.extend((at as u32).to_be_bytes());
        font.extend((table.len() as u32).to_be_bytes());
        at += table.len().next_multiple_of(4);
    }
    for (_, table) in &tables {
        font.extend(table);
        font.resize(font.len().next_multiple_of(4), 0);
    }
    font
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A control: what hides a font's parts shows them again, so the parts are read and not only refused.
    #[test]
    fn the_cipher_of_type_1_is_its_own_inverse_with_the_state_of_the_cipher_text() {
        let cipher = hidden(b"dup", 55_665);
        let mut state = 55_665_u16;
        let plain: Vec<u8> = cipher
            .iter()
            .map(|byte| {
                let plain = byte ^ (state >> 8) as u8;
                state = u16::from(*byte)
                    .wrapping_add(state)
                    .wrapping_mul(52_845)
                    .wrapping_add(22_719);
                plain
            })
            .collect();
        assert_eq!(plain, b"\0\0\0\0dup");
    }
}
