//! SVG: nesting, references that multiply, and numbers without measure.

use super::{Aim, Mechanism, Reader, each, mechanism, times};

const SVG: Reader = Reader::Picture("svg");

pub(super) const ALL: &[Mechanism] = &[
    mechanism("svg-nested-svg", SVG, Aim::Stack, || {
        nested("<svg>", "</svg>", 541)
    }),
    mechanism("svg-nested-groups", SVG, Aim::Stack, || {
        nested("<g>", "</g>", 20_000)
    }),
    mechanism("svg-nested-anchors", SVG, Aim::Stack, || {
        nested("<a>", "</a>", 20_000)
    }),
    mechanism("svg-nested-switch", SVG, Aim::Stack, || {
        nested("<switch>", "</switch>", 5_000)
    }),
    mechanism("svg-nested-transforms", SVG, Aim::Stack, || {
        nested("<g transform='rotate(1)' opacity='.9'>", "</g>", 3_000)
    }),
    mechanism("svg-nested-tspans", SVG, Aim::Stack, || {
        let (open, close) = (times("<tspan>", 5_000), times("</tspan>", 5_000));
        svg(&format!("<text y='9'>{open}x{close}</text>"))
    }),
    mechanism("svg-nested-markers", SVG, Aim::Memory, nested_markers),
    mechanism("svg-nested-masks", SVG, Aim::Memory, || {
        layered(
            "mask",
            "<rect width='9' height='9' mask='url(#m{n})'/><rect width='8' height='8' mask='url(#m{n})'/>",
            "mask='url(#m0)'",
        )
    }),
    mechanism("svg-nested-patterns", SVG, Aim::Memory, || {
        layered(
            "pattern width='1' height='1'",
            "<rect width='9' height='9' fill='url(#m{n})'/><rect width='8' height='8' fill='url(#m{n})'/>",
            "fill='url(#m0)'",
        )
    }),
    mechanism("svg-nested-clip-paths", SVG, Aim::Memory, || {
        layered(
            "clipPath",
            "<rect width='9' height='9' clip-path='url(#m{n})'/><rect width='8' height='8' clip-path='url(#m{n})'/>",
            "clip-path='url(#m0)'",
        )
    }),
    mechanism("svg-use-doubling", SVG, Aim::Memory, || {
        layered("g", "<use href='#m{n}'/><use href='#m{n}' x='1'/>", "")
    }),
    mechanism("svg-symbol-doubling", SVG, Aim::Memory, || {
        layered(
            "symbol viewBox='0 0 9 9'",
            "<use href='#m{n}' width='9'/><use href='#m{n}' width='8'/>",
            "",
        )
    }),
    mechanism("svg-use-of-itself", SVG, Aim::Trust, || {
        svg("<g id='a'><use href='#a'/><use href='#a'/></g>")
    }),
    mechanism("svg-use-in-a-circle", SVG, Aim::Trust, || {
        svg("<g id='a'><use href='#b'/></g><g id='b'><use href='#c'/></g><g id='c'><use href='#a'/></g>")
    }),
    mechanism("svg-gradient-in-a-circle", SVG, Aim::Trust, || {
        svg(
            "<linearGradient id='a' href='#b'/><linearGradient id='b' href='#a'/><rect width='9' height='9' fill='url(#a)'/>",
        )
    }),
    mechanism("svg-mask-of-itself", SVG, Aim::Trust, || {
        svg(
            "<mask id='a' mask='url(#a)'><rect width='9' height='9' mask='url(#a)'/></mask><rect width='9' height='9' mask='url(#a)'/>",
        )
    }),
    mechanism("svg-entities-that-double", SVG, Aim::Memory, entities),
    mechanism("svg-entity-of-a-file", SVG, Aim::Reach, || {
        b"<!DOCTYPE svg [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><text y='9'>&x;</text></svg>".to_vec()
    }),
    mechanism("svg-image-of-a-file", SVG, Aim::Reach, || {
        svg(
            "<image href='/etc/passwd' width='9' height='9'/><image href='file:///etc/hostname' width='9' height='9'/>",
        )
    }),
    mechanism("svg-image-within-image", SVG, Aim::Memory, image_within_image),
    mechanism("svg-blur-without-end", SVG, Aim::Time, || {
        svg(
            "<filter id='f' x='-9999' y='-9999' width='99999' height='99999'><feGaussianBlur stdDeviation='9999'/></filter><rect width='9' height='9' filter='url(#f)'/>",
        )
    }),
    mechanism("svg-turbulence", SVG, Aim::Time, || {
        svg(
            "<filter id='f' width='9999' height='9999'><feTurbulence baseFrequency='.01' numOctaves='99999999'/></filter><rect width='9' height='9' filter='url(#f)'/>",
        )
    }),
    mechanism("svg-morphology", SVG, Aim::Time, || {
        svg(
            "<filter id='f' width='99' height='99'><feMorphology operator='dilate' radius='99999'/></filter><rect width='900' height='900' filter='url(#f)'/>",
        )
    }),
    mechanism("svg-filter-chain", SVG, Aim::Time, || {
        let chain = times("<feOffset dx='1'/>", 10_000);
        svg(&format!(
            "<filter id='f'>{chain}</filter><rect width='9' height='9' filter='url(#f)'/>"
        ))
    }),
    mechanism("svg-convolution", SVG, Aim::Memory, || {
        let kernel = times("1 ", 10_000);
        svg(&format!(
            "<filter id='f'><feConvolveMatrix order='100' kernelMatrix='{kernel}'/></filter><rect width='9' height='9' filter='url(#f)'/>"
        ))
    }),
    mechanism("svg-as-large-as-a-country", SVG, Aim::Memory, || {
        b"<svg xmlns='http://www.w3.org/2000/svg' width='1e9' height='1e9' viewBox='0 0 1e-9 1e-9'><rect width='9' height='9'/></svg>".to_vec()
    }),
    mechanism("svg-numbers-that-are-none", SVG, Aim::Trust, || {
        svg(
            "<rect width='NaN' height='1e999' x='-1e999'/><circle r='1e38' cx='1e38'/><path d='M1e38 1e38L-1e38 1e999z' stroke='red' stroke-width='1e38'/>",
        )
    }),
    mechanism("svg-dashes-without-end", SVG, Aim::Memory, || {
        svg("<path d='M0 0H1000000' stroke='red' stroke-dasharray='.0001'/>")
    }),
    mechanism("svg-path-of-a-million-points", SVG, Aim::Memory, || {
        svg(&format!(
            "<path d='M0 0{}' fill='none' stroke='red'/>",
            times("l1-1", 500_000)
        ))
    }),
    mechanism("svg-arcs", SVG, Aim::Time, || {
        svg(&format!(
            "<path d='M0 0{}' stroke='red'/>",
            times("a9 9 0 1 1 1 1", 100_000)
        ))
    }),
    mechanism("svg-gradient-of-many-stops", SVG, Aim::Time, || {
        let stops = each(50_000, |n| {
            format!("<stop offset='{}' stop-color='red'/>", n as f64 / 5e4)
        });
        svg(&format!(
            "<linearGradient id='g'>{stops}</linearGradient><rect width='99' height='99' fill='url(#g)'/>"
        ))
    }),
    mechanism("svg-rules-times-elements", SVG, Aim::Time, || {
        let rules = each(4_000, |n| format!("g rect.c{n} {{fill:red}}"));
        let elements = each(4_000, |n| format!("<rect class='c{n}' width='1' height='1'/>"));
        svg(&format!("<style>{rules}</style><g>{elements}</g>"))
    }),
    mechanism("svg-attributes", SVG, Aim::Time, || {
        svg(&format!(
            "<rect {} width='9' height='9'/>",
            each(50_000, |n| format!("a{n}='' "))
        ))
    }),
    mechanism("svg-same-attribute", SVG, Aim::Trust, || {
        svg(&format!(
            "<rect {} width='9' height='9'/>",
            times("x='1' ", 50_000)
        ))
    }),
    mechanism("svg-namespaces", SVG, Aim::Time, || {
        nested_named(800, |n| format!("<g xmlns:n{n}='http://x/{n}'>"), "</g>")
    }),
    mechanism("svg-text-on-a-path", SVG, Aim::Time, || {
        svg(&format!(
            "<path id='p' d='M0 0{}'/><text><textPath href='#p'>{}</textPath></text>",
            times("l1-1", 20_000),
            times("x", 20_000)
        ))
    }),
    mechanism("svg-text-without-end", SVG, Aim::Time, || {
        svg(&format!(
            "<text y='9' font-size='.001'>{}</text>",
            times("wide ", 60_000)
        ))
    }),
    mechanism("svg-decorations", SVG, Aim::Memory, || {
        svg(&format!(
            "<text y='9' x='{}' rotate='{}' text-decoration='underline'>{}</text>",
            times("1 ", 9_000),
            times("9 ", 9_000),
            times("x", 9_000)
        ))
    }),
    mechanism("svg-packed", SVG, Aim::Memory, || {
        use std::io::Write as _;
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let _ = packer.write_all(b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'>");
        for _ in 0..300 {
            let _ = packer.write_all(&[b' '; 1 << 16]);
        }
        packer.finish().unwrap_or_default()
    }),
    mechanism("svg-cut-off", SVG, Aim::Trust, || {
        b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><rect".to_vec()
    }),
    mechanism("svg-nested-definitions", SVG, Aim::Stack, || {
        nested("<defs><g>", "</g></defs>", 4_000)
    }),
    mechanism("svg-nested-symbols", SVG, Aim::Stack, || {
        nested("<symbol>", "</symbol>", 4_000)
    }),
    mechanism("svg-nested-text-paths", SVG, Aim::Stack, || {
        svg(&format!(
            "<text>{}x{}</text>",
            times("<textPath href='#p'>", 2_000),
            times("</textPath>", 2_000)
        ))
    }),
    mechanism("svg-nested-unknown-elements", SVG, Aim::Stack, || {
        nested("<x>", "</x>", 20_000)
    }),
    mechanism("svg-nested-opacity", SVG, Aim::Memory, || {
        nested("<g opacity='.99' style='isolation:isolate'>", "</g>", 800)
    }),
    mechanism("svg-nested-blend-modes", SVG, Aim::Memory, || {
        nested("<g style='mix-blend-mode:multiply'>", "</g>", 800)
    }),
    mechanism("svg-nested-clips", SVG, Aim::Memory, || {
        format!("<svg xmlns='http://www.w3.org/2000/svg' width='999' height='999'><clipPath id='c'><rect width='999' height='999'/></clipPath>{}<rect width='9' height='9'/>{}</svg>", times("<g clip-path='url(#c)'>", 800), times("</g>", 800)).into_bytes()
    }),
    mechanism("svg-nested-masks-of-one", SVG, Aim::Memory, || {
        format!("<svg xmlns='http://www.w3.org/2000/svg' width='999' height='999'><mask id='c'><rect width='999' height='999' fill='#fff'/></mask>{}<rect width='9' height='9'/>{}</svg>", times("<g mask='url(#c)'>", 400), times("</g>", 400)).into_bytes()
    }),
    mechanism("svg-filters-doubling", SVG, Aim::Memory, || {
        layered(
            "filter",
            "<feImage href='#m{n}'/><feImage href='#m{n}'/>",
            "filter='url(#m0)'",
        )
    }),
    mechanism("svg-gradients-in-a-chain", SVG, Aim::Stack, || {
        svg(&format!(
            "{}<rect width='9' height='9' fill='url(#g0)'/>",
            each(20_000, |n| format!(
                "<linearGradient id='g{n}' href='#g{}'/>",
                n + 1
            ))
        ))
    }),
    mechanism("svg-pattern-of-itself", SVG, Aim::Trust, || {
        svg(
            "<pattern id='a' width='1' height='1'><rect width='9' height='9' fill='url(#a)'/></pattern><rect width='99' height='99' fill='url(#a)'/>",
        )
    }),
    mechanism("svg-clip-of-itself", SVG, Aim::Trust, || {
        svg(
            "<clipPath id='a' clip-path='url(#a)'><rect width='9' height='9'/></clipPath><rect width='9' height='9' clip-path='url(#a)'/>",
        )
    }),
    mechanism("svg-marker-of-itself", SVG, Aim::Trust, || {
        svg(
            "<marker id='a'><path d='M0 0l1 1l2 2' marker-mid='url(#a)'/></marker><path d='M0 0l1 1l2 2' marker-mid='url(#a)'/>",
        )
    }),
    mechanism("svg-filter-image-of-itself", SVG, Aim::Trust, || {
        svg(
            "<filter id='a'><feImage href='#b'/></filter><rect id='b' width='9' height='9' filter='url(#a)'/>",
        )
    }),
    mechanism("svg-pattern-of-small-tiles", SVG, Aim::Time, || {
        svg(
            "<pattern id='a' width='.00001' height='.00001' patternUnits='userSpaceOnUse'><rect width='1' height='1'/></pattern><rect width='9999999' height='9999999' fill='url(#a)'/>",
        )
    }),
    mechanism("svg-stroke-joins", SVG, Aim::Time, || {
        svg(&format!(
            "<path d='M0 0{}' stroke='red' stroke-width='1000000' stroke-linejoin='round' fill='none'/>",
            times("l9 9l-9 8", 40_000)
        ))
    }),
    mechanism("svg-curves", SVG, Aim::Time, || {
        svg(&format!(
            "<path d='M0 0{}' stroke='red'/>",
            times("c9 9 1 1 1000000 -1000000", 40_000)
        ))
    }),
    mechanism("svg-lighting", SVG, Aim::Time, || {
        svg(
            "<filter id='f' width='9999999' height='9999999'><feDiffuseLighting surfaceScale='9'><fePointLight x='1' y='1' z='1'/></feDiffuseLighting></filter><rect width='99' height='99' filter='url(#f)'/>",
        )
    }),
    mechanism("svg-displacement", SVG, Aim::Time, || {
        svg(
            "<filter id='f'><feTurbulence/><feDisplacementMap in='SourceGraphic' scale='99999999'/></filter><rect width='99' height='99' filter='url(#f)'/>",
        )
    }),
    mechanism("svg-tiles-of-a-filter", SVG, Aim::Memory, || {
        svg(
            "<filter id='f' width='99999999' height='99999999'><feFlood width='.001' height='.001'/><feTile/></filter><rect width='99' height='99' filter='url(#f)'/>",
        )
    }),
    mechanism("svg-merge-of-many", SVG, Aim::Memory, || {
        svg(&format!(
            "<filter id='f'><feMerge>{}</feMerge></filter><rect width='99' height='99' filter='url(#f)'/>",
            times("<feMergeNode in='SourceGraphic'/>", 20_000)
        ))
    }),
    mechanism("svg-table-of-a-transfer", SVG, Aim::Memory, || {
        svg(&format!(
            "<filter id='f'><feComponentTransfer><feFuncR type='table' tableValues='{}'/></feComponentTransfer></filter><rect width='9' height='9' filter='url(#f)'/>",
            times("1 ", 500_000)
        ))
    }),
    mechanism("svg-polygon-of-points", SVG, Aim::Memory, || {
        svg(&format!("<polygon points='{}'/>", times("1,2 ", 500_000)))
    }),
    mechanism("svg-transforms-without-end", SVG, Aim::Time, || {
        svg(&format!(
            "<rect width='9' height='9' transform='{}'/>",
            times("rotate(1) ", 100_000)
        ))
    }),
    mechanism("svg-selectors-without-end", SVG, Aim::Time, || {
        svg(&format!(
            "<style>{} rect {{fill:red}}</style>{}",
            times("g > ", 5_000),
            times("<rect width='1' height='1'/>", 2_000)
        ))
    }),
    mechanism("svg-imports-of-styles", SVG, Aim::Reach, || {
        svg(
            "<style>@import url(file:///etc/passwd); @import 'http://127.0.0.1:1/';</style><rect width='9' height='9'/>",
        )
    }),
    mechanism("svg-use-of-a-file", SVG, Aim::Reach, || {
        svg("<use href='file:///etc/passwd#x'/><use href='../../../../etc/passwd#x'/>")
    }),
    mechanism("svg-picture-of-the-network", SVG, Aim::Reach, || {
        svg("<image href='http://127.0.0.1:1/x.png' width='9' height='9'/>")
    }),
    mechanism("svg-script", SVG, Aim::Reach, || {
        svg("<script>fetch('http://127.0.0.1:1/')</script><rect width='9' height='9' onload='x()'/>")
    }),
    mechanism("svg-foreign-html", SVG, Aim::Reach, || {
        svg(
            "<foreignObject width='9' height='9'><iframe xmlns='http://www.w3.org/1999/xhtml' src='file:///etc/passwd'/></foreignObject>",
        )
    }),
    mechanism("svg-included-xml", SVG, Aim::Reach, || {
        svg("<xi:include xmlns:xi='http://www.w3.org/2001/XInclude' href='file:///etc/passwd'/>")
    }),
    mechanism("svg-processing-instructions", SVG, Aim::Time, || {
        [times("<?x y?>", 200_000).into_bytes(), svg("")].concat()
    }),
    mechanism("svg-comments", SVG, Aim::Time, || {
        svg(&times("<!--x-->", 150_000))
    }),
    mechanism("svg-cdata", SVG, Aim::Time, || {
        svg(&format!("<text y='9'>{}</text>", times("<![CDATA[x]]>", 50_000)))
    }),
    mechanism("svg-character-references", SVG, Aim::Memory, || {
        svg(&format!("<text y='9'>{}</text>", times("&#x1F600;", 60_000)))
    }),
    mechanism("svg-name-without-end", SVG, Aim::Memory, || {
        format!(
            "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><{0}></{0}></svg>",
            times("n", 900_000)
        )
        .into_bytes()
    }),
    mechanism("svg-two-roots", SVG, Aim::Trust, || {
        [svg("<rect/>"), svg("<rect/>")].concat()
    }),
    mechanism("svg-sixteen-bit-text", SVG, Aim::Trust, || {
        String::from_utf8_lossy(&svg("<rect width='9' height='9'/>"))
            .encode_utf16()
            .flat_map(u16::to_be_bytes)
            .collect()
    }),
    mechanism("svg-view-box-of-nothing", SVG, Aim::Trust, || {
        b"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 0 0' width='1000000%' height='1000000%'><rect width='9' height='9'/></svg>".to_vec()
    }),
];

fn svg(inside: &str) -> Vec<u8> {
    format!("<svg xmlns='http://www.w3.org/2000/svg' width='99' height='99'>{inside}</svg>").into_bytes()
}

fn nested(open: &str, close: &str, depth: usize) -> Vec<u8> {
    svg(&format!(
        "{}<rect width='9' height='9'/>{}",
        times(open, depth),
        times(close, depth)
    ))
}

fn nested_named(depth: usize, open: impl Fn(usize) -> String, close: &str) -> Vec<u8> {
    svg(&format!(
        "{}<rect width='9' height='9'/>{}",
        each(depth, open),
        times(close, depth)
    ))
}

/// Layers of `element`, each of which uses the next one twice.
fn layered(element: &str, body: &str, on: &str) -> Vec<u8> {
    const LAYERS: usize = 24;
    let name = element.split(' ').next().unwrap_or(element);
    let layers = each(LAYERS, |n| {
        let body = body.replace("{n}", &(n + 1).to_string());
        format!("<{element} id='m{n}'>{body}</{name}>")
    });
    let last = format!("<{element} id='m{LAYERS}'><rect width='9' height='9'/></{name}>");
    let shown = if on.is_empty() {
        "<use href='#m0'/>".to_owned()
    } else {
        format!("<rect width='99' height='99' {on}/>")
    };
    svg(&format!("<defs>{last}{layers}</defs>{shown}"))
}

/// A marker on every point of a path, in a marker, in a marker.
fn nested_markers() -> Vec<u8> {
    let markers = each(12, |n| {
        format!(
            "<marker id='m{n}' markerWidth='9' markerHeight='9' overflow='visible'><path d='M0 0{}' stroke='red' \
             marker-mid='url(#m{})'/></marker>",
            times("l1 1", 10),
            n + 1
        )
    });
    svg(&format!(
        "<defs>{markers}</defs><path d='M0 0{}' stroke='red' marker-mid='url(#m0)'/>",
        times("l1 1", 10)
    ))
}

fn entities() -> Vec<u8> {
    let entities = each(30, |n| format!("<!ENTITY e{} '&e{n};&e{n};'>", n + 1));
    format!(
        "<!DOCTYPE svg [<!ENTITY e0 'x'>{entities}]><svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'>\
         <text y='9'>&e30;</text></svg>"
    )
    .into_bytes()
}

fn image_within_image() -> Vec<u8> {
    let mut inner = svg("<rect width='9' height='9'/>");
    for _ in 0..8 {
        let escaped: String = inner.iter().map(|byte| format!("%{byte:02x}")).collect();
        if escaped.len() > 1 << 20 {
            break;
        }
        inner = svg(&format!(
            "<image href='data:image/svg+xml,{escaped}' width='9' height='9'/><image href='data:image/svg+xml,{escaped}' width='9' height='9'/>"
        ));
    }
    inner
}
