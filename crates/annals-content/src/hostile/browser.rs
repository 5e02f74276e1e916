//! Pages for a browser: what runs, fetches or opens something by itself, and what is laid out or painted without end.
//!
//! A page that is after [`Aim::Reach`] names [`ELSEWHERE`] or [`A_FILE`]: a browser that is given the page as it is asks for
//! that at once, without anybody's hand.

use super::pictures::png;
use super::{Aim, Mechanism, Reader, each, mechanism, packed, times};

/// The address that pages ask for. A control puts that of a listening server in its place.
pub const ELSEWHERE: &str = "http://127.0.0.1:1/elsewhere";

/// The file that pages ask for: every machine has it, and an isolated process sees another of that name.
pub const A_FILE: &str = "file:///etc/passwd";

const BROWSER: Reader = Reader::Browser;

macro_rules! reach {
    ($($name:literal: $page:literal,)*) => {
        &[$(mechanism(concat!("browser-", $name), BROWSER, Aim::Reach, || {
            $page.replace("HERE", ELSEWHERE).replace("FILE", A_FILE).into_bytes()
        })),*]
    };
}

/// What asks for something elsewhere.
pub(super) const REACH: &[Mechanism] = reach! {
    "script": "<script>new Image().src='HERE'</script>",
    "script-of-modules": "<script type=module>import 'HERE'</script>",
    "script-from-elsewhere": "<script src='HERE'></script>",
    "script-after-dialogs": "<script>alert(1);confirm(2);prompt(3);new Image().src='HERE'</script>",
    "script-after-printing": "<script>print();print();new Image().src='HERE'</script>",
    "script-after-a-large-canvas":
        "<canvas width=9000 height=9000></canvas><script>let c=document.querySelector('canvas').getContext('2d');\
         c.fillRect(0,0,9,9);new Image().src='HERE'</script>",
    "script-that-opens-windows": "<script>open('HERE')</script>",
    "script-that-goes-elsewhere": "<script>location='HERE'</script>",
    "script-that-fetches": "<script>fetch('HERE',{mode:'no-cors'})</script>",
    "script-that-sends-a-beacon": "<script>navigator.sendBeacon('HERE')</script>",
    "script-that-listens": "<script>new EventSource('HERE')</script>",
    "script-with-a-socket": "<script>new WebSocket('HERE'.replace('http','ws'))</script>",
    "script-in-a-worker":
        "<script>new Worker(URL.createObjectURL(new Blob([\"fetch('HERE',{mode:'no-cors'})\"])))</script>",
    "script-that-submits": "<form action='HERE'></form><script>document.forms[0].submit()</script>",
    "event-load": "<body onload=\"new Image().src='HERE'\">x",
    "event-error": "<img src='data:,' onerror=\"new Image().src='HERE'\">",
    "event-toggle": "<details open ontoggle=\"new Image().src='HERE'\">x</details>",
    "event-focus": "<input autofocus onfocus=\"new Image().src='HERE'\">",
    "event-animation":
        "<style>@keyframes a{to{opacity:1}}p{animation:a 1ms}</style><p onanimationend=\"new Image().src='HERE'\">x",
    "event-of-a-drawing": "<svg onload=\"new Image().src='HERE'\"></svg>",
    "event-of-a-drawn-animation":
        "<svg><rect width=9 height=9><animate attributeName=x to=1 dur=1ms onbegin=\"new Image().src='HERE'\"/></rect></svg>",
    "script-of-a-drawing": "<svg><script>new Image().src='HERE'</script></svg>",
    "style-of-a-drawing-that-ends-itself": "<svg></p><style><g title='</style><img src=HERE>'></style></svg>",
    "refresh": "<meta http-equiv=refresh content='0;url=HERE'>",
    "frame": "<iframe src='HERE'></iframe>",
    "frame-of-text": "<iframe srcdoc=\"<img src='HERE'>\"></iframe>",
    "frame-set": "<frameset><frame src='HERE'></frameset>",
    "object": "<object data='HERE'></object>",
    "embedded": "<embed src='HERE'>",
    "shadow-tree": "<div><template shadowrootmode=open><img src='HERE'></template></div>",
    "picture": "<img src='HERE'>",
    "picture-set": "<img srcset='HERE 1x'>",
    "picture-source": "<picture><source srcset='HERE'><img></picture>",
    "picture-of-a-base": "<base href='HERE'><img src='?x'>",
    "picture-of-an-input": "<input type=image src='HERE'>",
    "poster": "<video poster='HERE'></video>",
    "captions": "<video src='data:video/mp4,' preload=auto><track default src='HERE'></video>",
    "background-attribute": "<table background='HERE'><tr><td>x</table>",
    "link-to-a-sheet": "<link rel=stylesheet href='HERE'>",
    "link-to-preload": "<link rel=preload as=image href='HERE'>",
    "link-to-preload-a-module": "<link rel=modulepreload href='HERE'>",
    "link-to-prefetch": "<link rel=prefetch href='HERE'>",
    "sheet-import": "<style>@import 'HERE';</style>",
    "sheet-background": "<p style='background:url(HERE)'>x",
    "sheet-image-set": "<p style='background:image-set(\"HERE\" 1x)'>x",
    "sheet-font": "<style>@font-face{font-family:f;src:url(HERE)}p{font-family:f}</style><p>x",
    "sheet-content": "<style>p::before{content:url(HERE)}</style><p>x",
    "sheet-bullet": "<li style='list-style-image:url(HERE)'>x",
    "sheet-border": "<p style='border:9px solid;border-image:url(HERE) 9'>x",
    "sheet-mask": "<p style='mask-image:url(HERE)'>x",
    "sheet-shape": "<p style='float:left;shape-outside:url(HERE)'>x",
    "sheet-cursor": "<p style='cursor:url(HERE),auto'>x",
    "sheet-filter": "<p style='filter:url(HERE#f)'>x",
    "sheet-variable": "<style>:root{--u:url(HERE)}p{background:var(--u)}</style><p>x",
    "sheet-cross-fade": "<p style='background:-webkit-cross-fade(url(HERE),url(data:,),50%)'>x",
    "drawn-image": "<svg><image href='HERE' width=9 height=9 /></svg>",
    "drawn-image-by-its-old-name": "<svg><image xlink:href='HERE' width=9 height=9 /></svg>",
    "drawn-use": "<svg><use href='HERE#x'/></svg>",
    "drawn-filter-image":
        "<svg><filter id=f><feImage href='HERE'/></filter><rect filter='url(#f)' width=9 height=9 /></svg>",
    "drawn-image-set-later": "<svg><image width=9 height=9><set attributeName=href to='HERE'/></image></svg>",
    "drawn-foreign-picture": "<svg><foreignObject width=9 height=9><img src='HERE'></foreignObject></svg>",
    "drawn-mask": "<svg><rect mask='url(HERE#m)' width=9 height=9 /></svg>",
    "file-frame": "<iframe src='FILE'></iframe>",
    "file-object": "<object data='FILE'></object>",
    "file-embedded": "<embed src='FILE'>",
    "file-refresh": "<meta http-equiv=refresh content='0;url=FILE'>",
    "file-by-script": "<script>location='FILE'</script>",
    "file-frame-set": "<frameset><frame src='FILE'></frameset>",
};

/// What costs more than a small bound allows.
pub(super) const COSTLY: &[Mechanism] = &[
    mechanism("browser-height-beyond-all", BROWSER, Aim::Time, || {
        b"<div style='height:90000000px'>x</div>".to_vec()
    }),
    mechanism("browser-pages-of-no-size", BROWSER, Aim::Time, || {
        let sheet = "<style>@page{size:2mm 2mm;margin:0}</style>";
        (sheet.to_owned() + &times("<p>word ", 9_000)).into_bytes()
    }),
    mechanism("browser-page-breaks", BROWSER, Aim::Time, || {
        times("<p style='break-after:page'>x", 40_000).into_bytes()
    }),
    mechanism("browser-columns-in-columns", BROWSER, Aim::Time, || {
        (times("<div style='columns:3'>", 30) + &times("<p>word ", 4_000)).into_bytes()
    }),
    mechanism("browser-spans-that-multiply", BROWSER, Aim::Time, || {
        let row = "<tr>".to_owned() + &times("<td colspan=1000 rowspan=60000>x", 20);
        ("<table>".to_owned() + &times(&row, 300)).into_bytes()
    }),
    mechanism("browser-turbulence", BROWSER, Aim::Time, || {
        let filter =
            "<filter id=f x=0 y=0 width=1 height=1><feTurbulence baseFrequency=.5 numOctaves=20 /></filter>";
        let shapes = times("<rect width=5000 height=5000 filter='url(#f)' />", 60);
        format!("<svg width=5000 height=5000>{filter}{shapes}</svg>").into_bytes()
    }),
    mechanism("browser-blur-of-large-boxes", BROWSER, Aim::Time, || {
        let large = "<div style='filter:blur(900px);width:9000px;height:9000px;background:red'>x</div>";
        times(large, 60).into_bytes()
    }),
    mechanism("browser-shadows-of-shadows", BROWSER, Aim::Time, || {
        let shadows = each(3_000, |n| format!("{n}px {n}px 90px red,"));
        let words = times("word ", 5_000);
        format!("<p style='text-shadow:{shadows}0 0 red'>{words}").into_bytes()
    }),
    mechanism("browser-uses-that-multiply", BROWSER, Aim::Memory, || {
        let layers = each(8, |n| {
            format!(
                "<g id=a{}>{}</g>",
                n + 1,
                times(&format!("<use href='#a{n}'/>"), 10)
            )
        });
        format!("<svg width=9 height=9><g id=a0><rect width=1 height=1 /></g>{layers}</svg>").into_bytes()
    }),
    mechanism("browser-elements-without-end", BROWSER, Aim::Memory, || {
        times("<span>x</span>", 290_000).into_bytes()
    }),
    mechanism("browser-grid-without-end", BROWSER, Aim::Memory, || {
        let cells = times("<b style='grid-column:99999/9999999;grid-row:999999'>x</b>", 500);
        let columns = "display:grid;grid-template-columns:repeat(9999999,1px)";
        format!("<div style='{columns}'>{cells}</div>").into_bytes()
    }),
    mechanism("browser-picture-in-its-address", BROWSER, Aim::Memory, || {
        const SIDE: u32 = 12_000;
        let row = vec![0; SIDE as usize + 1];
        let picture = png(SIDE, SIDE, 0, &packed(&row, SIDE as usize));
        let bytes: String = picture.iter().map(|byte| format!("%{byte:02x}")).collect();
        format!("<img src='data:image/png,{bytes}'>").into_bytes()
    }),
    mechanism(
        "browser-layers-that-are-printed-each",
        BROWSER,
        Aim::Output,
        || {
            let layer =
                "<div style='backdrop-filter:blur(50px);position:absolute;inset:0;opacity:.5'>x</div>";
            times(layer, 2_000).into_bytes()
        },
    ),
];
