//! Ways to a service that nobody outside should reach: one entry per mechanism, `§` for the service's port.
//!
//! A mechanism is a rule that has to catch it (an address range, a name), or a path by which the address arrives (as a
//! text, by a redirect, from a name server, inside a page), or a notation that only some parsers read.

/// What a mechanism is, and the host or text that does it.
pub(super) type Mechanism = (&'static str, &'static str);

/// One attempt of the corpus.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) name: String,
    pub(super) way: Way,
}

/// How the address arrives.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// As the text that a model wrote.
    Written(String),
    /// By this answer of a server.
    Redirected(String),
    /// From a name server, as these answers one after the other.
    Resolved(Vec<Vec<&'static str>>),
    /// Inside a page with this body.
    Embedded(String),
}

/// All of them.
pub(super) fn all() -> Vec<Attempt> {
    let attempt = |name: String, way: Way| Attempt { name, way };
    let written = |kind: &'static str, (what, text): &Mechanism| {
        attempt(
            format!("written, {kind}: {what}"),
            Way::Written((*text).to_owned()),
        )
    };
    let by_rule = RANGES.iter().chain(NAMES).map(|(what, host)| {
        attempt(
            format!("written, address: {what}"),
            Way::Written(format!("http://{host}:§/")),
        )
    });
    let redirected_by_rule = RANGES.iter().chain(NAMES).map(|(what, host)| {
        let answer = format!("HTTP/1.1 302 Moved\r\nLocation: http://{host}:§/\r\n");
        attempt(format!("redirect, address: {what}"), Way::Redirected(answer))
    });
    let resolved_by_rule = RANGES.iter().map(|(what, host)| {
        attempt(
            format!("name server, address: {what}"),
            Way::Resolved(vec![vec![host.trim_matches(['[', ']'])]]),
        )
    });
    by_rule
        .chain(NOTATIONS.iter().map(|one| written("notation", one)))
        .chain(DISGUISES.iter().map(|one| written("disguise", one)))
        .chain(PROTOCOLS.iter().map(|one| written("protocol", one)))
        .chain(PORTS.iter().map(|one| written("port", one)))
        .chain(redirected_by_rule)
        .chain(REDIRECTS.iter().map(|(what, answer)| {
            attempt(
                format!("redirect, form: {what}"),
                Way::Redirected((*answer).to_owned()),
            )
        }))
        .chain(resolved_by_rule)
        .chain(ANSWERS.iter().map(|(what, answers)| {
            let answers = answers.iter().map(|answer| answer.to_vec()).collect();
            attempt(format!("name server, answers: {what}"), Way::Resolved(answers))
        }))
        .chain(
            PAGES
                .iter()
                .map(|(what, body)| attempt(format!("page: {what}"), Way::Embedded((*body).to_owned()))),
        )
        .collect()
}

/// A host in each range that is not the public internet, and in each form that carries one.
const RANGES: &[Mechanism] = &[
    ("loopback", "127.0.0.1"),
    ("end of loopback", "127.255.255.254"),
    ("this host", "0.0.0.0"),
    ("this network", "0.1.2.3"),
    ("private network, class A", "10.0.0.1"),
    ("private network, class B", "172.16.0.1"),
    ("end of the private network, class B", "172.31.255.254"),
    ("private network, class C", "192.168.0.1"),
    ("carrier network", "100.64.0.1"),
    ("metadata of a cloud in the carrier network", "100.100.100.200"),
    ("link-local", "169.254.0.1"),
    ("metadata of most clouds", "169.254.169.254"),
    ("credentials of containers", "169.254.170.2"),
    ("metadata on a public address", "168.63.129.16"),
    ("protocol assignments", "192.0.0.1"),
    ("documentation, first", "192.0.2.1"),
    ("documentation, second", "198.51.100.1"),
    ("documentation, third", "203.0.113.1"),
    ("relay of 6to4", "192.88.99.1"),
    ("benchmarking", "198.18.0.1"),
    ("reserved", "240.0.0.1"),
    ("IPv6 loopback", "[::1]"),
    ("IPv6 this host", "[::]"),
    ("IPv4-compatible", "[::127.0.0.1]"),
    ("IPv4-mapped loopback", "[::ffff:127.0.0.1]"),
    ("IPv4-mapped private network", "[::ffff:10.0.0.1]"),
    ("IPv4-mapped metadata", "[::ffff:169.254.169.254]"),
    ("IPv4-translated", "[::ffff:0:127.0.0.1]"),
    ("NAT64 of loopback", "[64:ff9b::127.0.0.1]"),
    ("NAT64 of metadata", "[64:ff9b::169.254.169.254]"),
    ("NAT64 of a local prefix", "[64:ff9b:1::127.0.0.1]"),
    ("6to4 of loopback", "[2002:7f00:1::]"),
    ("Teredo", "[2001:0:4136:e378:8000:63bf:3fff:fdd2]"),
    ("IPv6 protocol assignments", "[2001:1ff::1]"),
    ("ORCHID", "[2001:20::1]"),
    ("IPv6 documentation", "[2001:db8::1]"),
    ("IPv6 documentation, second", "[3fff::1]"),
    ("segment routing", "[5f00::1]"),
    ("discard only", "[100::1]"),
    ("site-local", "[fec0::1]"),
    ("unique local", "[fc00::1]"),
    ("unique local, metadata", "[fd00:ec2::254]"),
    ("outside of global unicast", "[4000::1]"),
];

/// Names that mean this machine or this network.
const NAMES: &[Mechanism] = &[
    ("localhost", "localhost"),
    ("localhost in capitals", "LOCALHOST"),
    ("localhost with its root", "localhost."),
    ("localhost in circled letters", "ⓛocalhost"),
    ("below localhost", "a.localhost"),
    ("localdomain", "localhost.localdomain"),
    ("local", "printer.local"),
    ("lan", "router.lan"),
    ("internal", "metadata.google.internal"),
    ("intranet", "wiki.intranet"),
    ("home", "x.home.arpa"),
    ("a name without a domain", "metadata"),
];

/// Loopback as only some parsers read it.
const NOTATIONS: &[Mechanism] = &[
    ("two parts", "http://127.1:§/"),
    ("three parts", "http://127.0.1:§/"),
    ("one number", "http://2130706433:§/"),
    ("one hexadecimal number", "http://0x7f000001:§/"),
    ("one octal number", "http://017700000001:§/"),
    ("hexadecimal parts", "http://0x7f.0x0.0x0.0x1:§/"),
    ("octal parts", "http://0177.0.0.01:§/"),
    ("mixed bases", "http://127.0x1:§/"),
    ("capital hexadecimal", "http://0X7F.0.0.1:§/"),
    ("zero", "http://0:§/"),
    ("hexadecimal zero", "http://0x0:§/"),
    ("many zeros", "http://00000000000:§/"),
    ("root after the address", "http://127.0.0.1.:§/"),
    ("percent-encoded digits", "http://%31%32%37.0.0.1:§/"),
    ("percent-encoded dots", "http://127%2e0%2e0%2e1:§/"),
    ("circled digits", "http://①②⑦.⓪.⓪.①:§/"),
    ("full-width digits", "http://１２７.0.0.1:§/"),
    ("mathematical digits", "http://𝟏𝟐𝟕.𝟎.𝟎.𝟏:§/"),
    ("superscript digits", "http://¹²⁷.0.0.1:§/"),
    ("ideographic full stops", "http://127。0。0。1:§/"),
    ("full-width full stops", "http://127．0．0．1:§/"),
    ("halfwidth full stops", "http://127｡0｡0｡1:§/"),
    ("soft hyphen inside", "http://127.0\u{ad}.0.1:§/"),
    ("zero-width space inside", "http://127.0.\u{200b}0.1:§/"),
    ("IPv6 in full", "http://[0:0:0:0:0:0:0:1]:§/"),
    (
        "IPv6 with zeros",
        "http://[0000:0000:0000:0000:0000:0000:0000:0001]:§/",
    ),
    ("IPv6 mapped in hexadecimal", "http://[::ffff:7f00:1]:§/"),
    ("IPv6 mapped in full", "http://[0:0:0:0:0:ffff:127.0.0.1]:§/"),
    ("IPv6 in capitals", "http://[::FFFF:7F00:1]:§/"),
    ("IPv6 NAT64 in hexadecimal", "http://[64:ff9b::7f00:1]:§/"),
    ("private network as a number", "http://3232235521:§/"),
    ("private network in two parts", "http://10.1:§/"),
    ("metadata in octal", "http://0251.0376.0251.0376:§/"),
    ("metadata as a hexadecimal number", "http://0xA9FEA9FE:§/"),
];

/// Texts in which the host is not where it seems to be.
const DISGUISES: &[Mechanism] = &[
    ("a public name as user", "http://example.com@127.0.0.1:§/"),
    (
        "a public name as user and password",
        "http://example.com:80@127.0.0.1:§/",
    ),
    ("an empty user", "http://@127.0.0.1:§/"),
    ("an empty user and password", "http://:@127.0.0.1:§/"),
    ("two at signs", "http://a@example.com@127.0.0.1:§/"),
    (
        "a public name in the fragment",
        "http://127.0.0.1:§#@example.com/",
    ),
    ("a public name in the query", "http://127.0.0.1:§?@example.com/"),
    (
        "a backslash before the at sign",
        "http://127.0.0.1:§\\@example.com/",
    ),
    ("a public name in the path", "http://127.0.0.1:§/example.com"),
    ("backslashes for slashes", "http:\\\\127.0.0.1:§/"),
    ("one slash", "http:/127.0.0.1:§/"),
    ("no slashes", "http:127.0.0.1:§/"),
    ("many slashes", "http://////127.0.0.1:§/"),
    ("mixed slashes", "http:/\\127.0.0.1:§/"),
    ("capital scheme", "HTTP://127.0.0.1:§/"),
    ("spaces around", "  http://127.0.0.1:§/  "),
    ("control characters around", "\u{1}http://127.0.0.1:§/\u{1f}"),
    ("a line end in the scheme", "ht\ntp://127.0.0.1:§/"),
    ("a tab in the host", "http://127.0.\t0.1:§/"),
    ("a carriage return in the port", "http://127.0.0.1:\r§/"),
    ("zeros before the port", "http://127.0.0.1:000§/"),
    ("dots that go up", "http://127.0.0.1:§/../../"),
    ("TLS", "https://127.0.0.1:§/"),
    (
        "a line end that splits the request",
        "http://127.0.0.1:§/\r\nHost: example.com",
    ),
    (
        "percent-encoded at sign in the user",
        "http://example.com%40x@127.0.0.1:§/",
    ),
    ("a name that looks public", "http://www.example.com.localhost:§/"),
];

/// Other protocols to the same place.
const PROTOCOLS: &[Mechanism] = &[
    ("files", "file:///etc/passwd"),
    ("files of a host", "file://localhost/etc/passwd"),
    ("files by one slash", "file:/etc/passwd"),
    ("FTP", "ftp://127.0.0.1:§/"),
    ("gopher, which sends any bytes", "gopher://127.0.0.1:§/_GET"),
    ("dictionary", "dict://127.0.0.1:§/"),
    ("directory", "ldap://127.0.0.1:§/"),
    ("web sockets", "ws://127.0.0.1:§/"),
    ("mail", "smtp://127.0.0.1:§/"),
    ("key-value server", "redis://127.0.0.1:§/"),
    ("no scheme", "//127.0.0.1:§/"),
    ("neither scheme nor slashes", "127.0.0.1:§"),
];

/// Services that are not the web, on a machine that is public.
const PORTS: &[Mechanism] = &[
    ("shell", "http://example.com:22/"),
    ("mail", "http://example.com:25/"),
    ("name server", "http://example.com:53/"),
    ("mail over TLS", "https://example.com:993/"),
    ("files of the network", "http://example.com:445/"),
];

/// Heads of answers that lead on.
const REDIRECTS: &[Mechanism] = &[
    ("300", "HTTP/1.1 300 Choose\r\nLocation: http://127.0.0.1:§/\r\n"),
    ("301", "HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:§/\r\n"),
    ("303", "HTTP/1.1 303 See\r\nLocation: http://127.0.0.1:§/\r\n"),
    ("307", "HTTP/1.1 307 Again\r\nLocation: http://127.0.0.1:§/\r\n"),
    ("308", "HTTP/1.1 308 Again\r\nLocation: http://127.0.0.1:§/\r\n"),
    (
        "without a scheme",
        "HTTP/1.1 302 Moved\r\nLocation: //127.0.0.1:§/\r\n",
    ),
    (
        "backslashes without a scheme",
        "HTTP/1.1 302 Moved\r\nLocation: \\\\127.0.0.1:§/\r\n",
    ),
    (
        "capital field name",
        "HTTP/1.1 302 Moved\r\nLOCATION: http://127.0.0.1:§/\r\n",
    ),
    (
        "no space after the field name",
        "HTTP/1.1 302 Moved\r\nLocation:http://127.0.0.1:§/\r\n",
    ),
    (
        "spaces around the target",
        "HTTP/1.1 302 Moved\r\nLocation:   http://127.0.0.1:§/   \r\n",
    ),
    (
        "a user before the host",
        "HTTP/1.1 302 Moved\r\nLocation: http://example.com@127.0.0.1:§/\r\n",
    ),
    (
        "one number as address",
        "HTTP/1.1 302 Moved\r\nLocation: http://2130706433:§/\r\n",
    ),
    (
        "a fragment that hides the rest",
        "HTTP/1.1 302 Moved\r\nLocation: http://127.0.0.1:§/#.example.com\r\n",
    ),
    (
        "to TLS",
        "HTTP/1.1 302 Moved\r\nLocation: https://127.0.0.1:§/\r\n",
    ),
    ("two hops", "HTTP/1.1 302 Moved\r\nLocation: /hop\r\n"),
    (
        "two targets",
        "HTTP/1.1 302 Moved\r\nLocation: http://127.0.0.1:§/\r\nLocation: http://example.com/\r\n",
    ),
    (
        "to a file",
        "HTTP/1.1 302 Moved\r\nLocation: file:///etc/passwd\r\n",
    ),
    (
        "to another protocol",
        "HTTP/1.1 302 Moved\r\nLocation: gopher://127.0.0.1:§/_x\r\n",
    ),
    (
        "refresh in the head",
        "HTTP/1.1 200 Fine\r\nRefresh: 0; url=http://127.0.0.1:§/\r\n",
    ),
    (
        "a place for the content",
        "HTTP/1.1 200 Fine\r\nContent-Location: http://127.0.0.1:§/\r\n",
    ),
    (
        "a link to load early",
        "HTTP/1.1 200 Fine\r\nLink: <http://127.0.0.1:§/>; rel=preload\r\n",
    ),
    (
        "created elsewhere",
        "HTTP/1.1 201 Made\r\nLocation: http://127.0.0.1:§/\r\n",
    ),
    (
        "an alternative service",
        "HTTP/1.1 200 Fine\r\nAlt-Svc: h2=\"127.0.0.1:§\"\r\n",
    ),
    (
        "a proxy to ask",
        "HTTP/1.1 305 Proxy\r\nLocation: http://127.0.0.1:§/\r\n",
    ),
];

/// Answers of a name server, one list a question.
const ANSWERS: &[(&str, &[&[&str]])] = &[
    ("public first", &[&["127.0.0.2", "127.0.0.1"]]),
    ("private first", &[&["127.0.0.1", "127.0.0.2"]]),
    (
        "private among many",
        &[&["8.8.8.8", "1.1.1.1", "9.9.9.9", "10.0.0.1", "8.8.4.4"]],
    ),
    ("public IPv4, private IPv6", &[&["8.8.8.8", "::1"]]),
    ("private IPv4, public IPv6", &[&["2606:4700::1111", "127.0.0.1"]]),
    ("the same private address twice", &[&["127.0.0.1", "127.0.0.1"]]),
    ("other loopback addresses", &[&["127.0.0.3", "127.1.2.3"]]),
];

/// Pages that name the service where a browser would ask it at once.
const PAGES: &[Mechanism] = &[
    ("picture", "<img src='http://127.0.0.1:§/'>"),
    ("picture by density", "<img srcset='http://127.0.0.1:§/ 2x'>"),
    (
        "picture of a set",
        "<picture><source srcset='http://127.0.0.1:§/'></picture>",
    ),
    ("frame", "<iframe src='http://127.0.0.1:§/'></iframe>"),
    (
        "frame with its own text",
        "<iframe srcdoc='&lt;img src=http://127.0.0.1:§/&gt;'></iframe>",
    ),
    (
        "old frame",
        "<frameset><frame src='http://127.0.0.1:§/'></frameset>",
    ),
    ("script", "<script src='http://127.0.0.1:§/'></script>"),
    (
        "script that asks",
        "<script>fetch('http://127.0.0.1:§/')</script>",
    ),
    (
        "module",
        "<script type=module>import 'http://127.0.0.1:§/'</script>",
    ),
    ("style sheet", "<link rel=stylesheet href='http://127.0.0.1:§/'>"),
    (
        "style sheet of a style sheet",
        "<style>@import 'http://127.0.0.1:§/';</style>",
    ),
    (
        "background",
        "<p style=\"background:url('http://127.0.0.1:§/')\">x",
    ),
    (
        "font",
        "<style>@font-face{font-family:x;src:url(http://127.0.0.1:§/)}p{font-family:x}</style><p>x",
    ),
    (
        "cursor",
        "<style>p{cursor:url(http://127.0.0.1:§/),auto}</style><p>x",
    ),
    (
        "marker of a list",
        "<ul style=\"list-style-image:url(http://127.0.0.1:§/)\"><li>x</ul>",
    ),
    (
        "generated content",
        "<style>p::before{content:url(http://127.0.0.1:§/)}</style><p>x",
    ),
    ("icon", "<link rel=icon href='http://127.0.0.1:§/'>"),
    (
        "loaded early",
        "<link rel=preload as=image href='http://127.0.0.1:§/'>",
    ),
    ("fetched early", "<link rel=prefetch href='http://127.0.0.1:§/'>"),
    (
        "connected early",
        "<link rel=preconnect href='http://127.0.0.1:§/'>",
    ),
    ("manifest", "<link rel=manifest href='http://127.0.0.1:§/'>"),
    (
        "refresh",
        "<meta http-equiv=refresh content='0;url=http://127.0.0.1:§/'>",
    ),
    (
        "base of all addresses",
        "<base href='http://127.0.0.1:§/'><img src='x.png'>",
    ),
    (
        "canonical address",
        "<link rel=canonical href='http://127.0.0.1:§/'>",
    ),
    ("object", "<object data='http://127.0.0.1:§/'></object>"),
    ("embedded", "<embed src='http://127.0.0.1:§/'>"),
    (
        "applet",
        "<applet codebase='http://127.0.0.1:§/' code=x></applet>",
    ),
    ("sound", "<audio src='http://127.0.0.1:§/' autoplay></audio>"),
    ("film", "<video src='http://127.0.0.1:§/' autoplay></video>"),
    ("poster of a film", "<video poster='http://127.0.0.1:§/'></video>"),
    (
        "subtitles",
        "<video><track default src='http://127.0.0.1:§/'></video>",
    ),
    (
        "picture in a drawing",
        "<svg><image href='http://127.0.0.1:§/'/></svg>",
    ),
    (
        "drawing in a drawing",
        "<svg><use href='http://127.0.0.1:§/#x'/></svg>",
    ),
    (
        "filter of a drawing",
        "<svg><filter id=f><feImage href='http://127.0.0.1:§/'/></filter></svg>",
    ),
    (
        "style of a drawing",
        "<svg><style>@import url(http://127.0.0.1:§/);</style></svg>",
    ),
    (
        "button with a picture",
        "<input type=image src='http://127.0.0.1:§/'>",
    ),
    (
        "form that sends itself",
        "<form id=f action='http://127.0.0.1:§/'></form><script>f.submit()</script>",
    ),
    (
        "table with a background",
        "<table background='http://127.0.0.1:§/'><tr><td>x</table>",
    ),
    (
        "page with a background",
        "<body background='http://127.0.0.1:§/'>x",
    ),
    (
        "report of a link",
        "<a href='http://example.com/' ping='http://127.0.0.1:§/'>x</a>",
    ),
    (
        "entity of the document",
        "<!DOCTYPE html [<!ENTITY x SYSTEM 'http://127.0.0.1:§/'>]><p>&x;",
    ),
    (
        "definition of the document",
        "<!DOCTYPE html SYSTEM 'http://127.0.0.1:§/x.dtd'><p>x",
    ),
    (
        "style sheet of XML",
        "<?xml-stylesheet href='http://127.0.0.1:§/'?><p>x",
    ),
    (
        "included XML",
        "<p xmlns:i='http://www.w3.org/2001/XInclude'><i:include href='http://127.0.0.1:§/'/>x",
    ),
];
